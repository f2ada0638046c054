//! A file that appears under its name when it is complete, or not at all.
//!
//! Rule: an existing file is replaced by a complete one only. A full disk is noticed when the file
//! is created, as far as [`RESERVED_BYTES`] go, or when more is reserved. A process that is killed
//! leaves nothing behind where the filesystem has files without a name (open(2), O_TMPFILE).

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::fcntl::{AT_FDCWD, AtFlags, FallocateFlags, fallocate};
use nix::libc;
use nix::sys::statvfs::fstatvfs;
use nix::unistd::linkat;
use tempfile::TempPath;

use crate::headroom_fix::{replace, replaceable};
use crate::output::grouped;

/// Bytes of the disk that a new file takes at once.
const RESERVED_BYTES: usize = 1 << 20;
/// Mode of a new file, subject to the umask.
const MODE: u32 = 0o666;

/// A file that is being written.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    path: PathBuf,
    /// Its temporary name, where it has to have one.
    temporary: Option<TempPath>,
}

impl NewFile {
    /// Creates a file that will have this path, and reserves room for it.
    pub fn create(path: &Path) -> io::Result<Self> {
        // A device or a pipe would be replaced by a file.
        if path.metadata().is_ok_and(|existing| !existing.is_file()) {
            let text = "it is no regular file, and is not replaced by one";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let unnamed = OpenOptions::new()
            .read(true)
            .write(true)
            .mode(MODE)
            .custom_flags(libc::O_TMPFILE)
            .open(folder(path));
        let (mut file, temporary) = match unnamed {
            Ok(file) => (file, None),
            // No folder, or none to write to: a named file would fail, too, under a name of ours.
            Err(error) if [ErrorKind::NotFound, ErrorKind::PermissionDenied].contains(&error.kind()) => {
                return Err(error);
            }
            Err(_) => {
                let named =
                    temporary_name().permissions(Permissions::from_mode(MODE)).tempfile_in(folder(path))?;
                let (file, temporary) = named.into_parts();
                (file, Some(temporary))
            }
        };
        file.write_all(&vec![0; RESERVED_BYTES])?;
        file.sync_data()?; // a filesystem may allocate as late as here
        file.rewind()?;
        Ok(Self { file, path: path.to_path_buf(), temporary })
    }

    /// Reserves room for a file of this size. What is not written is released when the file is
    /// published. Where the filesystem cannot reserve room, its free room is all that is checked.
    pub fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let filesystem = fstatvfs(&self.file)?;
        let free = filesystem.blocks_available() * filesystem.fragment_size();
        let refusal = || {
            let text = format!(
                "No space left on device: {} bytes are wanted and {} are free",
                grouped(bytes),
                grouped(free)
            );
            io::Error::new(io::ErrorKind::StorageFull, text)
        };
        if bytes > free + RESERVED_BYTES as u64 {
            return Err(refusal());
        }
        match fallocate(&self.file, FallocateFlags::empty(), 0, bytes as i64) {
            Err(nix::Error::ENOSPC) => Err(refusal()),
            Err(error) if error != nix::Error::EOPNOTSUPP => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Makes the file appear under its name, with what was written to it.
    pub fn publish(mut self) -> io::Result<()> {
        let end = self.file.stream_position()?;
        self.file.set_len(end)?;
        self.file.sync_all()?;
        let temporary = match self.temporary {
            Some(temporary) => temporary,
            // A link does not replace a file, and a rename needs a name.
            None => {
                temporary_name().make_in(folder(&self.path), |path| link(&self.file, path))?.into_temp_path()
            }
        };
        Ok(temporary.persist(&self.path)?)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Fails if a file of this name exists, unless it is to be replaced (`--force`).
pub fn must_be_new(path: &Path, force: bool) -> Result<()> {
    if !force && path.symlink_metadata().is_ok() {
        bail!("{}: the file exists: name another one, or replace it with --force", path.display());
    }
    Ok(())
}

/// Writes a whole file, as [`write_files`].
pub fn write_file(path: &Path, text: &str, force: bool) -> Result<()> {
    write_files(&[(path, text)], force)
}

/// Writes whole files, which must be new unless `force` is given. A file that is replaced keeps its
/// owner and permissions, and a symbolic link to it remains. Nothing is written if one of them
/// cannot be.
pub fn write_files(files: &[(&Path, &str)], force: bool) -> Result<()> {
    let mut new = Vec::new();
    for (path, text) in files {
        must_be_new(path, force)?;
        let name = || path.display().to_string();
        if path.symlink_metadata().is_ok() {
            replaceable(path).with_context(name)?;
            continue;
        }
        let mut file = NewFile::create(path).with_context(name)?;
        file.write_all(text.as_bytes()).with_context(name)?;
        new.push((file, path));
    }
    for (path, text) in files.iter().filter(|(path, _)| path.symlink_metadata().is_ok()) {
        replace(path, text).with_context(|| path.display().to_string())?;
    }
    new.into_iter().try_for_each(|(file, path)| file.publish().with_context(|| path.display().to_string()))
}

/// Returns the folder of a file.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn temporary_name() -> tempfile::Builder<'static, 'static> {
    let mut name = tempfile::Builder::new();
    name.prefix(".sluice-");
    name
}

/// Gives a file without a name this one.
fn link(file: &File, path: &Path) -> io::Result<()> {
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(AT_FDCWD, from.as_str(), AT_FDCWD, path, AtFlags::AT_SYMLINK_FOLLOW)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    /// A device or a pipe is not replaced by a file.
    #[test]
    fn only_a_regular_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [pipe.as_path(), folder.path()] {
            let error = NewFile::create(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        }
    }

    #[test]
    fn a_file_appears_when_it_is_complete_and_replaces_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.rec");
        for text in ["first", "second, and longer", "third"] {
            let mut file = NewFile::create(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            assert_ne!(fs::read_to_string(&path).unwrap_or_default(), text);
            file.publish().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        let mut dropped = NewFile::create(&path).unwrap();
        dropped.write_all(b"fourth").unwrap();
        drop(dropped);
        assert_eq!(fs::read_to_string(&path).unwrap(), "third");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o700, 0o600);
    }

    /// As a recording or a capture in a folder that others can write to.
    #[test]
    fn a_symbolic_link_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("a.rec"), folder.path().join("precious"));
        fs::write(&target, "data").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let mut file = NewFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        file.publish().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "data");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn an_existing_file_is_replaced_by_force_only() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("lab.toml"), folder.path().join("link.toml"));
        write_file(&file, "first", false).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&file, &link] {
            let refused = write_file(path, "second", false).unwrap_err().to_string();
            assert!(refused.starts_with(&path.display().to_string()), "{refused}");
            assert!(refused.ends_with("or replace it with --force"), "{refused}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "first");
        write_file(&link, "second", true).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "second");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn of_several_files_all_are_written_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let [file, other, blocked] = ["a.toml", "b.toml", "c.toml"].map(|name| folder.path().join(name));
        fs::write(&file, "before").unwrap();
        fs::create_dir(&blocked).unwrap();
        for (force, refused) in [(true, &blocked), (false, &file)] {
            let files: [(&Path, &str); 3] = [(&other, "new"), (&file, "new"), (&blocked, "new")];
            let error = write_files(&files, force).unwrap_err().to_string();
            assert!(error.starts_with(&refused.display().to_string()), "{error}");
            assert!(!other.exists() && fs::read_to_string(&file).unwrap() == "before");
        }
        write_files(&[(&other, "new"), (&file, "newer")], true).unwrap();
        assert_eq!([&other, &file].map(|path| fs::read_to_string(path).unwrap()), ["new", "newer"]);
    }

    #[test]
    fn room_is_reserved_and_what_is_not_written_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.rec");
        let mut file = NewFile::create(&path).unwrap();
        let refused = file.reserve(1 << 50).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        assert!(refused.to_string().contains("1,125,899,906,842,624 bytes are wanted and"), "{refused}");
        file.reserve(4 << 20).unwrap();
        assert!(file.file.metadata().unwrap().blocks() * 512 >= 4 << 20);
        file.write_all(b"short").unwrap();
        file.publish().unwrap();
        let written = fs::metadata(&path).unwrap();
        assert!(written.len() == 5 && written.blocks() * 512 < 1 << 20, "{written:?}");
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_at_once() {
        assert!(NewFile::create(Path::new("/proc/no/such/file")).is_err());
    }
}
