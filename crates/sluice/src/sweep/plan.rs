//! `sluice sweep plan`: the scripts that run a sweep in parts.
//!
//! Rule: `plan.json` keeps how the sweep was divided, for `sluice sweep collect`. Part I of N is a
//! run of `run-part.sh I`, whatever starts it. Each writes its points into the folder of results,
//! which every machine sees under the same path. Sources: sbatch(1), "Job array support";
//! slurm.conf(5), MaxArraySize; Kubernetes, "Indexed Job for parallel processing with static work
//! assignment".

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::points::{Common, SweepPlan, folder_of, write_whole};
use crate::output;
use crate::sim::input::RunError;

/// The most parts that a Job runs at the same time: more wait, and do not fill the cluster.
const MOST_PODS: usize = 64;
/// The most tasks of a job array, unless slurm.conf has another MaxArraySize: the highest index
/// is one less.
const MAX_ARRAY_SIZE: usize = 1001;
/// Longest name of a Job: names of its pods are longer, and have 63 characters at most.
const MAX_JOB_NAME: usize = 50;
/// Memory that a pod requests for each core, in MiB.
const CORE_MIB: u32 = 1024;
/// The file that has the plan.
const PLAN: &str = "plan.json";

/// What to write, and for what engine.
#[derive(Args)]
pub struct Arguments {
    /// The scenario, with [[vary]] and [sweep].
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    common: Common,
    /// What runs the parts; default: both.
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    /// Parts into which the points are divided.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    parts: u32,
    /// Cores of a part, which runs as many points at the same time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    cores: u16,
    /// Memory of a part in MiB; default: what Slurm has as default, and of Kubernetes 1024 for each
    /// core are requested.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    memory_mib: Option<u32>,
    /// Minutes after which a part is ended; default: what the cluster has as default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    minutes: Option<u32>,
    /// Image with `sluice`, as packaging/Containerfile makes it of the Debian package.
    #[arg(long, default_value = "sluice")]
    image: String,
    /// Claim of the volume that has the scenario, its configurations and the results.
    #[arg(long, default_value = "sluice-sweep")]
    claim: String,
    /// Folder as which the containers mount the volume; default: that of the scenario.
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// A job array, for sbatch.
    Slurm,
    /// An indexed Job, for kubectl.
    Kubernetes,
}

/// How a sweep was divided, for `collect` to name the parts that are missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    parts: usize,
    /// Name of the job.
    name: String,
    is_for_slurm: bool,
    is_for_kubernetes: bool,
}

impl Plan {
    /// Reads the plan of a folder; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let file = folder.join(PLAN);
        if !file.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let plan: Self = serde_json::from_str(&text).with_context(|| {
            format!("{} is no plan of a sweep: run `sluice sweep plan` again", file.display())
        })?;
        Ok(Some(plan).filter(|plan| plan.parts > 0))
    }

    /// Returns the parts of some points, in order.
    pub fn parts_of(&self, points: &[usize]) -> Vec<usize> {
        let parts: BTreeSet<usize> = points.iter().map(|point| point % self.parts).collect();
        parts.into_iter().collect()
    }

    /// Returns the commands that run some parts again: one is to be chosen.
    pub fn commands(&self, folder: &Path, parts: &[usize]) -> Vec<String> {
        let file = |name: &str| quote_if_needed(&folder.join(name).display().to_string());
        let mut commands = Vec::new();
        if self.is_for_slurm {
            commands.push(format!("sbatch --array={} {}", ranges(parts), file("sweep.sbatch")));
        }
        if self.is_for_kubernetes {
            // An index of a Job that has ended cannot be run again alone.
            let job = file("job.yaml");
            commands.push(format!("kubectl replace --force -f {job}  # parts that are complete end at once"));
        }
        let list: Vec<String> = parts.iter().map(usize::to_string).collect();
        commands.push(match &*list {
            [part] => format!("sh {} {part}", file("run-part.sh")),
            _ => format!("for part in {}; do sh {} $part; done", list.join(" "), file("run-part.sh")),
        });
        commands
    }
}

/// Formats ascending numbers as Slurm reads them: 1,5-7.
pub fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(usize::to_string).collect(),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// Returns the name of a sweep's job: its file's name, in the characters that Kubernetes allows.
fn job_name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = "sluice-".chars().chain(stem.chars().map(allowed)).take(MAX_JOB_NAME).collect();
    name.trim_end_matches('-').to_owned()
}

