//! The control socket: its permissions and its ownership.
//!
//! Rule: owner, group and mode are those of the configuration before any client can connect. The
//! socket is made with its mode; owner and group are given to a socket of this process's user that
//! has no other name, and to nothing else that somebody may put in its place meanwhile. A file
//! left by a daemon that was killed is replaced. A socket that a daemon listens on, and a file that
//! is not a socket, are not touched. The file is removed when the daemon ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use config::ControlSocket;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::libc::{O_NOFOLLOW, O_PATH};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use nix::sys::socket::{bind as bind_to, connect, listen, socket};
use nix::sys::stat::{Mode, fchmod, umask};
use nix::unistd::{Gid, Group, Uid, User, fchownat, getegid, geteuid, getgroups};

use crate::capabilities::Capabilities;

/// Who may connect: `[control]` with its names looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permissions {
    /// Owner of the socket; `None` for the user of the daemon.
    owner: Option<Uid>,
    /// Group of the socket; `None` for that of the daemon.
    group: Option<Gid>,
    mode: u32,
}

impl Permissions {
    /// Looks up the names of users and groups, and whether this process may give them a file.
    ///
    /// # Errors
    /// The name of the setting that has an unknown or refused one, what is wrong, and the cure.
    pub fn look_up(control: &ControlSocket) -> Result<Self, UnusableName> {
        let found = Self::look_up_names(control)?;
        let mut groups = getgroups().unwrap_or_default();
        groups.push(getegid());
        found.must_be_allowed(control, (geteuid(), Capabilities::effective().may_chown()), &groups)?;
        Ok(found)
    }

    /// Fails if a process of this user and these groups may not give a file to owner and group:
    /// chown(2) takes CAP_CHOWN for what is not its own, of root, too.
    fn must_be_allowed(
        &self,
        control: &ControlSocket,
        (user, may_chown): (Uid, bool),
        groups: &[Gid],
    ) -> Result<(), UnusableName> {
        let refused = |setting, name: &Option<String>, cure: &str| {
            let name = name.as_deref().unwrap_or_default();
            let what =
                format!("a daemon of user {user} without CAP_CHOWN may not give its socket to {name:?}");
            Err(UnusableName { setting, what, cure: cure.to_owned() })
        };
        match (self.owner, self.group) {
            _ if may_chown => Ok(()),
            (Some(owner), _) if owner != user => refused(
                "control.owner",
                &control.owner,
                "run it as that user or with CAP_CHOWN, or leave the setting out",
            ),
            (_, Some(group)) if !groups.contains(&group) => refused(
                "control.group",
                &control.group,
                "run it in that group or with CAP_CHOWN, or leave the setting out",
            ),
            _ => Ok(()),
        }
    }

    fn look_up_names(control: &ControlSocket) -> Result<Self, UnusableName> {
        let owner = control.owner.as_deref().map(|name| {
            let found = User::from_name(name).ok().flatten().map(|user| user.uid);
            found.ok_or_else(|| UnusableName::unknown("control.owner", "user", "useradd", name))
        });
        let group = control.group.as_deref().map(|name| {
            let found = Group::from_name(name).ok().flatten().map(|group| group.gid);
            found.ok_or_else(|| UnusableName::unknown("control.group", "group", "groupadd", name))
        });
        Ok(Self { owner: owner.transpose()?, group: group.transpose()?, mode: control.mode })
    }

    /// Returns the users who may change the switch.
    pub fn admins(&self) -> Vec<u32> {
        let mut admins = vec![geteuid().as_raw()];
        admins.extend(self.owner.map(Uid::as_raw).filter(|owner| *owner != admins[0]));
        admins
    }
}

/// A user or group in `[control]` that this machine does not have, or that this process may not
/// give the socket to.
#[derive(Debug, PartialEq, Eq)]
pub struct UnusableName {
    /// Full name of the setting.
    pub setting: &'static str,
    /// What is wrong.
    pub what: String,
    /// How to correct it.
    pub cure: String,
}

impl UnusableName {
    fn unknown(setting: &'static str, what: &str, command: &str, name: &str) -> Self {
        let what = format!("this machine has no {what} {name:?}");
        Self {
            setting,
            what,
            cure: format!("create it with `{command} --system NAME`, or leave the setting out"),
        }
    }
}

/// Mode of the directories created for the socket.
pub const DIRECTORY_MODE: u32 = 0o755;

