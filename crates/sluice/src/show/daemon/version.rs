//! `sluice show version`: the versions of the daemon and of this command, and the daemon's process.

use control::v1::Info;
use schemars::JsonSchema;
use serde::Serialize;

/// The version of this command.
const OWN: &str = env!("CARGO_PKG_VERSION");

/// The daemon and this command in JSON.
#[derive(Serialize, JsonSchema)]
pub struct Row<'a> {
    /// The version of this command.
    command_version: &'static str,
    #[serde(flatten)]
    daemon: &'a Info,
}

/// Returns the JSON.
pub fn row(info: &Info) -> Row<'_> {
    Row { command_version: OWN, daemon: info }
}

/// Formats the versions, a line each.
pub fn text(info: &Info) -> String {
    let mut text = format!(
        "sluice   {OWN}\nsluiced  {}\nSwitch   {}\nFile     {}\nProcess  {}, up for {}\nAPI      version {}; you may {}",
        info.version,
        info.name,
        info.config,
        info.pid,
        uptime(info.uptime_ns / 1_000_000_000),
        info.api_version,
        if info.role == "admin" { "read and change" } else { "read" }
    );
    if info.version != OWN {
        text += "\nThe versions differ: restart the daemon, or use the command that came with it.";
    }
    text
}

/// Formats seconds as "3 d 04:05:06".
fn uptime(seconds: u64) -> String {
    let (days, seconds) = (seconds / 86_400, seconds % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if days == 0 { clock } else { format!("{days} d {clock}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_reported() {
        let info = Info {
            name: "lab".to_owned(),
            version: OWN.to_owned(),
            pid: 17,
            uptime_ns: 273_906_000_000_000,
            config: "/etc/lab.toml".to_owned(),
            recording_most_bytes: 0,
            api_version: 1,
            role: "reader".to_owned(),
        };
        let text = text(&info);
        assert!(
            text.ends_with(
                "File     /etc/lab.toml\nProcess  17, up for 3 d 04:05:06\nAPI      version 1; you may read"
            ),
            "{text}"
        );
        let other = Info { version: "9.9.9".to_owned(), ..info };
        let text = super::text(&other);
        assert!(text.contains("sluiced  9.9.9\n") && text.contains("\nThe versions differ: "), "{text}");
        assert_eq!(serde_json::to_value(row(&other)).unwrap()["command_version"], OWN);
    }
}
