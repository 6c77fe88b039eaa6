//! Probes that go on while something happens, and what was lost meanwhile.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use socket2::{Domain, Socket, Type};

use super::flight::Flight;
use super::{Outcome, Protocol, Target};
use crate::error::At;
use crate::pod::Answer;
use crate::{Error, Namespace};

/// A connection that needed a second SYN (after 1 s) counts as lost.
const CONNECT: Duration = Duration::from_millis(900);

/// How long an answer is awaited after the last probe.
const STRAGGLERS: Duration = Duration::from_millis(950);

/// Flows of the UDP prober: a move must hold for all of them, whichever pod they are bound to.
const FLOWS: usize = 16;

/// A prober at work.
#[derive(Debug)]
pub struct Stream {
    stop: Sender<()>,
    thread: JoinHandle<Result<std::io::Result<Vec<Sent>>, Error>>,
    every: Duration,
}

/// What a prober saw.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// How many probes were sent.
    pub sent: usize,
    /// How many were not answered.
    pub lost: usize,
    /// TCP: how many more were established and reset before the answer came, as every connection is
    /// that was established before a move.
    pub cut: usize,
    /// The longest gap: from the last answered probe before to the first answered one after it.
    pub outage_ms: f64,
    /// How often each pod answered.
    pub pods: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Sent {
    at: Duration,
    pod: Option<String>,
    cut: bool,
}

impl Stream {
    /// One datagram every `every`, over a few flows.
    pub fn udp(ns: &Namespace, to: Ipv4Addr, port: u16, every: Duration) -> Result<Self, Error> {
        let (stop, stopped) = channel();
        let thread = ns.spawn(move || datagrams((to, port).into(), every, &stopped))?;
        Ok(Self { stop, thread, every })
    }

    /// One new connection every `every`.
    pub fn tcp(ns: &Namespace, to: Ipv4Addr, port: u16, every: Duration) -> Result<Self, Error> {
        let (stop, stopped) = channel();
        let target = Target { address: to, port, protocol: Protocol::Tcp };
        let thread = ns.spawn(move || connections(target, every, &stopped))?;
        Ok(Self { stop, thread, every })
    }

    /// Stops, waits for the last answers, and counts.
    pub fn stop(self) -> Result<Report, Error> {
        // It may have ended with an error, which `join` tells.
        let _ = self.stop.send(());
        let sent = self
            .thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?
            .at(|| "the prober".to_owned())?;
        Ok(report(&sent, self.every))
    }
}

fn stopped(stop: &Receiver<()>) -> bool {
    !matches!(stop.try_recv(), Err(TryRecvError::Empty))
}

fn report(sent: &[Sent], every: Duration) -> Report {
    let mut pods = BTreeMap::new();
    let mut outage = Duration::ZERO;
    let mut last_answered = None;
    let mut gap = false;
    for probe in sent {
        match &probe.pod {
            Some(pod) => {
                *pods.entry(pod.clone()).or_default() += 1;
                if gap {
                    outage = outage.max(probe.at - last_answered.unwrap_or(Duration::ZERO));
                }
                (last_answered, gap) = (Some(probe.at), false);
            }
            None => gap = true,
        }
    }
    if let (true, Some(last)) = (gap, sent.last()) {
        outage = outage.max(last.at + every - last_answered.unwrap_or(Duration::ZERO));
    }
    Report {
        sent: sent.len(),
        lost: sent.iter().filter(|p| p.pod.is_none() && !p.cut).count(),
        cut: sent.iter().filter(|p| p.cut).count(),
        outage_ms: (outage.as_secs_f64() * 10_000.0).round() / 10.0,
        pods,
    }
}

