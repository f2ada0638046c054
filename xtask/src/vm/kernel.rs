//! Debian's newest kernel of a suite, without installing it: apt in a separate folder, with only
//! that suite.
//!
//! Kernel package names become outdated within weeks, so none is here: `linux-image-amd64` depends
//! on the current one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run::{check, log, repo_root};

/// An unpacked kernel.
pub struct Kernel {
    /// Release, as `uname -r` will print it.
    pub release: String,
    /// The file to boot.
    pub vmlinuz: PathBuf,
    /// The folder that contains `lib/modules/RELEASE`.
    pub root: PathBuf,
    /// The folder for files made from the kernel.
    pub folder: PathBuf,
}

impl Kernel {
    /// True if the module index exists, which is the last step.
    fn has_index(&self) -> bool {
        self.root.join("lib/modules").join(&self.release).join("modules.dep").is_file()
    }
}

/// The package that always depends on the newest kernel.
const META: &str = "linux-image-amd64";

/// Prefixes of the packages that contain a kernel's files.
const PARTS: [&str; 4] = ["linux-image-", "linux-binary-", "linux-modules-", "linux-base-"];

/// Returns the folder of kernels and images.
fn folder() -> PathBuf {
    repo_root().join("target/vm")
}

/// Fetches and unpacks the newest kernel of `suite`, unless that was done before.
pub fn fetch(suite: &str) -> Result<Kernel> {
    let folder = folder().join(suite);
    let root = folder.join("root");
    if let Ok(kernel) = unpacked(&root, &folder)
        && kernel.has_index()
    {
        return Ok(kernel);
    }
    if root.exists() {
        std::fs::remove_dir_all(&root)?; // what an earlier call began, and did not end
    }
    log(&format!("the newest kernel of Debian {suite} (delete {} to fetch a newer one)", folder.display()));
    let apt = Apt::new(&folder.join("apt"), suite)?;
    let names = apt.parts()?;
    let debs = folder.join("debs");
    std::fs::create_dir_all(&debs)?;
    for name in &names {
        check(apt.command("apt-get").args(["download", "--quiet=2", name]).current_dir(&debs))?;
    }
    for entry in std::fs::read_dir(&debs)? {
        check(Command::new("dpkg-deb").arg("-x").arg(entry?.path()).arg(&root))?;
    }
    std::fs::remove_dir_all(&debs)?;
    // Newer packages have usr/lib, as merged systems do; tools expect lib.
    if !root.join("lib").exists() {
        std::os::unix::fs::symlink("usr/lib", root.join("lib"))?;
    }
    let kernel = unpacked(&root, &folder)?;
    check(Command::new("depmod").arg("-b").arg(&kernel.root).arg(&kernel.release))?;
    Ok(kernel)
}

fn unpacked(root: &Path, folder: &Path) -> Result<Kernel> {
    let modules = root.join("lib/modules");
    let release = std::fs::read_dir(&modules)
        .with_context(|| format!("{}", modules.display()))?
        .next()
        .context("the packages have no modules")??
        .file_name();
    let release = release.to_string_lossy().into_owned();
    let candidates = [modules.join(&release).join("vmlinuz"), root.join(format!("boot/vmlinuz-{release}"))];
    let Some(vmlinuz) = candidates.into_iter().find(|path| path.is_file()) else {
        bail!("the packages of {release} have no kernel to boot");
    };
    Ok(Kernel { release, vmlinuz, root: root.to_path_buf(), folder: folder.to_path_buf() })
}

/// An apt instance with one source and its own state.
struct Apt {
    config: PathBuf,
}

