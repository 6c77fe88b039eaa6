//! A question to the kernel and all of its answers.

use std::io;
use std::time::Duration;

use crate::message::{self, Malformed, Message, Messages};
use crate::socket::Socket;

/// The kernel answers as it is read: it is never slow.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Why something could not be read from the kernel.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It changed during each attempt.
    #[error("it changed during each of {0} attempts to read it")]
    Changing(usize),
    /// The kernel refused.
    #[error("the kernel refused: {}", io::Error::from_raw_os_error(*.0))]
    Refused(i32),
    /// The kernel sent what can't be understood.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The socket failed.
    #[error("netlink socket: {0}")]
    Io(#[from] io::Error),
}

/// A question that got no complete answer.
#[derive(Debug)]
pub(crate) enum Failed {
    /// NLM_F_DUMP_INTR: what was dumped changed meanwhile.
    Interrupted,
    Other(ReadError),
}

/// Sends a request and hands each answer on. It reads up to the last one also after an error,
/// because an unfinished dump would block the next.
pub(crate) fn ask(
    socket: &Socket,
    buffer: &mut [u8],
    request: &[u8],
    sequence: u32,
    mut each: impl FnMut(&Message<'_>) -> Result<(), Malformed>,
) -> Result<(), Failed> {
    socket.send(request)?;
    let mut failed = None;
    loop {
        let Some(datagram) = socket.receive(buffer)? else {
            if socket.wait(ANSWER_TIMEOUT)? {
                continue;
            }
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        };
        for message in Messages::new(datagram) {
            let message = message?;
            if message.sequence != sequence {
                continue;
            }
            if message.flags & message::DUMP_INTERRUPTED != 0 {
                failed = Some(Failed::Interrupted);
            }
            let errno = match message.kind {
                message::DONE => message::done_errno(message.payload),
                message::ERROR => message::errno(message.payload)?,
                _ => {
                    if failed.is_none() {
                        failed = each(&message).err().map(Failed::from);
                    }
                    continue;
                }
            };
            return match errno {
                0 => failed.map_or(Ok(()), Err),
                errno => Err(Failed::Other(ReadError::Refused(errno))),
            };
        }
    }
}

/// Asks again as long as the answer was interrupted.
pub(crate) fn steadily<T>(
    attempts: usize,
    mut ask: impl FnMut() -> Result<T, Failed>,
) -> Result<T, ReadError> {
    for _ in 0..attempts {
        match ask() {
            Err(Failed::Interrupted) => {}
            Err(Failed::Other(error)) => return Err(error),
            Ok(answer) => return Ok(answer),
        }
    }
    Err(ReadError::Changing(attempts))
}

impl From<Malformed> for Failed {
    fn from(error: Malformed) -> Self {
        Self::Other(error.into())
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Other(error.into())
    }
}
