//! The lock that keeps a second agent away, and how one agent hands over to the next.
//!
//! The lock is an flock of `SOCKET.lock`: it belongs to the open file, so it moves with the
//! descriptor and is never free in between. The netlink socket that owns the nftables table moves
//! the same way, and so do the mesh's socket and the listening UNIX socket.

use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

/// The old agent answers from its loop; one that hangs must be stopped by hand.
const PATIENCE: Duration = Duration::from_secs(5);

/// What an agent holds that its successor needs.
pub(crate) struct Hold {
    /// The lock.
    pub(crate) lock: OwnedFd,
    /// Where status and drain are asked.
    pub(crate) listener: UnixListener,
    /// `None`: there was no agent before us.
    pub(crate) from_running: Option<Sockets>,
}

/// The sockets of the agent before us that two cannot have at once.
pub(crate) struct Sockets {
    /// The mesh's: with it the port, its memberships, and what waits in it.
    pub(crate) mesh: OwnedFd,
    /// The netlink socket that owns the table.
    pub(crate) session: OwnedFd,
}

/// Takes the lock, by waiting for nobody: from a running agent only when asked to.
pub(crate) fn acquire(socket: &Path, takeover: bool) -> Result<Hold> {
    let path = lock_path(socket);
    if let Some(dir) = socket.parent() {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot open the lock {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => {
            sign(&file)?;
            Ok(Hold { lock: file.into(), listener: listen(socket)?, from_running: None })
        }
        Err(_) if takeover => from_running(socket),
        Err(_) => {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            bail!(
                "another agent (pid {}) holds {}: stop it first, or start with --takeover",
                pid.trim(),
                path.display()
            )
        }
    }
}

/// Writes into the lock who has it. Its offset moved on with the agent before us: not used.
fn sign(lock: &File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0)
}

fn lock_path(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_os_string();
    name.push(".lock");
    name.into()
}

fn listen(socket: &Path) -> Result<UnixListener> {
    // The lock is ours, so a socket file there is a dead agent's.
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket)
        .with_context(|| format!("cannot listen at {}", socket.display()))?;
    std::fs::set_permissions(socket, PermissionsExt::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn from_running(socket: &Path) -> Result<Hold> {
    let context = || format!("the agent at {} does not hand over", socket.display());
    let mut stream = UnixStream::connect(socket).with_context(context)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"{\"request\":\"takeover\"}\n").with_context(context)?;
    let mut line = [0; 4096];
    let mut rights = nix::cmsg_space!([std::os::fd::RawFd; 4]);
    let mut data = [IoSliceMut::new(&mut line)];
    let fd = stream.as_raw_fd();
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let m = recvmsg::<()>(fd, &mut data, Some(&mut rights), flags).with_context(context)?;
    let mut fds = Vec::new();
    for c in m.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = c {
            fds.extend(raw.into_iter().map(super::wire::socket::adopt));
        }
    }
    let Ok([lock, listener, mesh, session]) = <[OwnedFd; 4]>::try_from(fds) else {
        bail!("{}: it runs another version; stop it first", context())
    };
    // Its end closes when the process ends: it speaks no more.
    let _ = stream.read_to_end(&mut Vec::new());
    sign(&File::from(lock.try_clone()?))?;
    let from_running = Some(Sockets { mesh, session });
    Ok(Hold { lock, listener: listener.into(), from_running })
}
