//! `sluice headroom --fix`: headroom that holds, written into a configuration. What is written is
//! the `config` crate's to say; here a file is read and replaced as a whole.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use config::read::document::too_long;
use config::{Fix, spell_time};
use serde::Serialize;
use similar::TextDiff;

use crate::output;
use crate::read_file::{self, Text};
use crate::stall::Stall;

/// Shows what is changed, and changes it unless this is a `dry_run`.
///
/// # Errors
/// Nothing that holds can be written; the file is as it was then.
pub fn run(file: &Path, stall: &Stall, dry_run: bool, as_json: bool) -> Result<()> {
    let name = file.display().to_string();
    let (old, fixed) = match read_file::read(file).with_context(|| format!("cannot read {name}"))? {
        Text::TooLong(bytes) => (String::new(), Err(too_long(&name, bytes))),
        Text::Whole(text) => {
            let fixed = config::fix(&name, &text, stall.ns);
            (text, fixed)
        }
    };
    let Fix { text, changes } = fixed.map_err(|mistakes| {
        eprintln!("{:?}", miette::Report::new(mistakes));
        anyhow!("{name} is as it was")
    })?;
    // More headroom may be more than an egress queue of the file holds.
    if let Ok(fixed) = config::parse(&name, &text)
        && !fixed.warnings.list().is_empty()
    {
        eprintln!("{:?}", miette::Report::new(fixed.warnings));
    }
    let written = !dry_run && !changes.is_empty();
    // What is shown first can be told from what is in the file; the other way round it could be lost.
    if !as_json {
        output::print(&shown(&name, &old, &text, &changes, stall))?;
    }
    if written {
        replace(file, &text).with_context(|| format!("cannot write {name}, which is as it was"))?;
    }
    match (as_json, written) {
        (true, _) => output::print(&output::json(
            &Outcome { file: &name, stall_ns: stall.ns, changes, written },
            true,
        )?),
        (false, true) => {
            output::print(&format!("Wrote {name}. What needs more memory takes a restart of sluiced."))
        }
        (false, false) if changes.is_empty() => Ok(()),
        (false, false) => output::print(&format!("{name} is as it was (--dry-run).")),
    }
}

/// For programs.
#[derive(Serialize)]
struct Outcome<'n> {
    file: &'n str,
    stall_ns: u64,
    changes: Vec<String>,
    written: bool,
}

/// For people: the lines that are different, and the settings.
fn shown(name: &str, old: &str, new: &str, changes: &[String], stall: &Stall) -> String {
    let about = format!("loops that are held up for {} ({})", spell_time(stall.ns), stall.source);
    if changes.is_empty() {
        return format!("{name}: headroom holds for {about}: nothing to change.");
    }
    let diff = TextDiff::from_lines(old, new);
    let diff = diff.unified_diff().context_radius(2).header(name, name).to_string();
    format!("{diff}\nHeadroom for {about}:\n    {}\n", changes.join("\n    "))
}

/// Puts a text in a file's place, whole or not at all: owner and permissions stay, and a link to
/// the file stays a link.
fn replace(file: &Path, text: &str) -> Result<()> {
    let file = fs::canonicalize(file)?;
    let metadata = fs::metadata(&file)?;
    if !metadata.is_file() {
        bail!("it is no regular file");
    }
    let permissions: Permissions = metadata.permissions();
    if permissions.readonly() {
        bail!("it is read-only");
    }
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
