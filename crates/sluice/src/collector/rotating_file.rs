//! A file of lines that is rotated when it is full; the last few files are kept. A symbolic link is
//! not followed: in a folder that others can write to, it leads to a file of their choice.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::libc::{ELOOP, O_NOFOLLOW};

/// The current file.
#[derive(Debug)]
pub struct Rotating {
    path: PathBuf,
    file: File,
    bytes: u64,
    most_bytes: u64,
    keep: u32,
}

impl Rotating {
    /// Appends to the file at `path`, or creates it. Of full files, `keep` are kept, as `path.1`
    /// (the newest) and so on.
    pub fn open(path: &Path, most_bytes: u64, keep: u32) -> Result<Self> {
        let file = append_to(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_path_buf(), file, bytes, most_bytes, keep })
    }

    /// Writes a complete line.
    pub fn write(&mut self, line: &str) -> Result<()> {
        let line = format!("{line}\n");
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.most_bytes {
            self.rotate().with_context(|| format!("cannot begin {} again", self.path.display()))?;
        }
        let written = self.file.write_all(line.as_bytes());
        written.with_context(|| format!("cannot write to {}", self.path.display()))?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> Result<()> {
        for number in (1..self.keep).rev() {
            let from = self.numbered(number);
            if from.exists() {
                fs::rename(from, self.numbered(number + 1))?;
            }
        }
        if self.keep > 0 {
            fs::rename(&self.path, self.numbered(1))?;
        } else {
            fs::remove_file(&self.path)?;
        }
        self.file = append_to(&self.path)?;
        self.bytes = 0;
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn append_to(path: &Path) -> Result<File> {
    let file = OpenOptions::new().create(true).append(true).custom_flags(O_NOFOLLOW).open(path);
    if file.as_ref().is_err_and(|error| error.raw_os_error() == Some(ELOOP)) {
        anyhow::bail!("{} is a symbolic link, which is not followed: name the file itself", path.display());
    }
    file.with_context(|| format!("cannot write to {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_files_move_on_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        let mut file = Rotating::open(&path, 10, 2).unwrap();
        for line in ["1111", "2222", "3333", "4444", "a line that is longer than a file", "5555"] {
            file.write(line).unwrap();
        }
        drop(file);
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).ok();
        assert_eq!(read("out.json").unwrap(), "5555\n");
        assert_eq!(read("out.json.1").unwrap(), "a line that is longer than a file\n");
        assert_eq!(read("out.json.2").unwrap(), "3333\n4444\n");
        assert_eq!(read("out.json.3"), None);

        let mut file = Rotating::open(&path, 10, 0).unwrap();
        file.write("6666").unwrap();
        file.write("7777").unwrap();
        assert_eq!(read("out.json").unwrap(), "7777\n");
        assert!(Rotating::open(Path::new("/nowhere/out"), 10, 0).is_err());
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("out.json"), folder.path().join("precious"));
        fs::write(&target, "data").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let refused = Rotating::open(&path, 10, 0).unwrap_err().to_string();
        assert!(
            refused.ends_with("is a symbolic link, which is not followed: name the file itself"),
            "{refused}"
        );
        assert_eq!(fs::read_to_string(&target).unwrap(), "data");
    }
}
