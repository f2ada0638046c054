//! `sluice sweep plan`: the scripts that run a sweep in parts.
//!
//! Rule: part I of N is a run of `run-part.sh I`, whatever starts it. Each writes its points into
//! the folder of results, which every machine sees under the same path. Sources: sbatch(1), "Job
//! array support"; Kubernetes, "Indexed Job for parallel processing with static work assignment".

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};

use super::points::{Common, SweepPlan, folder_of, write_whole};
use crate::output;
use crate::sim::input::RunError;

/// The most parts that a Job runs at the same time: more wait, and do not fill the cluster.
const MOST_PODS: usize = 64;

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
    let mut written = vec![folder.join("run-part.sh")];
    write_whole(&written[0], &part_script(&file, &folder, parts, arguments))?;
    if arguments.engine != Some(Engine::Kubernetes) {
        let script = folder.join("sweep.sbatch");
        write_whole(&script, &slurm_script(&folder, parts, arguments.cores))?;
        written.push(script);
    }
    if arguments.engine != Some(Engine::Slurm) {
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
        write_whole(&manifest, &manifest_text(&folder, &mount, parts, arguments))?;
        written.push(manifest);
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

fn slurm_script(folder: &Path, parts: usize, cores: u16) -> String {
    let script = quote(&folder.join("run-part.sh").display().to_string());
    // sbatch knows quotes, and replaces what follows a %.
    let log = quote(&format!("{}/slurm-%a.log", folder.display().to_string().replace('%', "%%")));
    format!(
        "#!/bin/sh\n#SBATCH --job-name=sluice-sweep\n#SBATCH --array=0-{}\n#SBATCH --cpus-per-task={cores}\n\
         #SBATCH --output={log}\n\
         # The parts that are missing, again: sbatch --array=3,7 sweep.sbatch\n\
         exec sh {script} \"$SLURM_ARRAY_TASK_ID\"\n",
        parts - 1,
    )
}

fn manifest_text(folder: &Path, mount: &Path, parts: usize, arguments: &Arguments) -> String {
    let Arguments { image, claim, cores, .. } = arguments;
    let parallel = parts.min(MOST_PODS);
    let text = |path: &Path| serde_json::Value::from(path.display().to_string()).to_string();
    let (script, mount) = (text(&folder.join("run-part.sh")), text(mount));
    format!(
        "# kubectl apply -f job.yaml, where the claim {claim} is a volume with the scenario, its configurations and\n\
         # this folder. The image is that of packaging/Containerfile.\n\
         apiVersion: batch/v1\n\
         kind: Job\n\
         metadata:\n\
         \x20 name: sluice-sweep\n\
         spec:\n\
         \x20 completionMode: Indexed\n\
         \x20 completions: {parts}\n\
         \x20 parallelism: {parallel}\n\
         \x20 backoffLimitPerIndex: 3\n\
         \x20 template:\n\
         \x20   spec:\n\
         \x20     restartPolicy: Never\n\
         \x20     containers:\n\
         \x20     - name: sweep\n\
         \x20       image: {image}\n\
         \x20       command: [\"/bin/sh\", \"-c\", \"exec sh \\\"$0\\\" \\\"$JOB_COMPLETION_INDEX\\\"\", {script}]\n\
         \x20       resources:\n\
         \x20         requests:\n\
         \x20           cpu: {cores}\n\
         \x20       volumeMounts:\n\
         \x20       - name: sweep\n\
         \x20         mountPath: {mount}\n\
         \x20     volumes:\n\
         \x20     - name: sweep\n\
         \x20       persistentVolumeClaim:\n\
         \x20         claimName: {claim}\n"
    )
}

/// Quotes a text for a shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
