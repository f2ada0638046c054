//! The contents of the booted machine: an initramfs with the project's programs, a test program,
//! the tools that tests use, the libraries of all of them, and the kernel modules that they need.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::kernel::Kernel;
use crate::packages::on_path;
use crate::run::{cargo, check, log};

/// Tools that the tests of `nic` and the shell call.
const TOOLS: [&str; 16] = [
    "busybox",
    "ip",
    "tc",
    "ethtool",
    "nstat",
    "ping",
    "iperf3",
    "setpriv",
    "nice",
    "rdma",
    "ib_write_bw",
    "ib_send_bw",
    "rping",
    "tcpdump",
    "bpftool",
    "taskset",
];

/// Tools that other tests call in addition; with its libraries tshark is larger than all others.
const OTHER_TOOLS: [&str; 3] = ["tshark", "dumpcap", "sysctl"];

/// Tools that guests of a switch call in addition.
const GUEST_TOOLS: [&str; 1] = ["socat"];

/// Modules, loaded with their dependencies; a module that is built in or missing is skipped.
const MODULES: [&str; 33] = [
    "virtio_pci",
    "virtio_net",
    "igb",
    "veth",
    "sch_ingress",
    "cls_bpf",
    "cls_matchall",
    "act_gact",
    "act_mirred",
    "8021q",
    "bridge",
    "dummy",
    "macvlan",
    "tun",
    "af_packet",
    "ipv6",
    "sch_fq",
    "sch_fq_codel",
    "sch_prio",
    "xsk_diag",
    "ib_core",
    "ib_uverbs",
    "rdma_cm",
    "rdma_ucm",
    "rdma_rxe",
    "crc32c",
    "crc32_generic",
    "udp_tunnel",
    "ip6_udp_tunnel",
    "sch_mqprio",
    "cls_u32",
    "act_skbedit",
    "virtio_rng",
];

/// Files that the programs open by name.
const DATA: [&str; 3] = ["/etc/libibverbs.d", "/usr/lib/x86_64-linux-gnu/libibverbs", "/etc/protocols"];

/// The built programs.
pub struct Programs {
    /// The project's own programs, and those that tests run.
    ours: Vec<PathBuf>,
    /// Test programs and their names. Two packages may have one of the same name.
    tests: Vec<(PathBuf, String)>,
    /// Tools that they call in addition to those that all images have.
    tools: &'static [&'static str],
}

impl Programs {
    /// The programs of a guest, which knows nothing of this project.
    pub fn of_guest() -> Self {
        Self { ours: Vec::new(), tests: Vec::new(), tools: &GUEST_TOOLS }
    }
}

/// Builds `sluiced`, `sluice`, test programs and what these run, all at once and for the whole
/// workspace: so dependencies are built once, with the features that `cargo test --workspace` gives
/// them.
pub fn build_programs(tests: &[String]) -> Result<Programs> {
    log("building");
    let mut command = cargo();
    command.args(["build", "--workspace", "--bins", "--examples", "--message-format", "json"]);
    command.args(tests.iter().flat_map(|test| ["--test", test]));
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "the programs do not build");
    let messages = String::from_utf8_lossy(&output.stdout);
    let tools: &[&str] = if tests.iter().all(|test| test == "nic") { &[] } else { &OTHER_TOOLS };
    let mut programs = Programs { ours: Vec::new(), tests: Vec::new(), tools };
    for name in ["sluiced", "sluice", "hold_rtnl"] {
        programs.ours.extend(executables(&messages, name));
    }
    ensure!(programs.ours.len() == 3, "cargo does not print where it put sluiced and sluice");
    for test in tests {
        let found = executables(&messages, test);
        ensure!(!found.is_empty(), "cargo does not print where it put {test}");
        programs.tests.extend(found.into_iter().map(|program| (program, test.clone())));
    }
    Ok(programs)
}

/// Returns the programs with this name in cargo's messages, one JSON object a line.
fn executables(messages: &str, name: &str) -> Vec<PathBuf> {
    let named = format!("\"name\":\"{name}\"");
    let lines = messages.lines().filter(|line| line.contains(&named));
    let paths = lines.filter_map(|line| line.split_once("\"executable\":\"")?.1.split_once('"'));
    paths.map(|(path, _)| PathBuf::from(path)).collect()
}

