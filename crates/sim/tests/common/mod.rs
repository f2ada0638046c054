//! Configurations for the tests.

/// Returns a configuration by its path.
pub fn load(path: &str) -> Result<String, String> {
    let ports = |names: &[&str], lines: &str| {
        let port = |name: &&str| format!("[port.{name}]\ninterface = \"eth-{name}\"\n{lines}");
        names.iter().map(port).collect::<String>()
    };
    const LOSSLESS: &str = "pfc = { mode = \"on\", no_drop = [3] }\n";
    match path {
        "leaf.toml" => Ok(ports(&["h1", "h2", "h3", "h4", "up"], LOSSLESS)),
        "spine.toml" => Ok(ports(&["p1", "p2"], "speed = \"40G\"\ncable_m = 300\nmtu = 1536\n")),
        "no-pfc.toml" => Ok(format!("pfc.enabled = false\n{}", ports(&["p1", "p2", "up"], LOSSLESS))),
        "10g.toml" => Ok(ports(&["p1", "p2", "up"], "speed = \"10G\"\ncable_m = 5\nmtu = 1536\n")),
        "25g.toml" => Ok(ports(&["p1", "p2", "up"], "speed = \"25G\"\n")),
        "long.toml" => Ok(ports(&["p1", "p2", "up"], "speed = \"10G\"\ncable_m = 300\nmtu = 9216\n")),
        "wrong.toml" => Ok(ports(&["p1", "p2", "up"], "sped = \"10G\"\n")),
        "frames.csv" => Ok("0,64\n1500,1024,2\n".to_owned()),
        "short.csv" => Ok("0,59\n".to_owned()),
        "late.csv" => Ok("0,64\n9999999,64\n10000000,64,2\n".to_owned()),
        "many.csv" => Ok("0,64,9000000\n".to_owned()),
        "jumbo.csv" => Ok("0,9000\n".to_owned()),
        _ => Err("no such file".to_owned()),
    }
}
