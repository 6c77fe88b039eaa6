//! The guest's side: runs what callers want, each on a thread of its own.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::collect::{Collected, collect};
use super::{GREETING, Key, Output, Reply, Request, frame};
use crate::vm::Error;
use crate::vm::error::At;
use crate::vm::ready::READY;

/// Each is a thread and a program, and a guest has a gigabyte.
const AT_ONCE_MAX: usize = 256;

/// Callers send their request at once.
const REQUEST_MAX: Duration = Duration::from_secs(60);

/// Runs programs for whoever has the guest's key, for ever. The arguments are those that
/// [`Server`](crate::vm::Server)'s program gets after its own.
pub fn serve(arguments: &[OsString]) -> Result<(), Error> {
    let Arguments { listen, key, ready } = Arguments::parse(arguments)?;
    let key =
        File::open(&key).and_then(|file| Key::read(&file)).at(|| key.display().to_string())?;
    let listener = TcpListener::bind(listen).at(|| listen.to_string())?;
    say_ready(&ready)?;
    let running = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        loop {
            let (stream, _) = listener.accept().at(|| listen.to_string())?;
            let (key, running) = (&key, &running);
            scope.spawn(move || {
                let others = running.fetch_add(1, Ordering::Relaxed);
                // A caller who has gone away needs no answer.
                let _ = answer(stream, key, others);
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
    })
}

struct Arguments {
    listen: SocketAddr,
    key: PathBuf,
    ready: PathBuf,
}

impl Arguments {
    fn parse(arguments: &[OsString]) -> Result<Self, Error> {
        let [listen, key, ready] = arguments else {
            return Err(Error::Serve("it takes ADDRESS:PORT KEYFILE READYFILE".to_owned()));
        };
        let listen = listen
            .to_str()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Error::Serve(format!("{} is not ADDRESS:PORT", listen.display())))?;
        Ok(Self { listen, key: key.into(), ready: ready.into() })
    }
}

fn say_ready(path: &Path) -> Result<(), Error> {
    File::options()
        .write(true)
        .open(path)
        .and_then(|mut file| writeln!(file, "{READY}"))
        .at(|| path.display().to_string())
}

fn answer(mut stream: TcpStream, key: &Key, others: usize) -> std::io::Result<()> {
    frame::write(&mut stream, GREETING)?;
    stream.set_read_timeout(Some(REQUEST_MAX))?;
    let request: Request = serde_json::from_slice(&frame::read(&mut stream, frame::HEAD_MAX)?)?;
    if request.key != *key {
        // Nothing more to a stranger, not even that it is one.
        return Ok(());
    }
    let stdin = frame::read(&mut stream, frame::PART_MAX)?;
    let ran = if others < AT_ONCE_MAX {
        run(&request.argv, &stdin, &stream)
    } else {
        Err(format!("{AT_ONCE_MAX} programs run here already"))
    };
    let (reply, output) = match ran {
        Ok(Some(output)) => (Reply::Ended(output.code), output),
        Ok(None) => return Ok(()),
        Err(why) => (Reply::Failed(why), Output { stdout: vec![], stderr: vec![], code: 0 }),
    };
    let mut to = BufWriter::new(stream);
    frame::write(&mut to, &serde_json::to_vec(&reply)?)?;
    frame::write(&mut to, &output.stdout)?;
    frame::write(&mut to, &output.stderr)?;
    to.flush()
}

/// Runs it to its end; nothing if the caller goes away before.
fn run(argv: &[String], stdin: &[u8], caller: &TcpStream) -> Result<Option<Output>, String> {
    let (program, arguments) = argv.split_first().ok_or("there is no program to run")?;
    let stdin = input(stdin).map_err(|e| format!("its standard input: {e}"))?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .current_dir("/")
        .process_group(0)
        .spawn()
        .map_err(|e| format!("{program} does not start: {e}"))?;
    match collect(child, caller).map_err(|e| e.to_string())? {
        Collected::All(output) => Ok(Some(output)),
        Collected::CallerGone => Ok(None),
        Collected::TooMuch => Err(format!(
            "it printed more than {} bytes and was ended: let it write to a file",
            frame::PART_MAX
        )),
    }
}

/// Not a pipe: nobody need feed it, whether the program reads it or not.
fn input(bytes: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(memfd_create("stdin", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

#[cfg(test)]
mod tests;
