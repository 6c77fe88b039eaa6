//! What a health check answers.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::time::Duration;

use super::outcome::Outcome;

/// Asks one, in the calling thread's namespace.
pub(super) fn ask(to: SocketAddrV4, patience: Duration) -> Outcome {
    match status(to, patience) {
        Ok(line) => {
            let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
            status.map_or(Outcome::Strange(line), Outcome::Http)
        }
        Err(e) => Outcome::Strange(e.to_string()),
    }
}

fn status(to: SocketAddrV4, patience: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&to.into(), patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line)
}
