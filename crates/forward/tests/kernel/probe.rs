//! What a client gets.

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// Long enough that only a lost packet reaches it.
const LONG: Duration = Duration::from_secs(5);

/// The answer of whoever serves, or why there is none.
pub(crate) fn tcp(to: &str) -> Result<String, ErrorKind> {
    let to: SocketAddr = to.parse().unwrap();
    let stream = TcpStream::connect_timeout(&to, LONG).map_err(|error| error.kind())?;
    line(stream)
}

fn line(stream: TcpStream) -> Result<String, ErrorKind> {
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

/// By TCP and by one datagram, from one of several addresses.
pub(crate) fn both_from(from: &str, to: &str) -> [Result<String, ErrorKind>; 2] {
    let from: SocketAddr = (from.parse::<IpAddr>().unwrap(), 0).into();
    let to: SocketAddr = to.parse().unwrap();
    let domain = socket2::Domain::for_address(to);
    let stream = socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap();
    stream.bind(&from.into()).unwrap();
    let connected = stream.connect_timeout(&to.into(), LONG).map_err(|error| error.kind());
    let by_tcp = connected.and_then(|()| line(stream.into()));
    let socket = UdpSocket::bind(from).unwrap();
    let by_udp = ask(&socket, to).and_then(|()| answer(&socket));
    [by_tcp, by_udp]
}

/// A socket that has sent its datagram.
pub(crate) fn asked(to: &str) -> Result<UdpSocket, ErrorKind> {
    let to: SocketAddr = to.parse().unwrap();
    let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).unwrap();
    ask(&socket, to)?;
    Ok(socket)
}

fn ask(socket: &UdpSocket, to: SocketAddr) -> Result<(), ErrorKind> {
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.send(b"who").map(drop).map_err(|error| error.kind())
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
