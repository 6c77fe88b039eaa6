//! Waiting until the guest says that it is up: one line on its second serial port.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::libc::O_NONBLOCK;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::Error;
use super::error::At;

/// What the command server writes when it listens; anything else is a complaint.
pub(super) const READY: &str = "ready";

/// The port in the guest.
pub(super) const PORT: &str = "/dev/ttyS1";

/// Thirty times what a boot takes: a host that is slower than that is no host for tests.
const BOOT_MAX: Duration = Duration::from_secs(120);

/// A line is shorter than this, whatever a guest writes.
const LINE_MAX: usize = 4096;

/// qemu opens `PATH.in` and `PATH.out`.
const PIPE: &str = "ready";

/// The host's end of the port.
pub(super) struct Ready {
    directory: PathBuf,
    pipe: File,
}

impl Ready {
    /// Makes the pipes that [`argument`] names.
    pub(super) fn listen(directory: &Path) -> Result<Self, Error> {
        remove(directory);
        let [from_host, to_host] = pipes(directory);
        for path in [&from_host, &to_host] {
            mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).at(|| path.display().to_string())?;
        }
        let pipe = OpenOptions::new()
            .read(true)
            .custom_flags(O_NONBLOCK)
            .open(&to_host)
            .at(|| to_host.display().to_string())?;
        Ok(Self { directory: directory.to_owned(), pipe })
    }

    /// Waits for the line; says what came instead.
    pub(super) fn wait(mut self) -> Result<(), String> {
        let deadline = Instant::now() + BOOT_MAX;
        let mut line = Vec::new();
        while !line.contains(&b'\n') && line.len() < LINE_MAX {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = PollTimeout::try_from(left).expect("two minutes fit");
            let mut fds = [PollFd::new(self.pipe.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, left) {
                Ok(0) => return Err(format!("did not come up within {} s", BOOT_MAX.as_secs())),
                Ok(_) => {}
                Err(nix::errno::Errno::EINTR) => continue,
                Err(e) => return Err(format!("cannot be waited for: {e}")),
            }
            let mut part = [0; LINE_MAX];
            match self.pipe.read(&mut part) {
                Ok(0) => return Err("ended on its own".to_owned()),
                Ok(length) => line.extend_from_slice(&part[..length]),
                Err(e) => return Err(format!("cannot be heard: {e}")),
            }
        }
        let line = String::from_utf8_lossy(&line);
        match line.trim() {
            READY => Ok(()),
            complaint => Err(format!("says `{complaint}`")),
        }
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

/// What qemu's `-serial` takes.
pub(super) fn argument(directory: &Path) -> String {
    format!("pipe:{}", directory.join(PIPE).display())
}

fn pipes(directory: &Path) -> [PathBuf; 2] {
    ["in", "out"].map(|end| directory.join(PIPE).with_extension(end))
}

fn remove(directory: &Path) {
    for path in pipes(directory) {
        // Not there, or in the way of `mkfifo`, which says so.
        let _ = std::fs::remove_file(path);
    }
}