/// Packs everything, with `command` to run inside, into the image of this name. Returns the file.
pub fn pack(kernel: &Kernel, name: &str, programs: &Programs, command: &str) -> Result<PathBuf> {
    let root = kernel.folder.join(name);
    if root.exists() {
        std::fs::remove_dir_all(&root)?;
    }
    for dir in
        ["bin", "sbin", "usr", "proc", "sys", "dev", "run/netns", "tmp", "etc", "tests", "lib64", "var"]
    {
        std::fs::create_dir_all(root.join(dir))?;
    }
    symlink("../bin", root.join("usr/bin"))?;
    symlink("../bin", root.join("usr/sbin"))?;
    symlink("../lib", root.join("usr/lib"))?;
    let mut libraries = BTreeSet::new();
    for tool in TOOLS.iter().chain(programs.tools) {
        // A missing tool is not called: the tests of soft-RoCE report it where its tools are
        // missing.
        if let Some(path) = on_path(tool) {
            copy_program(&path, &root.join("bin").join(tool), &mut libraries)?;
        }
    }
    for program in &programs.ours {
        let name = program.file_name().context("a program has a name")?;
        copy_stripped(program, &root.join("bin").join(name), &mut libraries)?;
    }
    for (number, (program, name)) in programs.tests.iter().enumerate() {
        copy_stripped(program, &root.join(format!("tests/{name}.{number}")), &mut libraries)?;
    }
    for path in DATA.map(Path::new) {
        copy_data(path, &root, &mut libraries)?;
    }
    for library in &libraries {
        let to = root.join(library.strip_prefix("/")?);
        std::fs::create_dir_all(to.parent().context("a library lies in a directory")?)?;
        std::fs::copy(library, &to).with_context(|| format!("{}", library.display()))?;
    }
    copy_modules(kernel, &root)?;
    for applet in
        ["sh", "mount", "mkdir", "cat", "grep", "dmesg", "poweroff", "modprobe", "sleep", "ls", "echo", "wc"]
    {
        symlink("busybox", root.join("bin").join(applet))?;
    }
    symlink("../bin/busybox", root.join("sbin/modprobe"))?;
    std::fs::write(root.join("etc/passwd"), "root:x:0:0:root:/:/bin/sh\n")?;
    std::fs::write(root.join("etc/group"), "root:x:0:\n")?;
    let init = root.join("init");
    std::fs::write(&init, INIT.replace("@COMMAND@", command).replace("@MODULES@", &MODULES.join(" ")))?;
    std::fs::set_permissions(&init, std::fs::Permissions::from_mode(0o755))?;
    archive(&root, &kernel.folder.join(format!("{name}.cpio")))
}

/// The init process. It ends with a line that has the command's exit status and the number of
/// kernel warnings.
const INIT: &str = r#"#!/bin/sh
export PATH=/bin:/sbin HOME=/ TMPDIR=/tmp SLUICE_BIN_DIR=/bin NO_COLOR=1 RUST_BACKTRACE=0 SLUICE_RIG=1
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mount -t bpf bpf /sys/fs/bpf; mount -t tmpfs run /run; mount -t tmpfs tmp /tmp
mkdir -p /run/netns /dev/shm /dev/pts; mount -t tmpfs shm /dev/shm
for module in @MODULES@; do modprobe -q $module; done
/bin/ip link set lo up # and not the shell's own
ulimit -n 65536; ulimit -l unlimited
echo "vm: $(cat /proc/sys/kernel/osrelease) is up after $(cat /proc/uptime) s"
@COMMAND@
status=$?
echo "vm: kernel warnings:"
dmesg | grep -E 'WARNING:|BUG:|Oops|Call Trace|general protection|refcount_t|stall|unregister_netdevice: waiting' > /tmp/warnings
cat /tmp/warnings
echo "vm: exit $status warnings $(grep -c . /tmp/warnings)"
poweroff -f
"#;

/// Copies a program and records its libraries.
fn copy_program(from: &Path, to: &Path, libraries: &mut BTreeSet<PathBuf>) -> Result<()> {
    std::fs::copy(from, to).with_context(|| format!("{}", from.display()))?;
    add_libraries(from, libraries)
}

