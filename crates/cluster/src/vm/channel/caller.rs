//! The host's side.

use std::fs::File;
use std::io::{ErrorKind, Result as IoResult};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use signpost_lab::Namespace;

use super::{GREETING, Key, Output, Reply, Request, frame};
use crate::vm::Error;
use crate::vm::error::At;

/// The longest that tests wait for is a first sync of an emulated kube-proxy: two and a half minutes.
const RUN_MAX: Duration = Duration::from_secs(600);

/// The emulator accepts at once; the guest greets in 10 ms, or when others leave it a processor.
const GREETING_MAX: Duration = Duration::from_secs(60);

/// Where a guest's command server is reached.
#[derive(Debug)]
pub(in crate::vm) struct Caller {
    /// The guest's.
    pub(in crate::vm) directory: PathBuf,
    pub(in crate::vm) port: u16,
    /// Whose 127.0.0.1; the host's own without.
    pub(in crate::vm) namespace: Option<Namespace>,
}

/// Runs a program in the guest to its end.
pub(in crate::vm) fn run(caller: &Caller, argv: &[&str], stdin: &[u8]) -> Result<Output, Error> {
    let fault = |message| Error::Run { command: argv.join(" "), message };
    if stdin.len() > frame::PART_MAX {
        return Err(fault(format!("{} bytes of input: more than a frame holds", stdin.len())));
    }
    let (stream, key) = open(caller)?;
    let talk = stream.and_then(|stream| talk(stream, key, argv, stdin));
    match talk {
        Ok((Reply::Ended(code), stdout, stderr)) => Ok(Output { stdout, stderr, code }),
        Ok((Reply::Failed(message), ..)) => Err(fault(message)),
        Err(e) => Err(fault(explained(&e))),
    }
}

/// One caller after the other, of all processes, until the guest has greeted: the emulator listens
/// with a queue of one, and of sixteen who came at once eight were reset.
fn open(caller: &Caller) -> Result<(IoResult<TcpStream>, Key), Error> {
    let path = Key::path(&caller.directory);
    let file = match File::open(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Err(Error::Missing(caller.directory.clone()));
        }
        opened => opened.at(|| path.display().to_string())?,
    };
    let lock = Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, e)| e)
        .at(|| format!("locking {}", path.display()))?;
    let key = Key::read(&lock).at(|| path.display().to_string())?;
    let stream = match &caller.namespace {
        Some(namespace) => namespace.run(|| connect(caller.port))?,
        None => connect(caller.port),
    };
    Ok((stream, key))
}

fn connect(port: u16) -> IoResult<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, GREETING_MAX)?;
    stream.set_read_timeout(Some(GREETING_MAX))?;
    if frame::read(&mut stream, GREETING.len())? != GREETING {
        return Err(std::io::Error::new(ErrorKind::InvalidData, "something else listens there"));
    }
    stream.set_read_timeout(Some(RUN_MAX))?;
    stream.set_write_timeout(Some(RUN_MAX))?;
    Ok(stream)
}

fn talk(
    mut stream: TcpStream,
    key: Key,
    argv: &[&str],
    stdin: &[u8],
) -> IoResult<(Reply, Vec<u8>, Vec<u8>)> {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    let request = serde_json::to_vec(&Request { key, argv }).expect("strings make JSON");
    frame::write(&mut stream, &request)?;
    frame::write(&mut stream, stdin)?;
    let reply = frame::read(&mut stream, frame::HEAD_MAX)?;
    let reply: Reply = serde_json::from_slice(&reply)?;
    let stdout = frame::read(&mut stream, frame::PART_MAX)?;
    let stderr = frame::read(&mut stream, frame::PART_MAX)?;
    Ok((reply, stdout, stderr))
}

fn explained(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("no answer in {} s; if it ran, it was ended", RUN_MAX.as_secs())
        }
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => {
            format!("the guest went away ({error}): see its kernel.log")
        }
        _ => error.to_string(),
    }
}