impl Apt {
    fn new(dir: &Path, suite: &str) -> Result<Self> {
        for part in ["state/lists/partial", "cache/archives/partial"] {
            std::fs::create_dir_all(dir.join(part))?;
        }
        let sources = dir.join("sources.list");
        std::fs::write(&sources, format!("deb {} {suite} main\n", mirror()?))?;
        let config = dir.join("apt.conf");
        let lines = format!(
            "Dir::State {:?};\nDir::Cache {:?};\nDir::Etc::SourceList {:?};\nDir::Etc::SourceParts \"/dev/null\";\n\
             Dir::Etc::Preferences \"/dev/null\";\nDir::Etc::PreferencesParts \"/dev/null\";\n\
             Acquire::Languages \"none\";\nAPT::Sandbox::User \"root\";\n",
            dir.join("state"),
            dir.join("cache"),
            sources
        );
        std::fs::write(&config, lines)?;
        let apt = Self { config };
        check(apt.command("apt-get").args(["update", "--quiet=2"])).with_context(|| {
            format!(
                "cannot read Debian's list of {suite}: is this machine offline, or has Debian no such suite?"
            )
        })?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", &self.config);
        command
    }

    /// Returns the packages of the newest kernel.
    fn parts(&self) -> Result<BTreeSet<String>> {
        let (mut found, mut open) = (BTreeSet::new(), vec![META.to_owned()]);
        while let Some(name) = open.pop() {
            let output = self.command("apt-cache").args(["show", "--no-all-versions", &name]).output()?;
            if !output.status.success() {
                bail!("Debian has no package {name} there");
            }
            for part in depends(&String::from_utf8_lossy(&output.stdout)) {
                if found.insert(part.clone()) {
                    open.push(part);
                }
            }
        }
        Ok(found)
    }
}

/// Returns the kernel packages that a package depends on, from the output of `apt-cache show`.
fn depends(shown: &str) -> Vec<String> {
    let line = shown.lines().find_map(|line| line.strip_prefix("Depends: ")).unwrap_or_default();
    let names = line.split(',').filter_map(|one| one.split_whitespace().next());
    // Metapackages have no version in their names.
    let is_part = |name: &&str| {
        let versions = PARTS.iter().filter_map(|part| name.strip_prefix(part));
        versions.into_iter().any(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    };
    names.filter(is_part).map(str::to_owned).collect()
}

/// Source lists of this machine's apt: in the newer format, and in the older one.
const SOURCES: [&str; 2] = ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"];

/// Returns the Debian mirror that this machine uses.
fn mirror() -> Result<String> {
    let texts = SOURCES.map(|file| std::fs::read_to_string(file).unwrap_or_default());
    texts
        .iter()
        .find_map(|text| mirror_of(text))
        .with_context(|| format!("neither {} nor {} names a mirror of Debian", SOURCES[0], SOURCES[1]))
}

/// Parses `URIs: MIRROR`, or `deb [OPTIONS] MIRROR SUITE main`.
fn mirror_of(sources: &str) -> Option<String> {
    let lines =
        sources.lines().map(str::trim).filter(|line| line.starts_with("URIs:") || line.starts_with("deb "));
    let is_mirror = |word: &&str| word.contains("://") && word.trim_end_matches('/').ends_with("/debian");
    lines.flat_map(str::split_whitespace).find(is_mirror).map(str::to_owned)
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn the_mirror_is_the_one_of_this_machine() {
        let newer = "Types: deb\nURIs: http://m.example/debian-security\n\nTypes: deb\nURIs: http://m.example/debian\n";
        let older =
            "# deb http://x.example/debian a main\ndeb [arch=amd64] https://m.example/debian/ a main\n";
        assert_eq!(mirror_of(newer).as_deref(), Some("http://m.example/debian"));
        assert_eq!(mirror_of(older).as_deref(), Some("https://m.example/debian/"));
        assert_eq!(mirror_of(""), None);
    }

    #[test]
    fn parts_are_found_by_pattern() {
        let shown = "Package: linux-image-amd64\nDepends: linux-base-amd64 (= 7), linux-image-7.3.4+deb13-amd64 (= 7), \
                     linux-modules-amd64 (= 7), linux-binary-7.3.4+deb13-amd64 (= 7), dracut | initramfs-tools\n";
        let expected = ["linux-image-7.3.4+deb13-amd64", "linux-binary-7.3.4+deb13-amd64"];
        assert_eq!(depends(shown), expected);
        assert_eq!(depends("Package: x\n"), Vec::<String>::new());
    }
}
