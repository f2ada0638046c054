//! Diagnostics of invalid scenarios, as a readable table: the change to a valid scenario, and the
//! resulting message.

mod common;

use std::fmt::Write;

use sim::scenario::parse;

const GOOD: &str = r#"duration = "10ms"
[switch.a]
config = "10g.toml"
[switch.b]
config = "10g.toml"
[host."h[1-4]"]
[[link]]
ends = ["h[1-2]", "a.p[1-2]"]
[[link]]
ends = ["h[3-4]", "b.p[1-2]"]
[[link]]
ends = ["a.up", "b.up"]
[[traffic]]
name = "rdma"
from = "h[1-2]"
to = "h3"
"#;

/// The text to replace in the valid scenario, and its replacement. Empty text appends at the end.
const CHANGES: &[(&str, &str)] = &[
    // the file
    ("duration = \"10ms\"", "duration = 10ms"),
    ("duration = \"10ms\"", ""),
    ("duration = \"10ms\"", "duration = 10"),
    ("duration = \"10ms\"", "duration = \"10\""),
    ("duration = \"10ms\"", "duration = \"0s\""),
    ("duration = \"10ms\"", "duration = \"1001s\""),
    ("duration = \"10ms\"", "duration = \"10ms\"\nduratoin = 5"),
    ("duration = \"10ms\"", "duration = \"10ms\"\ntitle = \"two\\nlines\""),
    ("duration = \"10ms\"", "duration = \"10ms\"\nseed = -1"),
    ("duration = \"10ms\"", "duration = \"10ms\"\nsample = \"1ns\""),
    ("duration = \"10ms\"", "duration = \"10ms\"\nsample = \"11ms\""),
    ("duration = \"10ms\"", "duration = \"10ms\"\nforwarding = \"lern\""),
    ("duration = \"10ms\"", "duration = \"10ms\"\nmultipath = \"hash\""),
    ("duration = \"10ms\"", "duration = \"10ms\"\nconvergence = 5"),
    (
        "duration = \"10ms\"",
        "duration = \"10ms\"\nforwarding = \"learn\"\nmultipath = \"flow\"\nconvergence = \"1us\"",
    ),
    ("[switch.b]", "[switch.b]\nmultipath = \"random\""),
    ("[switch.b]", "[switch.b]\nhash_seed = 1"),
    ("duration = \"10ms\"", "duration = \"10ms\"\nforwarding = \"learn\"\nhash_seed = 1"),
    ("duration = \"10ms\"", "duration = \"10ms\"\nmultipath = \"flo\"\nhash_seed = 1"),
    ("duration = \"10ms\"", "duration = \"10ms\"\nmultipath = \"spray\"\nhash_fields = [\"src-ip\"]"),
    ("duration = \"10ms\"", "duration = \"10ms\"\nmultipath = \"flow\"\nhash_fields = [\"src-ipp\"]"),
    ("duration = \"10ms\"", "duration = \"10ms\"\nmultipath = \"flow\"\nhash_fields = [\"vlan\", \"vlan\"]"),
    ("duration = \"10ms\"", "duration = \"10ms\"\nmultipath = \"flow\"\nhash_fields = []"),
    ("duration = \"10ms\"", "duration = \"10ms\"\nmultipath = \"flow\"\nhash_fields = \"src-ip\""),
    ("", "[network]\nleaves = 2"),
    ("", "[[vary]]"),
    ("", "[[vary]]\nset = \"seed\"\nvalues = [1, 1]"),
    ("", "[[vary]]\nset = \"seed\"\nvalues = [1]\nfrom = 1\nto = 2\nstep = 1"),
    ("", "[[vary]]\nset = \"seed\"\nfrom = 1\nto = 2"),
    ("", "[[vary]]\nset = \"seed\"\nfrom = 2\nto = 1\nstep = 1"),
    ("", "[[vary]]\nset = \"seed\"\nto = 2"),
    ("", "[[vary]]\nset = \"seed\"\nfrom = 0\nto = 2\nsteps = 3\nscale = \"log\""),
    ("", "[sweep]\nseeds = 0"),
    ("", "[sweep]\nseeds = [1, 1]"),
    ("", "[sweep]\nsteps = 3"),
    ("", "[network]\nkind = \"leaf\""),
    ("", "[network]\nkind = \"leaf-spine\"\nleaves = 2\nk = 4\nglobal_speed = \"100G\""),
    ("", "[network]\nkind = \"fat-tree\"\nk = 5"),
    ("", "[network]\nkind = \"fat-tree\"\nk = 32"),
    ("", "[network]\nkind = \"fat-tree\"\nk = 4\nconfig = \"10g.toml\""),
    ("", "[network]\nkind = \"fat-tree\"\nk = 4\nconfig = \"missing.toml\""),
    ("", "[network]\nkind = \"fat-tree\"\nk = 4\nconfig = \"wrong.toml\""),
    ("", "[network]\nkind = \"rail\"\npods = 9\nservers_per_pod = 4\nrails = 8\nspines = 4"),
    (
        "",
        "[network]\nkind = \"dragonfly\"\nrouters_per_group = 16\nhosts_per_router = 8\nglobal_links_per_router = 8",
    ),
    ("", "[swich.c]"),
    // nodes
    ("[switch.b]\nconfig = \"10g.toml\"", "[switch.b]"),
    ("[switch.b]\nconfig = \"10g.toml\"", "[switch.b]\nconfig = \"missing.toml\""),
    ("[switch.b]\nconfig = \"10g.toml\"", "[switch.b]\nconfig = \"wrong.toml\""),
    ("[switch.b]\nconfig = \"10g.toml\"", "[switch.b]\nconfig = [\"10g.toml\"]"),
    ("[switch.b]", "[switch.b]\nturn = \"-1us\""),
    ("[switch.b]", "[switch.b]\nports = 3"),
    ("[switch.b]", "[switch.b]\nconfig = \"10g.toml\"\n[switch.a]"),
    ("[switch.b]", "[switch.c]"),
    ("[switch.b]", "[switch.\"b.c\"]"),
    ("[switch.b]", "[switch.\"b c\"]"),
    ("[switch.b]", "[switch.\"b[1-600]\"]"),
    ("[host.\"h[1-4]\"]", "[host.\"h[1-3]\"]"),
    ("[host.\"h[1-4]\"]", "[host.\"h[1-7]\"]"),
    ("[host.\"h[1-4]\"]", "[host.\"h[4-1]\"]"),
    ("[host.\"h[1-4]\"]", "[host.\"h[a-d]\"]"),
    ("[host.\"h[1-4]\"]", "[host.\"h[1-5000]\"]"),
    ("[host.\"h[1-4]\"]", "[host.\"h[1-4]\"]\nno_drop = [8]"),
    ("[host.\"h[1-4]\"]", "[host.\"h[1-4]\"]\ndcqcn = true"),
    ("[host.\"h[1-4]\"]", "[host.\"h[1-4]\"]\ndcqcn = { additive = \"5M\" }"),
    ("[host.\"h[1-4]\"]", "[host.\"h[1-4]\"]\ndcqcn = { fast_steps = 0, gain = 2 }"),
    ("[host.\"h[1-4]\"]", "[host.\"h[1-4]\"]\n[host.h2]"),
    ("[host.\"h[1-4]\"]", "[host.\"h[1-4]\"]\n[host.a]"),
    ("[host.\"h[1-4]\"]", ""),
    // links
    ("ends = [\"a.up\", \"b.up\"]", ""),
    ("ends = [\"a.up\", \"b.up\"]", "ends = \"a.up\""),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\"]"),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", 3]"),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"b.upp\"]"),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"b.down\"]"),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"c.up\"]"),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"backbone.up\"]"),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"b\"]"),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"h4.eth0\"]"),
    ("[host.\"h[1-4]\"]", "[host.\"h[1-4]\"]\nports = 9"),
    ("[host.\"h[1-4]\"]", "[host.\"h[1-4]\"]\nports = 2"),
    ("[host.\"h[1-4]\"]", "[host.\"h[1-4]\"]\nbond = \"balance-xor\""),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"h5.1\"]\n[host.h5]\nports = 2"),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"h5.3\"]\n[host.h5]\nports = 2"),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"a.p1\"]"),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"b.p1\"]"),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"h1\"]"),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"b.up]\"]"),
    ("ends = [\"h[3-4]\", \"b.p[1-2]\"]", "ends = [\"h[3-4]\", \"b.p[1-3]\"]"),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"b.up\"]\nspeed = \"25G\""),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"b.up\"]\nspeed = \"10g\""),
    ("[switch.b]\nconfig = \"10g.toml\"", "[switch.b]\nconfig = \"25g.toml\""),
    ("[switch.b]\nconfig = \"10g.toml\"", "[switch.b]\nconfig = \"long.toml\""),
    (
        "[[link]]\nends = [\"a.up\", \"b.up\"]",
        "[[link]]\nends = [\"a.up\", \"b.up\"]\ncable_m = 5\n[switch.c]\nconfig = \"long.toml\"\n[[link]]\nends = [\"c.p1\", \"h9\"]\n[host.h9]\n[switch.d]\nconfig = \"10g.toml\"\n[[link]]\nends = [\"c.up\", \"d.up\"]\ncable_m = 5",
    ),
    ("[switch.b]\nconfig = \"10g.toml\"", "[switch.b]\nconfig = \"no-pfc.toml\""),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"b.up\"]\ncable_m = -1"),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"b.up\"]\nmtu = 10000"),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"b.up\"]\ndelay_ns_per_m = nan"),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"b.up\"]\nresponse = \"2s\""),
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"b.up\"]\nlength = 5"),
    ("[[link]]\nends = [\"a.up\", \"b.up\"]", ""),
    ("[[link]]\nends = [\"h[3-4]\", \"b.p[1-2]\"]", ""),
    ("duration = \"10ms\"", "duration = \"10ms\"\nlink = 5"),
    // traffic
    ("[[traffic]]\nname = \"rdma\"\nfrom = \"h[1-2]\"\nto = \"h3\"", ""),
    ("name = \"rdma\"", ""),
    ("name = \"rdma\"", "name = \"r d\""),
    ("from = \"h[1-2]\"", ""),
    ("from = \"h[1-2]\"", "from = []"),
    ("from = \"h[1-2]\"", "from = [\"h[1-2]\", \"h2\"]"),
    ("from = \"h[1-2]\"", "from = [\"h[1-2]\", 3]"),
    ("from = \"h[1-2]\"", "from = \"h[1-9]\""),
    ("from = \"h[1-2]\"", "from = \"a\""),
    ("to = \"h3\"", "to = \"H3\""),
    ("from = \"h[1-2]\"", "from = \"h3\""),
    ("to = \"h3\"", "to = \"h3\"\npriority = 8\ndscp = 64\nframe_bytes = 63"),
    ("to = \"h3\"", "to = \"h3\"\nframe_bytes = 1537"),
    ("to = \"h3\"", "to = \"h3\"\nrate = \"1T\""),
    ("to = \"h3\"", "to = \"h3\"\npattern = \"burst\""),
    ("to = \"h3\"", "to = \"h3\"\npattern = \"all-reduce\"\nbytes = 1000"),
    ("from = \"h[1-2]\"\nto = \"h3\"", "from = \"h1\"\npattern = \"all-to-all\"\nbytes = 1000"),
    (
        "from = \"h[1-2]\"\nto = \"h3\"",
        "from = \"h[1-3]\"\npattern = \"all-reduce\"\nalgorithm = \"halving-doubling\"\nbytes = 1000",
    ),
    ("from = \"h[1-2]\"\nto = \"h3\"", "from = \"h[1-3]\"\npattern = \"all-reduce\""),
    ("to = \"h3\"", "to = \"h3\"\nalgorithm = \"ring\""),
    ("to = \"h3\"", "to = \"h3\"\npairs = \"permutation\""),
    ("to = \"h3\"", "to = \"h3\"\nrate = \"1G\"\nload = 0.5"),
    ("to = \"h3\"", "to = \"h3\"\npattern = \"poisson\"\nload = 0.5\nsizes = \"web\""),
    ("to = \"h3\"", "to = \"h3\"\nframes = \"none.csv\""),
    ("to = \"h3\"", "to = \"h3\"\nframes = \"short.csv\""),
    ("to = \"h3\"", "to = \"h3\"\nframes = \"jumbo.csv\""),
    ("to = \"h3\"", "to = \"h3\"\nframes = \"late.csv\""),
    (
        "to = \"h3\"",
        "to = \"h3\"\nframes = \"many.csv\"\n[[traffic]]\nname = \"more\"\nfrom = \"h1\"\nto = \"h2\"\nframes = \"many.csv\"",
    ),
    ("to = \"h3\"", "to = \"h3\"\nframes = \"frames.csv\"\nrate = \"1G\"\nframe_bytes = 64"),
    ("to = \"h3\"", "to = \"h3\"\npattern = \"trace\""),
    ("to = \"h3\"", "to = \"h3\"\npattern = \"constant\"\nframes = \"frames.csv\""),
    ("to = \"h3\"", "to = \"h3\"\nafter = [\"rdma\", 3]"),
    ("to = \"h3\"", "to = \"h3\"\npattern = \"on-off\"\non = \"1us\""),
    ("to = \"h3\"", "to = \"h3\"\npattern = \"on-off\"\non = \"1us\"\noff = \"0s\""),
    ("to = \"h3\"", "to = \"h3\"\npattern = \"finite\""),
    ("to = \"h3\"", "to = \"h3\"\npattern = \"poisson\""),
    ("to = \"h3\"", "to = \"h3\"\npattern = \"incast\""),
    ("to = \"h3\"", "to = \"h3\"\nevery = \"1ms\""),
    ("to = \"h3\"", "to = \"h3\"\nbytes = \"1M\"\non = \"1ms\""),
    ("to = \"h3\"", "to = \"h3\"\npattern = \"constant\"\nbytes = 5"),
    ("to = \"h3\"", "to = \"h3\"\nbytes = 0"),
    ("to = \"h3\"", "to = \"h3\"\nbytes = \"1K\""),
    ("to = \"h3\"", "to = \"h3\"\npattern = \"incast\"\nbytes = 1\nevery = \"1ns\""),
    ("to = \"h3\"", "to = \"h3\"\nstart = \"10ms\""),
    ("to = \"h3\"", "to = \"h3\"\nstop = \"11ms\""),
    ("to = \"h3\"", "to = \"h3\"\nstart = \"5ms\"\nstop = \"5ms\""),
    ("to = \"h3\"", "to = \"h3\"\necn = false\ndcqcn = true"),
    ("to = \"h3\"", "to = \"h3\"\ndcqcn_fast_recovery = \"up_to_f\""),
    ("to = \"h3\"", "to = \"h3\"\ndcqcn = 5"),
    (
        "to = \"h3\"",
        "to = \"h3\"\ndcqcn = { gain = 2, additive = 5, cnp_interval = \"0ns\", fast_recovery = \"f\", r_ai = \"1M\" }",
    ),
    ("duration = \"10ms\"", "duration = \"10ms\"\nwarmup = \"10ms\""),
    ("to = \"h3\"", "to = \"h3\"\nafter = \"rmda\""),
    ("to = \"h3\"", "to = \"h3\"\nafter = \"rdma\""),
    ("to = \"h3\"", "to = \"h3\"\nbytes = 1\nafter = \"rdma\""),
    (
        "to = \"h3\"",
        "to = \"h3\"\nafter = \"one\"\n[[traffic]]\nname = \"one\"\nfrom = \"h1\"\nto = \"h2\"\npattern = \"incast\"\n\
         bytes = 1\nevery = \"1ms\"",
    ),
    (
        "to = \"h3\"",
        "to = \"h3\"\nbytes = 1\n[[traffic]]\nname = \"one\"\nfrom = \"h1\"\nto = \"h2\"\npattern = \"incast\"\n\
         bytes = 1\nevery = \"1ms\"\nafter = \"rdma\"\nstop = \"5ms\"\n[[traffic]]\nname = \"two\"\nfrom = \"h1\"\n\
         to = \"h2\"\nafter = \"one\"",
    ),
    ("to = \"h3\"", "to = \"h3\"\nstart = \"1ms\"\nafter = \"rdma\"\nbytes = 1"),
    (
        "to = \"h3\"",
        "to = \"h3\"\nafter = \"one\"\n[[traffic]]\nname = \"one\"\nfrom = \"h1\"\nto = \"h2\"\nbytes = 1\nafter = \"two\"\n\
         [[traffic]]\nname = \"two\"\nfrom = \"h1\"\nto = \"h2\"\nbytes = 1\nafter = \"one\"",
    ),
    ("", "[[traffic]]\nname = \"rdma\"\nfrom = \"h1\"\nto = \"h2\""),
    // forwarding
    ("[[link]]\nends = [\"a.up\", \"b.up\"]", "[[link]]\nends = [\"h9\", \"b.up\"]\n[host.h9]"),
    (
        "duration = \"10ms\"",
        "forwarding = \"learn\"\nduration = \"10ms\"\n[[link]]\nends = [\"c.up\", \"d.up\"]\n\
         [[link]]\nends = [\"c.p1\", \"d.p1\"]\n[switch.c]\nconfig = \"10g.toml\"\n[switch.d]\nconfig = \"10g.toml\"",
    ),
    ("", "[[route]]\nswitch = \"a\"\nto = \"h3\""),
    ("", "[[route]]\nswitch = \"h1\"\nto = \"a\"\nport = \"up\""),
    ("", "[[route]]\nswitch = \"a\"\nto = \"h3\"\nport = \"p9\""),
    ("", "[[route]]\nswitch = \"a\"\nto = \"h3\"\nport = \"p1\""),
    (
        "ends = [\"h[1-2]\", \"a.p[1-2]\"]",
        "ends = [\"h[1-2]\", \"c.p[1-2]\"]\n[[route]]\nswitch = \"a\"\nto = \"h3\"\nport = \"p1\"\n[[link]]\nends = [\"c.up\", \"a.p2\"]\n[switch.c]\nconfig = \"10g.toml\"",
    ),
    (
        "",
        "[[route]]\nswitch = \"a\"\nto = \"h3\"\nport = \"up\"\n[[route]]\nswitch = \"a\"\nto = \"h3\"\nport = \"up\"",
    ),
    // faults
    ("", "[[fault]]"),
    ("", "[[fault]]\nat = \"10ms\"\nlink-down = \"a.up\""),
    ("", "[[fault]]\nat = \"1ms\"\nlink_down = \"a.up\""),
    ("", "[[fault]]\nat = \"1ms\"\nlink-down = \"a.upp\""),
    ("", "[[fault]]\nat = \"1ms\"\nlink-up = \"a.up\""),
    ("", "[[fault]]\nat = \"1ms\"\nlink-down = \"a.up\"\n[[fault]]\nat = \"2ms\"\nlink-down = \"b.up\""),
    ("", "[[fault]]\nat = \"1ms\"\nlink-down = \"a.up\"\nlink-up = \"b.up\""),
    ("", "[[fault]]\nat = \"1ms\"\nlink-down = \"a.up\"\nfor = \"1ms\""),
    ("", "[[fault]]\nat = \"1ms\"\nstorm = \"h1\""),
    ("", "[[fault]]\nat = \"1ms\"\nstorm = \"a\"\npriorities = []\nfor = \"0s\""),
    ("", "[[fault]]\nat = \"1ms\"\nroute = { switch = \"a\", to = \"h9\", port = \"up\", via = \"b\" }"),
    (
        "ends = [\"h[1-2]\", \"a.p[1-2]\"]",
        "ends = [\"h1\", \"a.p1\"]\n[[link]]\nends = [\"h2\", \"h5\"]\n[host.h5]\n[[fault]]\nat = \"1ms\"\nlink-down = \"a.p2\"",
    ),
    // a wrong speed is the first complaint, and the only one
    ("ends = [\"a.up\", \"b.up\"]", "ends = [\"a.up\", \"b.up\"]\nspeed = \"0\""),
    ("ends = [\"h[1-2]\", \"a.p[1-2]\"]", "ends = [\"h[1-2]\", \"a.p[1-2]\"]\nspeed = \"1000000G\""),
    // expectations
    ("", "[[expect]]"),
    ("", "[[expect]]\nlots = 0"),
    ("", "[[expect]]\nlost = \"none\""),
    ("", "[[expect]]\nlost = -1"),
    ("", "[[expect]]\nlost = {}"),
    ("", "[[expect]]\nlost = { at_least = 2, at_most = 1 }"),
    ("", "[[expect]]\nlost = { at_leats = 2 }"),
    ("", "[[expect]]\nstuck = 5"),
    ("", "[[expect]]\nthroughput = { at_least = \"4g\" }"),
    ("", "[[expect]]\ntraffic = \"rmda\"\nlost = 0"),
    ("", "[[expect]]\ntraffic = \"rdma\"\nxoff_episodes = 0"),
    ("", "[[expect]]\ntraffic = \"rdma\"\ncompleted = 2"),
    ("", "[[expect]]\npriority = 3\nlost = 0"),
    ("", "[[expect]]\npriority = 8\nlost = 0"),
    ("", "[[expect]]\nswitch = \"h1\"\nlost = 0"),
    ("", "[[expect]]\nswitch = \"a\"\nreordered = 0"),
    ("", "[[expect]]\nport = \"a.p1\"\nthroughput = \"4G\""),
    ("", "[[expect]]\nport = \"a.p1\"\nin_network = 0"),
    ("", "[[expect]]\nport = \"h1\"\nlost = 0"),
    ("", "[[expect]]\nport = \"p1\"\nlost = 0"),
    ("", "[[expect]]\nport = \"a.p1\"\nswitch = \"a\"\nlost = 0"),
];

