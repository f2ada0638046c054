//! Reads the scenario and its configurations from their files, and describes why a run is rejected.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use config::ConfigErrors;
use config::read::toml_document::too_long;
use sim::Scenario;
use sim::scenario::NodeKind;

use super::format::time;
use super::overrides::{self, Override};
use crate::import;
use crate::read_file::{self, Text};

/// Why a run could not start or complete.
#[derive(Debug)]
pub enum RunError {
    /// The scenario or a configuration is invalid.
    Mistakes(Vec<ConfigErrors>),
    /// A file cannot be read or written, or an option is wrong.
    Other(anyhow::Error),
}

impl From<anyhow::Error> for RunError {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

impl RunError {
    /// Prints the reason on standard error.
    pub fn print(self) {
        match self {
            Self::Mistakes(all) => {
                all.into_iter().for_each(|mistakes| eprintln!("{:?}", miette::Report::new(mistakes)));
            }
            Self::Other(error) => eprintln!("sluice: {error:#}"),
        }
    }
}

/// The name of a configuration ends so if it is a CONFIG_DB of SONiC.
const SONIC: &str = ".json";

/// The name of a file of frames, or of sizes, ends so.
const TABLE: &str = ".csv";
/// The most bytes of such a file: 16 million frames in lines of 16 bytes.
const MAX_TABLE_BYTES: u64 = 256 << 20;

/// Reads a scenario with other values of some settings; paths of configurations are relative to its
/// folder. A CONFIG_DB of SONiC is imported; the settings of the result may have other values.
pub fn read(file: &Path, overrides: &[Override]) -> Result<Scenario, RunError> {
    let name = file.display().to_string();
    let text = match read_file::read(file).with_context(|| format!("cannot read {name}"))? {
        Text::Whole(text) => text,
        Text::TooLong(bytes) => return Err(RunError::Mistakes(vec![too_long(&name, bytes)])),
    };
    let text = overrides::apply(&text, overrides.iter().filter(|given| given.file.is_none()));
    let text = text.map_err(|error| anyhow!(error))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut loaded: Vec<String> = Vec::new();
    let mut load = |config: &str| {
        let text = device(folder, config)?;
        // No setting of a table can have another value.
        if config.ends_with(TABLE) {
            return Ok(text);
        }
        loaded.push(config.to_owned());
        overrides::apply(&text, overrides.iter().filter(|given| given.file.as_deref() == Some(config)))
    };
    let scenario = sim::scenario::parse(&name, &text, &mut load).map_err(RunError::Mistakes)?;
    match overrides.iter().filter_map(|given| given.file.as_ref()).find(|file| !loaded.contains(file)) {
        Some(unknown) => Err(RunError::Other(anyhow!(
            "--set {unknown}: no switch has this configuration; the scenario names {}",
            loaded.join(", ")
        ))),
        None => Ok(scenario),
    }
}

/// Returns the text of a file that a scenario names; a configuration of SONiC is imported.
///
/// # Errors
/// It cannot be read, or not imported.
pub fn device(folder: &Path, config: &str) -> Result<String, String> {
    if config.ends_with(TABLE) {
        return match read_file::read_at_most(&folder.join(config), MAX_TABLE_BYTES) {
            Ok(Text::Whole(text)) => Ok(text),
            Ok(Text::TooLong(_)) => Err(format!("it has more than {} MiB", MAX_TABLE_BYTES >> 20)),
            Err(error) => Err(error.to_string()),
        };
    }
    match read_file::read(&folder.join(config)) {
        Ok(Text::Whole(text)) if is_sonic(config) => import::of_sonic(&text),
        Ok(Text::Whole(text)) => Ok(text),
        Ok(Text::TooLong(bytes)) => Err(format!(
            "{}; a file whose name ends in {TABLE} may have {} MiB",
            too_long(config, bytes).list()[0], // the only one
            MAX_TABLE_BYTES >> 20
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// True if a configuration of this name is a CONFIG_DB of SONiC.
pub fn is_sonic(config: &str) -> bool {
    config.ends_with(SONIC)
}

/// Says on standard error which configurations of a scenario were imported.
pub fn note_imported(scenario: &Scenario) {
    let mut files = BTreeSet::new();
    for node in &scenario.nodes {
        if let NodeKind::Switch(switch) = &node.kind
            && is_sonic(&switch.file)
            && files.insert(&switch.file)
        {
            let file = &switch.file;
            eprintln!("sluice: {file} is imported; `sluice import sonic` lists what is not carried over");
        }
    }
}

/// Sets an earlier end.
pub fn shorten(scenario: &mut Scenario, duration_ns: Option<u64>) -> Result<()> {
    let Some(duration_ns) = duration_ns else { return Ok(()) };
    if duration_ns > scenario.duration_ns {
        let own = time(scenario.duration_ns);
        return Err(anyhow!(
            "--duration can only shorten the run, which takes {own}: write a longer `duration` into the scenario"
        ));
    }
    if duration_ns <= scenario.warmup_ns {
        let warmup = time(scenario.warmup_ns);
        return Err(anyhow!("--duration ends before the warm-up, {warmup}: choose a longer one"));
    }
    scenario.duration_ns = duration_ns;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::sim::sample::SWITCH;

    const SCENARIO: &str = "
duration = \"1ms\"
[switch.s]
config = \"configs/switch.toml\"
[host.\"h[1-2]\"]
[[link]]
ends = [\"h[1-2]\", \"s.p[1-2]\"]
[[traffic]]
name = \"rdma\"
from = \"h1\"
to = \"h2\"
";

    /// Creates a folder with a scenario and its configuration.
    fn folder(scenario: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("configs")).unwrap();
        fs::write(folder.path().join("configs/switch.toml"), SWITCH).unwrap();
        fs::write(folder.path().join("scenario.toml"), scenario).unwrap();
        folder
    }

    #[test]
    fn settings_of_both_files_get_other_values() {
        let folder = folder(SCENARIO);
        let file = folder.path().join("scenario.toml");
        let read = |overrides: &[&str]| {
            let overrides: Vec<Override> = overrides.iter().map(|text| text.parse().unwrap()).collect();
            read(&file, &overrides)
        };
        let changed = read(&["duration=2ms", "configs/switch.toml:port.p1.speed=25G", "link.0.speed=10G"]);
        let RunError::Mistakes(mistakes) = changed.unwrap_err() else { panic!("10G and 25G do not agree") };
        assert!(mistakes[0].to_string().contains("25G"), "{}", mistakes[0]);
        let changed = read(&["duration=2ms", "configs/switch.toml:buffer.total_cells=65536"]).unwrap();
        let sim::scenario::NodeKind::Switch(switch) = &changed.nodes[0].kind else { panic!("a switch") };
        assert_eq!((changed.duration_ns, switch.settings.buffer.total_cells), (2_000_000, 65_536));
        let RunError::Other(unknown) = read(&["switch.toml:buffer.total_cells=1"]).unwrap_err() else {
            panic!("no switch has this configuration")
        };
        assert_eq!(
            unknown.to_string(),
            "--set switch.toml: no switch has this configuration; the scenario names configs/switch.toml"
        );
    }

    #[test]
    fn a_table_has_no_settings() {
        let folder = folder(&SCENARIO.replace("to = \"h2\"", "to = \"h2\"\nframes = \"f.csv\""));
        fs::write(folder.path().join("f.csv"), "0,64\n").unwrap();
        let file = folder.path().join("scenario.toml");
        assert!(read(&file, &[]).unwrap().traffic[0].trace.is_some());
        let RunError::Other(refused) = read(&file, &["f.csv:x=1".parse().unwrap()]).unwrap_err() else {
            panic!("it is no mistake of the scenario")
        };
        assert_eq!(
            refused.to_string(),
            "--set f.csv: no switch has this configuration; the scenario names configs/switch.toml"
        );
    }

    #[test]
    fn a_long_file_is_refused() {
        let folder = folder(SCENARIO);
        fs::write(folder.path().join("frames.txt"), vec![b'0'; (1 << 20) + 1]).unwrap();
        let refused = device(folder.path(), "frames.txt").unwrap_err();
        assert!(refused.ends_with("; a file whose name ends in .csv may have 256 MiB"), "{refused}");
    }

    #[test]
    fn configurations_are_found_from_the_scenario() {
        let folder = folder(SCENARIO);
        let scenario = read(&folder.path().join("scenario.toml"), &[]).unwrap();
        let names: Vec<&str> = scenario.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!((names, scenario.duration_ns), (vec!["s", "h1", "h2"], 1_000_000));
    }

    #[test]
    fn errors_are_reported() {
        let missing = folder("").path().join("none.toml");
        let RunError::Other(error) = read(&missing, &[]).unwrap_err() else {
            panic!("no mistake of a file that is not there")
        };
        assert!(
            format!("{error:#}").starts_with(&format!("cannot read {}: ", missing.display())),
            "{error:#}"
        );

        let folder = folder(&SCENARIO.replace("configs/switch", "configs/none"));
        let RunError::Mistakes(all) = read(&folder.path().join("scenario.toml"), &[]).unwrap_err() else {
            panic!("a configuration that is not there is a mistake of the scenario")
        };
        assert_eq!((all.len(), all[0].list()[0].line), (1, 4), "{all:?}");
    }

    /// A port of SONiC has the same name here, and its settings may have other values.
    #[test]
    fn a_configuration_may_be_one_of_sonic() {
        let scenario = SCENARIO.replace("configs/switch.toml", "configs/config_db.json");
        let folder = folder(&scenario.replace("s.p[1-2]", "s.Ethernet[0-1]"));
        let database = r#"{"PORT": {"Ethernet0": {"speed": "100000"}, "Ethernet1": {"speed": "100000"}}}"#;
        fs::write(folder.path().join("configs/config_db.json"), database).unwrap();
        let file = folder.path().join("scenario.toml");
        let scenario = read(&file, &[]).unwrap();
        assert_eq!(scenario.links[0].speed_bps, 100_000_000_000);
        let other: Override = "configs/config_db.json:port.Ethernet0.speed=25G".parse().unwrap();
        let RunError::Mistakes(mistakes) =
            read(&file, &[other, "link.0.speed=100G".parse().unwrap()]).unwrap_err()
        else {
            panic!("25G and 100G do not agree")
        };
        assert!(mistakes[0].to_string().contains("25G"), "{}", mistakes[0]);
        fs::write(folder.path().join("configs/config_db.json"), "[port.p1]").unwrap();
        let RunError::Mistakes(mistakes) = read(&file, &[]).unwrap_err() else { panic!("it is TOML") };
        assert!(mistakes[0].to_string().contains("is no JSON"), "{}", mistakes[0]);
    }

    #[test]
    fn a_run_can_be_shortened_and_begin_with_another_seed() {
        let folder = folder(SCENARIO);
        let mut scenario = read(&folder.path().join("scenario.toml"), &[Override::of_seed(7)]).unwrap();
        shorten(&mut scenario, Some(400_000)).unwrap();
        assert_eq!((scenario.seed, scenario.duration_ns), (7, 400_000));
        shorten(&mut scenario, None).unwrap();
        assert_eq!((scenario.seed, scenario.duration_ns), (7, 400_000));
        let refused = shorten(&mut scenario, Some(400_001)).unwrap_err().to_string();
        assert!(refused.starts_with("--duration can only shorten the run, which takes 400 us"), "{refused}");
    }

    #[test]
    fn a_seed_reaches_what_is_drawn_while_reading() {
        let folder = folder(&SCENARIO.replace("h[1-2]", "h[1-8]").replace("p[1-2]", "p[1-8]").replace(
            "from = \"h1\"\nto = \"h2\"",
            "from = \"h[1-8]\"\nto = \"h[1-8]\"\npairs = \"permutation\"",
        ));
        let port = |port: usize| format!("[port.p{port}]\ninterface = \"i{port}\"\nspeed = \"10G\"\n");
        let ports = (1..=8).map(port).collect::<String>();
        fs::write(folder.path().join("configs/switch.toml"), ports).unwrap();
        let flows = |seed| {
            let scenario = read(&folder.path().join("scenario.toml"), &[Override::of_seed(seed)]);
            scenario.unwrap().traffic[0].flows.clone()
        };
        assert_ne!(flows(1), flows(2));
    }
}