/// The file of a listening socket. Dropping it removes the file, unless another file has replaced
/// it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    file: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Fails if a daemon listens on `path`, or if the file there must not be removed. Changes nothing.
pub fn must_be_free(path: &Path) -> Result<()> {
    let file = match fs::symlink_metadata(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("control socket {}", path.display())),
    };
    if !file.file_type().is_socket() {
        bail!(
            "control socket {}: there is a file that is no socket; remove it, or choose another path",
            path.display()
        );
    }
    match connect_at_once(path) {
        Err(Errno::ECONNREFUSED | Errno::ENOENT) => Ok(()),
        Ok(()) | Err(Errno::EAGAIN) => bail!(
            "control socket {}: another sluiced runs with this socket; stop it, or set control.socket to another path",
            path.display()
        ),
        Err(error) => Err(error).with_context(|| format!("control socket {}", path.display())),
    }
}

/// Connects without waiting: EAGAIN where a daemon listens and its backlog is full.
fn connect_at_once(path: &Path) -> nix::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let client = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(client.as_raw_fd(), &UnixAddr::new(path)?)
}

/// Opens a socket of this process's user, not to use it but to change this very file, whatever
/// takes its name later. Fails if the file is anything else.
fn opened(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(O_PATH | O_NOFOLLOW).open(path)?;
    let found = file.metadata()?;
    if !found.file_type().is_socket() || found.uid() != geteuid().as_raw() || found.nlink() != 1 {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "another file has replaced it"));
    }
    Ok(file)
}

