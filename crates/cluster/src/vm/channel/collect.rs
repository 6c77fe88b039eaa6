//! What a program prints until it ends, and not until its last child does.

use std::fs::File;
use std::io::{ErrorKind, Read, Result, pipe};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::{Output, frame};

/// How it went.
pub(super) enum Collected {
    /// It ended.
    All(Output),
    /// The caller ended, and so it was.
    CallerGone,
    /// It printed more than is kept, and was ended.
    TooMuch,
}

/// Waits for the end of a program that leads its own process group. What it left in the background
/// may hold its pipes open for ever: what is in them when the program has ended is all it printed.
pub(super) fn collect(mut child: Child, caller: &TcpStream) -> Result<Collected> {
    let group = Pid::from_raw(i32::try_from(child.id()).expect("Linux' numbers are positive"));
    let stdout = Stream::of(child.stdout.take().expect("it was given a pipe"))?;
    let stderr = Stream::of(child.stderr.take().expect("it was given a pipe"))?;
    let (ended, end) = pipe()?;
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || {
            let status = child.wait();
            drop(end);
            status
        });
        let until = read_until(ended.as_fd(), caller.as_fd(), [stdout, stderr]);
        if !matches!(until, Ok(Until::End(_))) {
            // It may have ended on its own meanwhile.
            let _ = killpg(group, Signal::SIGKILL);
        }
        let status = waits.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(match until? {
            Until::End([stdout, stderr]) => {
                Collected::All(Output { stdout, stderr, code: code(status) })
            }
            Until::CallerGone => Collected::CallerGone,
            Until::TooMuch => Collected::TooMuch,
        })
    })
}

enum Until {
    End([Vec<u8>; 2]),
    CallerGone,
    TooMuch,
}

fn read_until(
    ended: BorrowedFd<'_>,
    caller: BorrowedFd<'_>,
    mut streams: [Stream; 2],
) -> Result<Until> {
    loop {
        let open = streams.iter().filter_map(|stream| stream.pipe.as_ref().map(AsFd::as_fd));
        let mut fds: Vec<_> = [ended, caller]
            .into_iter()
            .chain(open)
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => {}
            Err(nix::errno::Errno::EINTR) => continue,
            Err(e) => return Err(e.into()),
        }
        // Looked at before the pipes are: what it printed before its end is in them.
        let [has_ended, is_gone] = [&fds[0], &fds[1]].map(|fd| fd.any().unwrap_or(true));
        for stream in &mut streams {
            stream.drain()?;
        }
        if streams.iter().any(|stream| stream.bytes.len() > frame::PART_MAX) {
            return Ok(Until::TooMuch);
        }
        if has_ended {
            return Ok(Until::End(streams.map(|stream| stream.bytes)));
        }
        // Callers say nothing more: this is the end of the connection.
        if is_gone {
            return Ok(Until::CallerGone);
        }
    }
}

/// The end of a pipe, and what came out of it.
struct Stream {
    /// None when nothing more can come.
    pipe: Option<File>,
    bytes: Vec<u8>,
}

impl Stream {
    fn of(pipe: impl Into<OwnedFd>) -> Result<Self> {
        let pipe = File::from(pipe.into());
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self { pipe: Some(pipe), bytes: Vec::new() })
    }

    /// Takes what is there now, up to a byte more than is kept.
    fn drain(&mut self) -> Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        let left = (frame::PART_MAX + 1).saturating_sub(self.bytes.len());
        match pipe.take(left as u64).read_to_end(&mut self.bytes) {
            Ok(_) => self.pipe = None,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }
}

/// As shells say it.
fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}
