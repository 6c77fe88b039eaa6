//! One endpoint of two comes and goes, as fast as the kernel takes it, while clients connect.
//!
//! `cargo run --release -p signpost-forward --example flips -- [CONNECTIONS]`
//!
//! Needs root; works in network namespaces of its own. Prints a line for each degree of protection:
//! the last, without any, is what the others are for.
#![allow(clippy::print_stdout)]

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use nix::unistd::gettid;
use signpost_forward::{Forward, Options, Outcome, Protection};
use signpost_plan::{Asked, Backend, Entry, Frontend, Protocol, Scope, ServiceKey, Table};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const VIP: &str = "203.0.113.1";
const PODS: [&str; 2] = ["10.2.0.2", "10.2.0.3"];
const CLIENTS: usize = 16;
const ATTEMPTS: u32 = 10;
/// The first SYN is sent again after 1 s: whoever waits as long lost a packet.
const SLOW: Duration = Duration::from_millis(900);
/// After the second time: the flow is pinned to nowhere.
const FAILED: Duration = Duration::from_millis(3500);

fn main() -> Result<(), Failure> {
    let connections = std::env::args().nth(1).map_or(Ok(50_000), |number| number.parse())?;
    for protection in [Protection::Full, Protection::GuardsOnly, Protection::None] {
        // A namespace lives as long as its threads.
        std::thread::spawn(move || measure(protection, connections))
            .join()
            .map_err(|_| "a thread panicked")??;
    }
    Ok(())
}

fn measure(protection: Protection, connections: u32) -> Result<(), Failure> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
    let done = &AtomicBool::new(false);
    let tally = &Tally::default();
    std::thread::scope(|scope| {
        let servers = neighbour(scope, "pods", "10.2.0", &["2", "3"], move || serve(done))?;
        let start_clients = neighbour(scope, "client", "10.1.0", &["2"], move || {
            // Until the whole way is up.
            (0..ATTEMPTS).find(|_| ask().is_ok()).ok_or("the way to the pods does not come up")?;
            std::thread::scope(|clients| {
                for _ in 0..CLIENTS {
                    clients.spawn(|| connect(tally, connections));
                }
            });
            done.store(true, Ordering::Relaxed);
            Ok(())
        })?;
        let mut forward = Forward::open(Options { protection, ..Options::default() })?;
        settled(forward.sync(vec![table(&PODS)], &outside()))?;
        servers.send(())?;
        start_clients.send(())?;
        let (start, mut transactions) = (Instant::now(), 0);
        while !done.load(Ordering::Relaxed) {
            for pods in [&PODS[..1], &PODS] {
                let table = table(pods);
                let want = vec![(table.service.clone(), Some(table))];
                transactions += settled(forward.apply(want, &outside()))?;
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{protection:?}: {connections} connections, {} failed, {} slow; {transactions} transactions, {:.0} a second",
            tally.failed.load(Ordering::Relaxed),
            tally.slow.load(Ordering::Relaxed),
            f64::from(transactions) / seconds,
        );
        Ok(())
    })
}

#[derive(Debug, Default)]
struct Tally {
    connections: AtomicU32,
    failed: AtomicU32,
    slow: AtomicU32,
}

fn connect(tally: &Tally, connections: u32) {
    while tally.connections.fetch_add(1, Ordering::Relaxed) < connections {
        let start = Instant::now();
        let answered = ask();
        if answered.is_err() {
            tally.failed.fetch_add(1, Ordering::Relaxed);
        } else if start.elapsed() > SLOW {
            tally.slow.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn ask() -> std::io::Result<()> {
    let to = SocketAddr::new(VIP.parse().expect("an address"), 80);
    let mut stream = TcpStream::connect_timeout(&to, FAILED)?;
    stream.set_read_timeout(Some(FAILED))?;
    // The ports would run out if each waited in TIME_WAIT.
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    stream.read_exact(&mut [0])
}

/// Answers every connection with one byte.
fn serve(done: &AtomicBool) -> Result<(), Failure> {
    let listener = TcpListener::bind("0.0.0.0:8080")?;
    listener.set_nonblocking(true)?;
    let mut poll =
        [nix::poll::PollFd::new(std::os::fd::AsFd::as_fd(&listener), nix::poll::PollFlags::POLLIN)];
    while !done.load(Ordering::Relaxed) {
        nix::poll::poll(&mut poll, 100u8)?;
        while let Ok((stream, _)) = listener.accept() {
            let _ = std::io::Write::write_all(&mut &stream, b"!");
        }
    }
    Ok(())
}

/// A thread in a namespace of its own, linked to this one; it runs once it is told to.
fn neighbour<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    link: &str,
    net: &str,
    hosts: &[&str],
    run: impl FnOnce() -> Result<(), Failure> + Send + 'scope,
) -> Result<mpsc::Sender<()>, Failure> {
    let (ready, is_ready) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    let addresses: Vec<String> = hosts.iter().map(|host| format!("{net}.{host}/24")).collect();
    let gateway = format!("{net}.1");
    scope.spawn(move || -> Result<(), Failure> {
        unshare(CloneFlags::CLONE_NEWNET)?;
        ready.send(gettid())?;
        gone.recv()?;
        for address in addresses {
            ip(&format!("address add {address} dev eth0"))?;
        }
        ip("link set eth0 up")?;
        ip(&format!("route add default via {gateway}"))?;
        run()
    });
    let thread = is_ready.recv()?;
    ip(&format!("link add {link} type veth peer eth0 netns {thread}"))?;
    ip(&format!("address add {net}.1/24 dev {link}"))?;
    ip(&format!("link set {link} up"))?;
    Ok(go)
}

fn ip(arguments: &str) -> Result<(), Failure> {
    match Command::new("ip").args(arguments.split(' ')).status()?.success() {
        true => Ok(()),
        false => Err(format!("ip {arguments}").into()),
    }
}

fn table(pods: &[&str]) -> Table {
    let backend =
        |pod: &&str| Some(Backend { address: pod.parse().ok()?, port: 8080, local: true });
    let asked = Asked::Vip(VIP.parse().expect("an address"));
    let frontend = Frontend { asked, protocol: Protocol::Tcp, port: 80 };
    let entry = Entry::for_everybody(frontend, pods.iter().filter_map(backend).collect());
    let service = ServiceKey { namespace: "default".into(), name: "flips".into() };
    Table { service, entries: vec![entry] }
}

fn outside() -> Scope {
    Scope { uplinks: vec!["client".into()], ..Scope::default() }
}

/// How many transactions it took.
fn settled(outcome: Outcome) -> Result<u32, Failure> {
    match outcome.trouble {
        Some(trouble) => Err(trouble.into()),
        None if outcome.is_complete && outcome.refused.is_empty() => Ok(outcome.transactions),
        None => Err("not everything was acknowledged".into()),
    }
}
