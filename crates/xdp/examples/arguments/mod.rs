//! Parser of `--name value` pairs.

use xdp::{PortConfig, ZeroCopy};

/// The arguments of this process.
pub struct Arguments(Vec<(String, String)>);

impl Arguments {
    pub fn parse() -> Arguments {
        let list: Vec<String> = std::env::args().skip(1).collect();
        let pairs = list.chunks(2).map(|pair| match pair {
            [name, value] => (name.clone(), value.clone()),
            _ => panic!("{} needs a value", pair[0]),
        });
        Arguments(pairs.collect())
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.all(name).last().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}: not a number")))
    }

    pub fn port_setup(&self) -> PortConfig {
        let mut setup = PortConfig::default();
        if let Some(budget) = self.number("--budget") {
            setup.tx_budget = budget as u32;
        }
        if let Some(frames) = self.number("--posted") {
            setup.max_posted = frames as u32;
        }
        setup.zero_copy = match self.all("--zero-copy").last() {
            None | Some("auto") => ZeroCopy::Auto,
            Some("off") => ZeroCopy::Off,
            Some("emulate") => ZeroCopy::Emulate,
            Some(other) => panic!("--zero-copy {other}: not auto, off or emulate"),
        };
        setup.send_buffer_bytes = self.number("--send-buffer").map(|bytes| bytes as u32);
        setup
    }
}