fn message_of(text: &str) -> String {
    match parse("x.toml", text, &mut common::load) {
        Ok(_) => "nothing is wrong\n".to_owned(),
        Err(mistakes) => mistakes.iter().map(|mistakes| format!("{mistakes}\n")).collect(),
    }
}

#[test]
fn wrong_scenarios() {
    assert_eq!(message_of(GOOD), "nothing is wrong\n");
    let mut table = format!("The good scenario:\n\n{GOOD}\n");
    for (old, new) in CHANGES {
        let text = match *old {
            "" => format!("{GOOD}{new}\n"),
            old => GOOD.replacen(old, new, 1),
        };
        assert!(text != GOOD, "{old:?} is not there");
        let lines = |text: &str, sign: &str| {
            text.lines().map(|line| format!("  {sign} {line}\n")).collect::<String>()
        };
        let _ = writeln!(table, "{}{}{}", lines(old, "-"), lines(new, "+"), message_of(&text));
    }
    insta::assert_snapshot!(table);
}

/// Of many nodes, not all are listed, and a mistake is not repeated for each.
#[test]
fn of_many() {
    let text = GOOD.replace("h[1-4]", "h[1-4000]").replace("\"h3\"", "\"g3\"");
    insta::assert_snapshot!(message_of(&text));
    let text = GOOD.replace("h[1-2]", "h[3-4000]").replace("h[1-4]", "h[1-4000]");
    insta::assert_snapshot!(message_of(&text));
    let text = GOOD.replace("h[1-4]", "h[1-4000]");
    insta::assert_snapshot!(message_of(&text));
}
