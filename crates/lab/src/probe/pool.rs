//! Long-lived TCP connections, and what becomes of them.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::At;
use crate::pod::Answer;
use crate::{Error, Namespace};

/// Open connections of one client, each with the pod that answered first.
#[derive(Debug)]
pub struct Pool {
    open: Vec<(BufReader<TcpStream>, String)>,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The same pod answers.
    Alive,
    /// It was reset or closed.
    Reset,
    /// Nothing comes.
    Silent,
}

impl Pool {
    /// Opens so many connections to an address, one after the other.
    pub fn open(
        ns: &Namespace,
        address: impl Into<IpAddr>,
        port: u16,
        count: usize,
        patience: Duration,
    ) -> Result<Self, Error> {
        let to = SocketAddr::new(address.into(), port);
        let open = ns
            .run(|| {
                (0..count)
                    .map(|_| {
                        let stream = TcpStream::connect_timeout(&to, patience)?;
                        stream.set_read_timeout(Some(patience))?;
                        stream.set_nodelay(true)?;
                        let mut reader = BufReader::new(stream);
                        let pod = ask(&mut reader)?;
                        Ok((reader, pod))
                    })
                    .collect::<std::io::Result<Vec<_>>>()
            })?
            .at(|| format!("connections from {} to {to}", ns.name()))?;
        Ok(Self { open })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Asks on every connection at once. Silent ones take `patience`.
    pub fn fates(&mut self, patience: Duration) -> Vec<Fate> {
        for (reader, _) in &mut self.open {
            // A dead one is found when it is read.
            let _ = reader.get_mut().write_all(b"still there\n");
            let _ = reader.get_ref().set_nonblocking(true);
        }
        let deadline = std::time::Instant::now() + patience;
        let mut fates: Vec<Option<Fate>> = vec![None; self.open.len()];
        while fates.iter().any(Option::is_none) && std::time::Instant::now() < deadline {
            for ((reader, pod), fate) in self.open.iter_mut().zip(&mut fates) {
                if fate.is_none() {
                    *fate = look(reader, pod);
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        for (reader, _) in &mut self.open {
            let _ = reader.get_ref().set_nonblocking(false);
        }
        fates.into_iter().map(|f| f.unwrap_or(Fate::Silent)).collect()
    }
}

fn ask(reader: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    reader.get_mut().write_all(b"hello\n")?;
    let mut line = String::new();
    reader.read_line(&mut line)?;
    Ok(serde_json::from_str::<Answer>(&line)?.pod)
}

fn look(reader: &mut BufReader<TcpStream>, pod: &str) -> Option<Fate> {
    let mut line = String::new();
    match reader.read_line(&mut line) {
        Ok(0) => Some(Fate::Reset),
        Ok(_) => {
            let same = serde_json::from_str::<Answer>(&line).is_ok_and(|a| a.pod == pod);
            Some(if same { Fate::Alive } else { Fate::Reset })
        }
        Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => None,
        Err(_) => Some(Fate::Reset),
    }
}