/// Copies a program without debug information, which is most of its size.
fn copy_stripped(from: &Path, to: &Path, libraries: &mut BTreeSet<PathBuf>) -> Result<()> {
    check(Command::new("llvm-strip").arg("-o").arg(to).arg(from))?;
    add_libraries(from, libraries)
}

fn add_libraries(program: &Path, libraries: &mut BTreeSet<PathBuf>) -> Result<()> {
    let output = Command::new("ldd").arg(program).output().context("cannot run ldd")?;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let path = line.split_whitespace().find(|word| word.starts_with('/'));
        libraries.extend(path.map(PathBuf::from));
    }
    Ok(())
}

fn copy_data(path: &Path, root: &Path, libraries: &mut BTreeSet<PathBuf>) -> Result<()> {
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            copy_data(&entry?.path(), root, libraries)?;
        }
    } else if path.is_file() {
        let to = root.join(path.strip_prefix("/")?);
        // In the image usr/lib is a link.
        let to = to
            .strip_prefix(root.join("usr/lib"))
            .map(|rest| root.join("lib").join(rest))
            .unwrap_or(to.clone());
        std::fs::create_dir_all(to.parent().context("a file lies in a directory")?)?;
        std::fs::copy(path, &to)?;
        if path.to_string_lossy().contains(".so") {
            add_libraries(path, libraries)?;
        }
    }
    Ok(())
}

/// Copies modules uncompressed, so that any tool can load them, and rebuilds their index.
fn copy_modules(kernel: &Kernel, root: &Path) -> Result<()> {
    let release = &kernel.release;
    let modules = root.join("lib/modules").join(release);
    std::fs::create_dir_all(&modules)?;
    for name in MODULES {
        let mut command = Command::new("modprobe");
        command.arg("-d").arg(&kernel.root).args(["-S", release, "--show-depends", name]);
        let output = command.output().context("cannot run modprobe (package kmod)")?;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Some(path) = line.strip_prefix("insmod ").map(str::trim) else { continue };
            let path = Path::new(path.split_whitespace().next().unwrap_or(path));
            let file = path.file_name().context("a module has a name")?.to_string_lossy().into_owned();
            let to = modules.join(file.trim_end_matches(".xz").trim_end_matches(".zst"));
            if to.exists() {
                continue;
            }
            let unpack = if file.ends_with(".xz") {
                "xz"
            } else if file.ends_with(".zst") {
                "zstd"
            } else {
                std::fs::copy(path, &to)?;
                continue;
            };
            let out = std::fs::File::create(&to)?;
            check(Command::new(unpack).args(["-d", "-c", "-q"]).arg(path).stdout(out))?;
        }
    }
    for index in ["modules.builtin", "modules.builtin.modinfo", "modules.order"] {
        let from = kernel.root.join("lib/modules").join(release).join(index);
        if from.exists() {
            std::fs::copy(from, modules.join(index))?;
        }
    }
    check(Command::new("depmod").arg("-b").arg(root).arg(release))
}

/// Packs a folder in the format that the kernel unpacks.
fn archive(root: &Path, file: &Path) -> Result<PathBuf> {
    let list = Command::new("find").arg(".").current_dir(root).output().context("cannot run find")?;
    let mut cpio = Command::new("cpio");
    cpio.args(["--create", "--format=newc", "--quiet"]).current_dir(root);
    let out = std::fs::File::create(file)?;
    let mut child = cpio.stdin(Stdio::piped()).stdout(out).spawn().context("cannot run cpio")?;
    child.stdin.take().expect("is piped").write_all(&list.stdout)?;
    if !child.wait()?.success() {
        bail!("cpio failed");
    }
    Ok(file.to_path_buf())
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn programs_are_found_among_the_messages_of_cargo() {
        let messages = r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"sluice"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"sluice"},"executable":"/t/debug/sluice"}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"sluiced"},"executable":"/t/debug/sluiced"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executables(messages, "sluice"), [Path::new("/t/debug/sluice")]);
        assert_eq!(executables(messages, "sluiced"), [Path::new("/t/debug/sluiced")]);
        assert!(executables(messages, "nic").is_empty());
    }
}
