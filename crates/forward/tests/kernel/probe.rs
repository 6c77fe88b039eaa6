//! What a client gets.

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// Long enough that only a lost packet reaches it.
const LONG: Duration = Duration::from_secs(5);

/// The answer of whoever serves, or why there is none.
pub(crate) fn tcp(to: &str) -> Result<String, ErrorKind> {
    let to: SocketAddr = to.parse().unwrap();
    let stream = TcpStream::connect_timeout(&to, LONG).map_err(|error| error.kind())?;
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(|error| error.kind())?;
    Ok(line.trim_end().into())
}

/// The same by one datagram.
pub(crate) fn udp(to: &str) -> Result<String, ErrorKind> {
    let socket = asked(to)?;
    answer(&socket)
}

/// A socket that has sent its datagram.
pub(crate) fn asked(to: &str) -> Result<UdpSocket, ErrorKind> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.send(b"who").map_err(|error| error.kind())?;
    Ok(socket)
}

/// What came back.
pub(crate) fn answer(socket: &UdpSocket) -> Result<String, ErrorKind> {
    let mut buffer = [0; 64];
    let length = socket.recv(&mut buffer).map_err(|error| error.kind())?;
    Ok(String::from_utf8(buffer[..length].into()).unwrap())
}

/// Every answer of enough tries that each of a few endpoints is among them; sorted.
pub(crate) fn all(probe: impl Fn() -> Result<String, ErrorKind>) -> Vec<String> {
    let mut answers: Vec<String> =
        (0..48).map(|_| probe().unwrap_or_else(|error| format!("{error:?}"))).collect();
    answers.sort();
    answers.dedup();
    answers
}
