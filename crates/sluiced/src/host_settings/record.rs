//! The file that records which settings to restore on which interfaces.
//!
//! Rule: the first line names the daemon that wrote it, each further one an interface and its
//! network namespace, by the inode of that. It is replaced as a whole. A process that restores from
//! it holds a lock on its directory meanwhile, so that the restorer of a killed daemon undoes
//! nothing of the next one, which may have started already. In a folder that others can write to, a
//! file of theirs is refused, and so is what is no regular file, which is not waited for.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::geteuid;
use xdp::{HostSettings, NAMED_NAMESPACES, OWN_NAMESPACE, in_namespace};

use crate::control_socket::DIRECTORY_MODE;

/// The file of one daemon.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    /// A random number that no other daemon has.
    owner: String,
    /// Inode of the network namespace of this process.
    namespace: u64,
}

/// The settings of an interface, and the inode of its network namespace.
type RecordLine = (u64, HostSettings);

/// Whether the settings of an interface, by name, could be restored.
pub type Restored = Vec<(String, io::Result<()>)>;

impl Record {
    /// Restores what the file of a killed daemon says, and replaces it.
    pub fn take_over(path: &Path) -> io::Result<(Self, Restored)> {
        let owner = format!("{:016x}", getrandom::u64().map_err(io::Error::other)?);
        let namespace = fs::metadata(OWN_NAMESPACE)?.ino();
        let record = Self { path: path.to_path_buf(), owner, namespace };
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(record.folder())?;
        let _lock = record.lock()?;
        let left = read(path)?.map_or_else(Vec::new, |(_, lines)| restore(&lines));
        record.write([].iter())?;
        Ok((record, left))
    }

    /// The path of the file, and the daemon that it names.
    pub fn file_and_owner(&self) -> (&Path, &str) {
        (&self.path, &self.owner)
    }

    fn folder(&self) -> &Path {
        folder_of(&self.path)
    }