/// Writes the scripts into the folder of the results.
///
/// # Errors
/// The scenario is invalid, or a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), RunError> {
    let plan = SweepPlan::read(&arguments.file, &arguments.common.set)?;
    let folder = folder_of(&arguments.file, arguments.common.out.as_deref());
    plan.begin(&folder)?;
    let folder = absolute(&folder)?;
    let file = absolute(&arguments.file)?;
    let parts = (arguments.parts as usize).min(plan.point_count());
    let name = job_name(&file);
    let kept = Plan {
        parts,
        name: name.clone(),
        is_for_slurm: arguments.engine != Some(Engine::Kubernetes),
        is_for_kubernetes: arguments.engine != Some(Engine::Slurm),
    };
    let mut written = vec![folder.join("run-part.sh")];
    write_whole(&written[0], part_script(&file, &folder, parts, arguments))?;
    if kept.is_for_slurm {
        let script = folder.join("sweep.sbatch");
        write_whole(&script, slurm_script(&folder, &kept, arguments))?;
        written.push(script);
    }
    if kept.is_for_kubernetes {
        let manifest = folder.join("job.yaml");
        let mount = match &arguments.mount {
            Some(mount) => absolute(mount)?,
            None => file.parent().unwrap_or(Path::new("/")).to_path_buf(),
        };
        for inside in [&file, &folder] {
            if !inside.starts_with(&mount) {
                return Err(RunError::Other(anyhow!(
                    "{} is not below {}: name a folder that has the scenario and the results with --mount",
                    inside.display(),
                    mount.display()
                )));
            }
        }
        write_whole(&manifest, manifest_text(&folder, &mount, &kept, arguments))?;
        written.push(manifest);
    }
    let plan_file = folder.join(PLAN);
    write_whole(&plan_file, serde_json::to_string_pretty(&kept).context("cannot write the plan")?)?;
    written.push(plan_file);
    if kept.is_for_slurm && parts > MAX_ARRAY_SIZE {
        eprintln!(
            "sluice: {parts} parts are more than the {MAX_ARRAY_SIZE} tasks that Slurm has as the default limit of an \
             array: see MaxArraySize in `scontrol show config`, or make fewer --parts with more --cores"
        );
    }
    let lines: Vec<String> = written.iter().map(|file| format!("wrote {}", file.display())).collect();
    let points = plan.point_count();
    let next =
        format!("{points} points in {parts} parts; afterwards: sluice sweep collect {}", folder.display());
    Ok(output::print(&format!("{}\n{next}", lines.join("\n")))?)
}

fn absolute(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).with_context(|| format!("cannot find {}", path.display()))
}

/// The script of a part. A missed expectation (exit code 1) is a result, and no failure.
fn part_script(file: &Path, folder: &Path, parts: usize, arguments: &Arguments) -> String {
    let set: String = arguments.common.set.iter().map(|set| format!(" --set {}", quote(&set.text))).collect();
    format!(
        "#!/bin/sh\n# Part $1 of {parts} of a sweep. Points that are there are not run again.\n\
         sluice sweep {} --out {}{set} --part \"$1/{parts}\" --jobs {} --quiet || [ $? -eq 1 ]\n",
        quote(&file.display().to_string()),
        quote(&folder.display().to_string()),
        arguments.cores,
    )
}

fn slurm_script(folder: &Path, plan: &Plan, arguments: &Arguments) -> String {
    let Plan { parts, name, .. } = plan;
    let Arguments { cores, memory_mib, minutes, .. } = arguments;
    let memory = memory_mib.map_or(String::new(), |mib| format!("#SBATCH --mem={mib}M\n"));
    let limit = minutes.map_or(String::new(), |minutes| format!("#SBATCH --time={minutes}\n"));
    let script = quote(&folder.join("run-part.sh").display().to_string());
    // sbatch knows quotes, and replaces what follows a %.
    let log = quote(&format!("{}/slurm-%a.log", folder.display().to_string().replace('%', "%%")));
    format!(
        "#!/bin/sh\n#SBATCH --job-name={name}\n#SBATCH --array=0-{}\n#SBATCH --cpus-per-task={cores}\n\
         {memory}{limit}#SBATCH --output={log}\n\
         # `sluice sweep collect` prints the line that runs the missing parts again.\n\
         exec sh {script} \"$SLURM_ARRAY_TASK_ID\"\n",
        parts - 1,
    )
}