fn datagrams(to: SocketAddr, every: Duration, stop: &Receiver<()>) -> std::io::Result<Vec<Sent>> {
    let sockets: Vec<Socket> = (0..FLOWS)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM.nonblocking(), None)?;
            socket.connect(&to.into())?;
            Ok(socket)
        })
        .collect::<std::io::Result<_>>()?;
    let start = Instant::now();
    let mut sent: Vec<Sent> = Vec::new();
    let mut end = None;
    loop {
        let now = start.elapsed();
        // One at least is sent, however early the end is asked for.
        if end.is_none() && !sent.is_empty() && stopped(stop) {
            end = Some(now + STRAGGLERS);
        }
        if end.is_some_and(|end| now >= end || sent.iter().all(|p| p.pod.is_some())) {
            return Ok(sent);
        }
        let due = every * u32::try_from(sent.len()).unwrap_or(u32::MAX);
        if end.is_none() && now >= due {
            let word = sent.len().to_string();
            // An ICMP error of an earlier one comes out here: this one is tried again at once.
            let socket = &sockets[sent.len() % FLOWS];
            if (&*socket).write(word.as_bytes()).is_err() {
                let _ = (&*socket).write(word.as_bytes());
            }
            sent.push(Sent { at: now, pod: None, cut: false });
            continue;
        }
        let mut fds: Vec<PollFd<'_>> =
            sockets.iter().map(|s| PollFd::new(s.as_fd(), PollFlags::POLLIN)).collect();
        let wait = due.saturating_sub(now).as_millis().min(5) + 1;
        let _ = poll(&mut fds, PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO));
        let mut bytes = [0; 2048];
        for socket in &sockets {
            while let Ok(length) = (&*socket).read(&mut bytes) {
                if let Ok(answer) = serde_json::from_slice::<Answer>(&bytes[..length])
                    && let Some(probe) =
                        answer.echo.parse::<usize>().ok().and_then(|n| sent.get_mut(n))
                {
                    probe.pod = Some(answer.pod);
                }
            }
        }
    }
}

fn connections(target: Target, every: Duration, stop: &Receiver<()>) -> std::io::Result<Vec<Sent>> {
    let start = Instant::now();
    let mut sent: Vec<Sent> = Vec::new();
    let mut open: Vec<(usize, Duration, Flight)> = Vec::new();
    let mut end = false;
    loop {
        let now = start.elapsed();
        end = end || (!sent.is_empty() && stopped(stop));
        if end && open.is_empty() {
            return Ok(sent);
        }
        let due = every * u32::try_from(sent.len()).unwrap_or(u32::MAX);
        if !end && now >= due {
            open.push((sent.len(), now, Flight::start(target)?));
            sent.push(Sent { at: now, pod: None, cut: false });
            continue;
        }
        let mut fds: Vec<PollFd<'_>> =
            open.iter().map(|(_, _, f)| PollFd::new(f.socket.as_fd(), f.awaits())).collect();
        let wait = due.saturating_sub(now).as_millis().min(5) + 1;
        let _ = poll(&mut fds, PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO));
        let woken: Vec<bool> =
            fds.iter().map(|fd| fd.revents().is_some_and(|r| !r.is_empty())).collect();
        for ((_, _, flight), _) in open.iter_mut().zip(woken).filter(|(_, woken)| *woken) {
            flight.go_on();
        }
        open.retain_mut(|(n, since, flight)| match flight.outcome.take() {
            Some(Outcome::Answered { pod, .. }) => {
                sent[*n].pod = Some(pod);
                false
            }
            Some(_) => {
                sent[*n].cut = flight.cut;
                false
            }
            None => now - *since < CONNECT,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(list: &[(u64, bool)]) -> Vec<Sent> {
        list.iter()
            .map(|(ms, answered)| Sent {
                at: Duration::from_millis(*ms),
                pod: answered.then(|| "a1".to_owned()),
                cut: false,
            })
            .collect()
    }

    #[test]
    fn an_outage_is_the_gap_between_answered_probes() {
        let every = Duration::from_millis(10);
        let r = report(&at(&[(0, true), (10, false), (20, false), (30, true)]), every);
        assert_eq!((r.sent, r.lost, r.outage_ms), (4, 2, 30.0));
        let r = report(&at(&[(0, true), (10, true)]), every);
        assert_eq!((r.lost, r.outage_ms), (0, 0.0));
    }

    #[test]
    fn an_outage_that_did_not_end_counts_up_to_the_end() {
        let every = Duration::from_millis(10);
        assert_eq!(report(&at(&[(0, true), (10, false)]), every).outage_ms, 20.0);
        assert_eq!(report(&at(&[(0, false), (10, false)]), every).outage_ms, 20.0);
    }
}