    fn lock(&self) -> io::Result<Flock<File>> {
        let folder = File::open(self.folder())?;
        Flock::lock(folder, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
    }

    /// Records these settings, and no others.
    pub fn write<'s>(&self, settings: impl Iterator<Item = &'s HostSettings>) -> io::Result<()> {
        let mut text = format!("{}\n", self.owner);
        for settings in settings.filter(|settings| !settings.is_empty()) {
            text += &format!("{} {settings}\n", self.namespace);
        }
        let new = self.path.with_extension("restore-new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&new, &self.path)
    }

    /// Removes the file.
    pub fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Restores what the file at `path` says, if it is of the daemon `owner`, and removes it.
pub fn restore_of(path: &Path, owner: &str) -> io::Result<Restored> {
    let record = Record { path: path.to_path_buf(), owner: owner.to_owned(), namespace: 0 };
    let _lock = record.lock()?;
    let lines = read(path)?.filter(|(written_by, _)| written_by == owner).map(|(_, lines)| lines);
    let Some(lines) = lines else { return Ok(Vec::new()) };
    let restored = restore(&lines);
    record.remove();
    Ok(restored)
}

/// Returns the folder of a file.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Reads a file: its owner, and the namespace and settings of each interface.
fn read(path: &Path) -> io::Result<Option<(String, Vec<RecordLine>)>> {
    // Without O_NONBLOCK a FIFO that nobody writes to would delay the start forever.
    let flags = O_NOFOLLOW | O_NONBLOCK;
    let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let (found, folder) = (file.metadata()?, fs::metadata(folder_of(path))?);
    if !found.is_file() {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it is no regular file: remove it"));
    }
    if ![geteuid().as_raw(), folder.uid()].contains(&found.uid()) {
        let what = format!("it is a file of user {}, not of a daemon here: remove it", found.uid());
        return Err(io::Error::new(ErrorKind::PermissionDenied, what));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let mut lines = text.lines();
    let owner = lines.next().unwrap_or_default().to_owned();
    let parse = |line: &str| {
        let (namespace, settings) = line.split_once(' ')?;
        Some((namespace.parse().ok()?, settings.parse().ok()?))
    };
    Ok(Some((owner, lines.filter_map(parse).collect())))
}

/// Restores settings, each in its namespace.
fn restore(lines: &[RecordLine]) -> Restored {
    let restore = |(namespace, settings): &RecordLine| {
        let restored = inside(*namespace, || settings.restore()).unwrap_or(Ok(()));
        (settings.interface.clone(), restored)
    };
    lines.iter().map(restore).collect()
}

/// Does something in the namespace with this inode. `None` if there is none: it went with its
/// interfaces, or a process that has ended kept it.
fn inside<T: Send>(namespace: u64, work: impl FnOnce() -> T + Send) -> Option<T> {
    let is_it = |path: &Path| fs::metadata(path).is_ok_and(|file| file.ino() == namespace);
    if is_it(Path::new(OWN_NAMESPACE)) {
        return Some(work());
    }
    let mut named = fs::read_dir(NAMED_NAMESPACES).ok()?.flatten().map(|entry| entry.path());
    let file = File::open(named.find(|path| is_it(path))?).ok()?;
    in_namespace(file, work).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(line: &str) -> HostSettings {
        line.parse().unwrap()
    }

    #[test]
    fn what_is_written_is_read_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/lab.sock.restore");
        let (record, left) = Record::take_over(&path).unwrap();
        assert!(left.is_empty());
        let changed = [settings("2147483647 eth0 pfifo"), settings("2147483646 eth1")];
        record.write(changed.iter()).unwrap();
        let (owner, lines) = read(&path).unwrap().unwrap();
        assert_eq!(
            (owner.as_str(), &lines[..]),
            (record.owner.as_str(), &[(record.namespace, changed[0].clone())][..])
        );

        // Another daemon takes over, and the restorer of the first one has nothing to do.
        let (other, left) = Record::take_over(&path).unwrap();
        assert!(left.len() == 1 && left[0].0 == "eth0" && left[0].1.is_ok(), "{left:?}");
        assert!(restore_of(&path, &record.owner).unwrap().is_empty() && path.exists());
        other.write(changed.iter()).unwrap();
        assert_eq!(restore_of(&path, &other.owner).unwrap().len(), 1);
        assert_eq!(fs::read_dir(folder.path().join("run")).unwrap().count(), 0);
    }

    /// Somebody who may write to the folder cannot have interfaces changed.
    #[test]
    fn a_link_a_fifo_and_a_file_of_another_user_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("lab.sock.restore"), folder.path().join("other"));
        fs::write(&other, "owner\n4 2147483647 eth0 pfifo\n").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert_eq!(read(&path).unwrap_err().raw_os_error(), Some(nix::libc::ELOOP));
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
        let refused = Record::take_over(&path).unwrap_err().to_string();
        assert!(refused.contains("it is no regular file"), "{refused}");
        fs::remove_file(&path).unwrap();
        if geteuid().is_root() {
            fs::rename(&other, &path).unwrap();
            std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
            let refused = Record::take_over(&path).unwrap_err().to_string();
            assert!(refused.contains("it is a file of user 12345"), "{refused}");
            // The folder is that user's, as when the daemon ran as that user before.
            std::os::unix::fs::chown(folder.path(), Some(12345), None).unwrap();
            assert_eq!(read(&path).unwrap().unwrap().1.len(), 1);
        }
    }

    #[test]
    fn a_file_of_somebody_else_does_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.sock.restore");
        fs::write(&path, "nonsense\n1\n2 3\n\n18446744073709551616 7 eth0 pfifo\n4 2147483647 eth0 pfifo\n")
            .unwrap();
        let (_, left) = Record::take_over(&path).unwrap();
        assert_eq!(left.len(), 1);
    }
}