fn manifest_text(folder: &Path, mount: &Path, plan: &Plan, arguments: &Arguments) -> String {
    let Plan { parts, name, .. } = plan;
    let Arguments { image, claim, cores, memory_mib, minutes, .. } = arguments;
    let parallel = (*parts).min(MOST_PODS);
    // A string of JSON is one of YAML.
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let of_path = |path: &Path| text(&path.display().to_string());
    let (script, mount) = (of_path(&folder.join("run-part.sh")), of_path(mount));
    let (image, claim) = (text(image), text(claim));
    let mib = memory_mib.unwrap_or(CORE_MIB * u32::from(*cores));
    let limit = minutes.map_or(String::new(), |minutes| {
        format!("      activeDeadlineSeconds: {}\n", u64::from(minutes) * 60)
    });
    format!(
        "# kubectl apply -f job.yaml, where the claim {claim} is a volume with the scenario, its configurations and\n\
         # this folder. The image is that of packaging/Containerfile.\n\
         apiVersion: batch/v1\n\
         kind: Job\n\
         metadata:\n\
         \x20 name: {name}\n\
         spec:\n\
         \x20 completionMode: Indexed\n\
         \x20 completions: {parts}\n\
         \x20 parallelism: {parallel}\n\
         \x20 backoffLimitPerIndex: 3\n\
         \x20 template:\n\
         \x20   spec:\n\
         {limit}\
         \x20     restartPolicy: Never\n\
         \x20     containers:\n\
         \x20     - name: sweep\n\
         \x20       image: {image}\n\
         \x20       command: [\"/bin/sh\", \"-c\", \"exec sh \\\"$0\\\" \\\"$JOB_COMPLETION_INDEX\\\"\", {script}]\n\
         \x20       resources:\n\
         \x20         requests:\n\
         \x20           cpu: {cores}\n\
         \x20           memory: {mib}Mi\n\
         \x20       volumeMounts:\n\
         \x20       - name: sweep\n\
         \x20         mountPath: {mount}\n\
         \x20     volumes:\n\
         \x20     - name: sweep\n\
         \x20       persistentVolumeClaim:\n\
         \x20         claimName: {claim}\n"
    )
}

/// Quotes a text for a shell where it has to be.
fn quote_if_needed(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text.to_owned() } else { quote(text) }
}

/// Quotes a text for a shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_listed_in_ranges() {
        for (numbers, text) in
            [(&[1, 5, 6, 7][..], "1,5-7"), (&[0, 1], "0-1"), (&[3], "3"), (&[1, 3, 5], "1,3,5")]
        {
            assert_eq!(ranges(numbers), text);
        }
    }

    #[test]
    fn names_of_jobs_are_those_of_the_files() {
        let long = format!("dir/{}.toml", "x".repeat(100));
        for (file, name) in [
            ("a/Incast_16.toml", "sluice-incast-16"),
            ("-.toml", "sluice"),
            ("größe.toml", "sluice-gr--e"),
            (&long, &format!("sluice-{}", "x".repeat(43))),
        ] {
            assert_eq!(job_name(Path::new(file)), name);
        }
    }

    #[test]
    fn missing_parts_have_their_commands() {
        let mut plan =
            Plan { parts: 4, name: "sluice-a".to_owned(), is_for_slurm: true, is_for_kubernetes: true };
        let parts = plan.parts_of(&[1, 2, 5, 9, 14]);
        assert_eq!(parts, [1, 2]);
        let commands = plan.commands(Path::new("a b"), &parts);
        assert_eq!(
            commands,
            [
                "sbatch --array=1-2 'a b/sweep.sbatch'",
                "kubectl replace --force -f 'a b/job.yaml'  # parts that are complete end at once",
                "for part in 1 2; do sh 'a b/run-part.sh' $part; done"
            ]
        );
        (plan.is_for_slurm, plan.is_for_kubernetes) = (false, false);
        assert_eq!(plan.commands(Path::new("/a"), &[3]), ["sh /a/run-part.sh 3"]);
    }
}
