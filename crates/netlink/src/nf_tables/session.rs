//! The socket that changes tables, and owns those with `flags owner`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::socket::SockProtocol;
use signpost_nft::{Change, Family};

use super::encode::Batch;
use super::error::{CommitError, Refusal};
use crate::message::{self, Messages};
use crate::socket::{DATAGRAM, Socket};

/// A batch goes out in one datagram: 10,000 Services with 10 endpoints each are 8 MB. The kernel
/// takes memory only for what is sent.
const SEND_BUFFER_BYTES: usize = 512 << 20;
/// Each change of a batch can be refused with an error message of its own.
const RECEIVE_BUFFER_BYTES: usize = 16 << 20;
/// What the reusable buffer keeps after a large batch.
const KEPT_BUFFER_BYTES: usize = 256 << 10;
/// The kernel commits before send returns, so the answer is there already; this only bounds the
/// wait if it isn't.
const ACK_TIMEOUT: Duration = Duration::from_secs(1);

/// Before the numbers run out they start again; a batch has fewer messages than are left.
const SEQUENCE_LIMIT: u32 = u32::MAX / 2;
const FIRST_SEQUENCE: u32 = 1;

/// A netlink socket to nf_tables. A table with `flags owner` belongs to the session that made it.
#[derive(Debug)]
pub struct Session {
    pub(super) socket: Socket,
    pub(super) sequence: u32,
    pub(super) buffer: Box<[u8]>,
    batch: Batch,
}

/// The kernel acknowledged a transaction: all of it is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked(());

impl Session {
    /// Opens a socket in this thread's network namespace.
    pub fn open() -> io::Result<Self> {
        Self::with(Socket::open(SockProtocol::NetlinkNetFilter, 0)?)
    }

    /// Takes over the socket of another session, with the tables that it owns.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let mut session = Self::with(Socket::from_fd(fd)?)?;
        // Answers that the other one did not wait for could pass for answers to this one.
        while session.socket.receive(&mut session.buffer).is_ok_and(|old| old.is_some()) {}
        Ok(session)
    }

    /// The port id by which the kernel names this session in events.
    pub fn portid(&self) -> u32 {
        self.socket.port()
    }

    /// Whether the kernel has both `flags owner` and `flags persist` (Linux 6.9). It makes such a
    /// table and deletes it in the same transaction: nobody sees it.
    pub fn can_own_and_persist(&mut self) -> Result<bool, CommitError> {
        let name = format!("signpost-probe-{}", self.portid());
        let changes = [Change::AddTable { owner: true, persist: true }, Change::DeleteTable];
        match self.commit(Family::Ip, &name, &changes) {
            Ok(Acked(())) => Ok(true),
            Err(CommitError::Refused(refusals))
                if refusals.iter().any(|refusal| {
                    refusal.index == 0 && matches!(refusal.errno, libc::EOPNOTSUPP | libc::EINVAL)
                }) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Applies the changes in one transaction: all or nothing.
    pub fn commit(
        &mut self,
        family: Family,
        table: &str,
        changes: &[Change],
    ) -> Result<Acked, CommitError> {
        if self.sequence > SEQUENCE_LIMIT {
            self.sequence = FIRST_SEQUENCE;
        }
        if let Err(unwritable) = self.batch.write(self.sequence, family, table, changes) {
            let index = unwritable.change;
            return Err(CommitError::Refused(vec![Refusal {
                index,
                element: None,
                errno: libc::EOPNOTSUPP,
            }]));
        }
        if self.batch.is_empty() {
            return Ok(Acked(()));
        }
        self.sequence = self.batch.sequences().end;
        let result = self.socket.send(self.batch.as_slice()).map_err(CommitError::Io);
        let result = result.and_then(|()| self.await_ack());
        self.batch.shrink_to(KEPT_BUFFER_BYTES);
        result
    }

    /// Reads the kernel's answers up to that to the last message. That send returned says nothing:
    /// only an error 0 for the last message, with no error before it, means that the transaction is
    /// in force.
    fn await_ack(&mut self) -> Result<Acked, CommitError> {
        let deadline = Instant::now() + ACK_TIMEOUT;
        let mut refusals = Vec::new();
        loop {
            let Some(datagram) = self.socket.receive(&mut self.buffer).map_err(unanswered)? else {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() || !self.socket.wait(left).map_err(unanswered)? {
                    return Err(CommitError::NoAck);
                }
                continue;
            };
            for message in Messages::new(datagram) {
                let message = message.map_err(unanswered)?;
                if message.kind != message::ERROR
                    || !self.batch.sequences().contains(&message.sequence)
                {
                    continue;
                }
                let errno = message::errno(message.payload).map_err(unanswered)?;
                match self.batch.origin(message.sequence) {
                    Some(origin) if errno != 0 => refusals.push(Refusal {
                        index: origin.change,
                        element: message::error_offset(&message)
                            .and_then(|offset| self.batch.element(origin, offset)),
                        errno,
                    }),
                    None if errno != 0 => return Err(CommitError::RefusedWhole { errno }),
                    Some(_) | None => {}
                }
                if message.sequence == self.batch.last_sequence() {
                    if refusals.is_empty() {
                        return Ok(Acked(()));
                    }
                    return Err(CommitError::Refused(refusals));
                }
            }
        }
    }

    fn with(socket: Socket) -> io::Result<Self> {
        socket.set_send_buffer(SEND_BUFFER_BYTES)?;
        socket.set_receive_buffer(RECEIVE_BUFFER_BYTES)?;
        socket.set_short_errors()?;
        let sequence = FIRST_SEQUENCE;
        let buffer = vec![0; DATAGRAM].into();
        Ok(Self { socket, sequence, buffer, batch: Batch::default() })
    }
}

/// Whatever it was: the batch is sent and its fate unknown.
fn unanswered<E>(_: E) -> CommitError {
    CommitError::NoAck
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
