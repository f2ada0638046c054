//! `sluice headroom --fix`: writes sufficient headroom into a configuration. The `config` crate
//! decides what is written; here a file is read and replaced as a whole.

use std::fs::{self, Metadata, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use config::read::toml_document::too_long;
use config::{FixedFile, spell_time};
use serde::Serialize;
use similar::TextDiff;

use crate::output;
use crate::read_file::{self, Text};
use crate::stall::Stall;

/// Prints the changes, and applies them unless this is a `dry_run`.
///
/// # Errors
/// No sufficient headroom can be written; the file is then unchanged.
pub fn run(file: &Path, stall: &Stall, dry_run: bool, as_json: bool) -> Result<()> {
    let name = file.display().to_string();
    let (old, fixed) = match read_file::read(file).with_context(|| format!("cannot read {name}"))? {
        Text::TooLong(bytes) => (String::new(), Err(too_long(&name, bytes))),
        Text::Whole(text) => {
            let fixed = config::fix(&name, &text, stall.ns);
            (text, fixed)
        }
    };
    let FixedFile { text, changes } = fixed.map_err(|mistakes| {
        eprintln!("{:?}", miette::Report::new(mistakes));
        anyhow!("{name} is as it was")
    })?;
    // The new headroom may exceed the limit of an egress queue of the file.
    if let Ok(fixed) = config::parse(&name, &text)
        && !fixed.warnings.list().is_empty()
    {
        eprintln!("{:?}", miette::Report::new(fixed.warnings));
    }
    let written = !dry_run && !changes.is_empty();
    // Changes that are printed first can still be compared with the file; in the other order they
    // could be lost.
    if !as_json {
        output::print(&shown(&name, &old, &text, &changes, stall))?;
    }
    if written {
        replace(file, &text).with_context(|| format!("cannot write {name}, which is as it was"))?;
    }
    match (as_json, written) {
        (true, _) => output::print(&output::json(
            &FixReport { file: &name, stall_ns: stall.ns, changes, written },
            true,
        )?),
        (false, true) => {
            output::print(&format!("Wrote {name}. What needs more memory takes a restart of sluiced."))
        }
        (false, false) if changes.is_empty() => Ok(()),
        (false, false) => output::print(&format!("{name} is as it was (--dry-run).")),
    }
}

/// The changes for JSON.
#[derive(Serialize)]
struct FixReport<'n> {
    file: &'n str,
    stall_ns: u64,
    changes: Vec<String>,
    written: bool,
}

/// Formats the changes as text: the lines that differ, and the settings.
fn shown(name: &str, old: &str, new: &str, changes: &[String], stall: &Stall) -> String {
    let about = format!("loops that stall for {} ({})", spell_time(stall.ns), stall.source);
    if changes.is_empty() {
        return format!("{name}: headroom holds for {about}: nothing to change.");
    }
    let diff = TextDiff::from_lines(old, new);
    let diff = diff.unified_diff().context_radius(2).header(name, name).to_string();
    format!("{diff}\nHeadroom for {about}:\n    {}\n", changes.join("\n    "))
}

/// Replaces a file completely or not at all. Owner and permissions are kept, and a symbolic link to
/// the file remains.
pub fn replace(file: &Path, text: &str) -> Result<()> {
    let (file, metadata) = replaceable(file)?;
    let permissions: Permissions = metadata.permissions();
    let folder = file.parent().context("it is in no folder")?;
    let mut new = tempfile::Builder::new().prefix(".sluice-").suffix(".toml").tempfile_in(folder)?;
    new.write_all(text.as_bytes())?;
    let of_new = new.as_file().metadata()?;
    if (of_new.uid(), of_new.gid()) != (metadata.uid(), metadata.gid()) {
        fchown(new.as_file(), Some(metadata.uid()), Some(metadata.gid()))
            .context("its owner would change")?;
    }
    new.as_file().set_permissions(permissions)?;
    new.as_file().sync_all()?;
    new.persist(&file)?;
    Ok(())
}

/// Returns the path of a file that may be replaced, without symbolic links, and its metadata.
pub fn replaceable(file: &Path) -> Result<(PathBuf, Metadata)> {
    let file = fs::canonicalize(file)?;
    let metadata = fs::metadata(&file)?;
    if !metadata.is_file() {
        bail!("it is no regular file");
    }
    if metadata.permissions().readonly() {
        bail!("it is read-only");
    }
    Ok((file, metadata))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_permissions_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("lab.toml"), folder.path().join("link.toml"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        replace(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());

        fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
        assert_eq!(replace(&file, "newer").unwrap_err().to_string(), "it is read-only");
        assert_eq!(replace(folder.path(), "newer").unwrap_err().to_string(), "it is no regular file");
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left over");
    }
}