/// Listens on `path`.
pub fn bind(path: &Path, permissions: Permissions) -> Result<(UnixListener, SocketFile)> {
    let context = || format!("control socket {}", path.display());
    if let Some(directory) = path.parent() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(DIRECTORY_MODE).create(directory).with_context(context)?;
    }
    must_be_free(path)?;
    if let Err(error) = fs::remove_file(path)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(error).with_context(context);
    }
    let address = UnixAddr::new(path).with_context(context)?;
    let unheard =
        socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).with_context(context)?;
    let Permissions { owner, group, mode } = permissions;
    // The file gets the mode of the unbound socket, so that nothing has to be changed by its name.
    fchmod(&unheard, Mode::from_bits_truncate(mode)).with_context(context)?;
    let others = umask(Mode::empty());
    let bound = bind_to(unheard.as_raw_fd(), &address);
    umask(others);
    bound.with_context(context)?;
    let bound = opened(path).with_context(context)?;
    let found = bound.metadata().with_context(context)?;
    let file = SocketFile { path: path.to_path_buf(), file: (found.dev(), found.ino()) };
    // No client can connect before `listen`.
    if owner.is_some() || group.is_some() {
        fchownat(&bound, c"", owner, group, AtFlags::AT_EMPTY_PATH).with_context(|| {
            format!("control socket {}: owner and group (control.owner, control.group)", path.display())
        })?;
    }
    listen(&unheard, Backlog::new(128)?).with_context(context)?;
    let listener = UnixListener::from(unheard);
    Ok((listener, file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    const OPEN: Permissions = Permissions { owner: None, group: None, mode: 0o660 };

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_socket_is_for_owner_and_group_and_goes_away_with_its_guard() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/sluice/a.sock");
        let (_listener, guard) = bind(&path, OPEN).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o660, 0o755));
        assert!(UnixStream::connect(&path).is_ok());
        drop(guard);
        assert!(!path.exists());
    }

    #[test]
    fn a_live_socket_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let (_listener, _guard) = bind(&path, OPEN).unwrap();
        for refusal in [must_be_free(&path).unwrap_err(), bind(&path, OPEN).unwrap_err()] {
            assert!(refusal.to_string().contains("another sluiced runs with this socket"), "{refusal:#}");
        }
        assert!(UnixStream::connect(&path).is_ok());
    }

    /// A daemon that accepts nobody, because it is stopped, say: finding it out does not wait.
    #[test]
    fn a_live_socket_with_a_full_backlog_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let (listener, _guard) = bind(&path, OPEN).unwrap();
        listen(&listener, Backlog::new(1).unwrap()).unwrap();
        let _waiting = [(); 2].map(|()| UnixStream::connect(&path).unwrap());
        assert_eq!(connect_at_once(&path), Err(Errno::EAGAIN), "the backlog is full");
        let refusal = must_be_free(&path).unwrap_err().to_string();
        assert!(refusal.contains("another sluiced runs with this socket"), "{refusal}");
    }

    #[test]
    fn a_socket_left_behind_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists() && UnixStream::connect(&path).is_err(), "dead, but there");
        must_be_free(&path).unwrap();
        let (_listener, _guard) = bind(&path, OPEN).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        assert_eq!(mode(&path), 0o660);
    }

    #[test]
    fn a_file_that_is_no_socket_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        fs::write(&path, "data").unwrap();
        let refusal = bind(&path, OPEN).unwrap_err().to_string();
        assert!(refusal.contains("there is a file that is no socket"), "{refusal}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
    }

    /// A link in a folder that others can write to leads nowhere: neither to a socket of another
    /// daemon, nor to a file that would be removed or given away.
    #[test]
    fn a_symbolic_link_is_refused_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("a.sock"), folder.path().join("target"));
        for make in
            [|at: &Path| fs::write(at, "data").unwrap(), |at: &Path| drop(UnixListener::bind(at).unwrap())]
        {
            make(&target);
            let before = fs::symlink_metadata(&target).unwrap();
            std::os::unix::fs::symlink(&target, &path).unwrap();
            for refusal in [must_be_free(&path).unwrap_err(), bind(&path, OPEN).unwrap_err()] {
                assert!(refusal.to_string().contains("there is a file that is no socket"), "{refusal:#}");
            }
            let after = fs::symlink_metadata(&target).unwrap();
            assert_eq!(
                (after.ino(), after.mode(), after.ctime()),
                (before.ino(), before.mode(), before.ctime())
            );
            fs::remove_file(&path).unwrap();
            fs::remove_file(&target).unwrap();
        }
    }

    /// Neither a link, nor a file, nor a file with another name, nor another user's is given away.
    #[test]
    fn only_an_own_socket_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a.sock"), folder.path().join("other"));
        let _socket = UnixListener::bind(&path).unwrap();
        assert!(opened(&path).is_ok());
        std::os::unix::fs::symlink(&path, &other).unwrap();
        assert!(opened(&other).is_err(), "a link");
        fs::remove_file(&other).unwrap();
        fs::write(&other, "data").unwrap();
        assert!(opened(&other).is_err(), "a file");
        fs::remove_file(&other).unwrap();
        fs::hard_link(&path, &other).unwrap();
        assert!(opened(&path).is_err() && opened(&other).is_err(), "two names");
        fs::remove_file(&other).unwrap();
        if geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
            assert!(opened(&path).is_err(), "of another user");
        }
    }

    /// The socket of a later daemon is not removed.
    #[test]
    fn a_socket_of_somebody_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let (listener, guard) = bind(&path, OPEN).unwrap();
        // So that its inode is not reused.
        fs::hard_link(&path, folder.path().join("first")).unwrap();
        drop(listener);
        let (_next, _its_guard) = bind(&path, OPEN).unwrap();
        drop(guard);
        assert!(UnixStream::connect(&path).is_ok());
    }

    #[test]
    fn owner_group_and_mode_are_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let names = ControlSocket {
            path: path.clone(),
            group: Some("daemon".to_owned()),
            owner: Some("nobody".to_owned()),
            mode: 0o666,
        };
        let permissions = Permissions::look_up_names(&names).unwrap();
        let nobody = User::from_name("nobody").unwrap().unwrap().uid;
        assert_eq!(permissions.admins(), [geteuid().as_raw(), nobody.as_raw()]);
        let group = Group::from_name("daemon").unwrap().unwrap().gid;
        if geteuid().is_root() {
            let (_listener, _guard) = bind(&path, permissions).unwrap();
            let file = fs::metadata(&path).unwrap();
            assert_eq!((file.uid(), file.gid(), mode(&path)), (nobody.as_raw(), group.as_raw(), 0o666));
        }
        let unknown = ControlSocket { group: Some("no such".to_owned()), ..names };
        let error = Permissions::look_up(&unknown).unwrap_err();
        assert_eq!((error.setting, &*error.what), ("control.group", "this machine has no group \"no such\""));
    }

    #[test]
    fn only_with_cap_chown_the_socket_is_given_away() {
        let names = |owner: Option<&str>, group: Option<&str>| ControlSocket {
            path: PathBuf::from("/run/sluice/a.sock"),
            group: group.map(str::to_owned),
            owner: owner.map(str::to_owned),
            mode: 0o660,
        };
        let nobody = User::from_name("nobody").unwrap().unwrap().uid;
        let daemon = Group::from_name("daemon").unwrap().unwrap().gid;
        let refused = |names: &ControlSocket, user: (Uid, bool), groups: &[Gid]| {
            let permissions = Permissions::look_up_names(names).unwrap();
            permissions.must_be_allowed(names, user, groups).err().map(|error| error.setting)
        };
        let others = names(Some("root"), Some("daemon"));
        let (root, nobody) = (Uid::from_raw(0), (nobody, false));
        assert_eq!(refused(&others, (root, true), &[]), None);
        assert_eq!(refused(&others, (root, false), &[]), Some("control.group"));
        assert_eq!(refused(&others, nobody, &[daemon]), Some("control.owner"));
        let own = names(Some("nobody"), Some("daemon"));
        assert_eq!(refused(&own, nobody, &[Gid::from_raw(0)]), Some("control.group"));
        assert_eq!(refused(&own, nobody, &[daemon]), None);
        assert_eq!(refused(&names(None, None), nobody, &[]), None);
    }
}
