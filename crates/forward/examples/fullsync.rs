//! The first full sync and one change after it, against `nft -f` of the same rules.
//!
//! `cargo run --release -p signpost-forward --example fullsync -- [SERVICES] [ENDPOINTS]`
//!
//! Needs root; works in a network namespace of its own.
#![allow(clippy::print_stdout)]

use std::io::Write;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use signpost_forward::{Forward, Kernel, Options, Paper, TABLE, TableOwner};
use signpost_netlink::nf_tables::{Monitor, Session};
use signpost_nft::{Change, Family, display::ruleset};
use signpost_plan::{Asked, Backend, Entry, Frontend, Protocol, Scope, ServiceKey, Table};

type Failure = Box<dyn std::error::Error>;

const SINGLE_CHANGES: u32 = 400;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).map(|number| number.parse());
    let services: u32 = arguments.next().transpose()?.unwrap_or(10_000);
    let endpoints: u32 = arguments.next().transpose()?.unwrap_or(10);
    unshare(CloneFlags::CLONE_NEWNET)?;

    let options = Options { table_owner: TableOwner::Off, ..Options::default() };
    let tables: Vec<_> = (0..services).map(|n| table(n, endpoints)).collect();
    let mut session = Session::open()?;

    let before = memory_mb("VmRSS:")?;
    let mut first = Forward::open(options)?;
    settled(first.sync(tables.clone(), &scope()))?;
    let (after, peak) = (memory_mb("VmRSS:")?, memory_mb("VmHWM:")?);
    drop(first);
    session.commit(Family::Ip, TABLE, &[Change::DeleteTable])?;

    let mut baseline = Vec::new();
    let mut ours = Vec::new();
    let mut cpu_times = Vec::new();
    let script = printed(&tables, options)?;
    for _ in 0..3 {
        baseline.push(timed(|| load(&script))?);
        session.commit(Family::Ip, TABLE, &[Change::DeleteTable])?;
        let mut forward = Forward::open(options)?;
        let wanted = tables.clone();
        let before = cpu()?;
        ours.push(timed(|| settled(forward.sync(wanted, &scope())))?);
        cpu_times.push(cpu()? - before);
        session.commit(Family::Ip, TABLE, &[Change::DeleteTable])?;
    }
    let (baseline, sync) = (median(baseline), median(ours));
    println!("{services} Services x {endpoints} endpoints");
    println!("memory before, after, peak    {before:>9.1} MB {after:.1} MB {peak:.1} MB");
    println!("nft -f                        {:>9.1} ms", ms(baseline));
    println!(
        "full sync                     {:>9.1} ms  ratio {:.3}, CPU {:.1} ms",
        ms(sync),
        ms(sync) / ms(baseline),
        ms(median(cpu_times)),
    );

    let mut forward = Forward::open(options)?;
    settled(forward.sync(tables.clone(), &scope()))?;
    let wanted = tables.clone();
    println!(
        "sync again                    {:>9.1} ms",
        ms(timed(|| settled(forward.sync(wanted, &scope())))?)
    );
    let mut restarted = Forward::open(options)?;
    let wanted = tables.clone();
    println!(
        "sync after a restart          {:>9.1} ms",
        ms(timed(|| settled(restarted.sync(wanted, &scope())))?)
    );

    let mut monitor = Monitor::open(Family::Ip, TABLE)?;
    let mut repairs = Vec::new();
    for set in ["svc", "ep", "vips"] {
        let elements = session.read(Family::Ip, TABLE)?.ok_or("no table")?.1;
        let one = elements.get(set).and_then(|all| all.last()).ok_or("no element")?.clone();
        session.commit(Family::Ip, TABLE, &[Change::DeleteElements(set.into(), vec![one])])?;
        repairs.push(timed(|| {
            let damage = restarted.foreign(signpost_plan::Family::V4, &monitor.drain()?);
            settled(restarted.repair(&damage))
        })?);
        if session.read(Family::Ip, TABLE)?.ok_or("no table")?.1 != elements {
            return Err("not repaired".into());
        }
    }
    println!("an element is repaired in     {:>9.3} ms", ms(median(repairs)));

    let mut changes = Vec::new();
    for n in 0..SINGLE_CHANGES {
        let number = (n / 2 * 7919) % services;
        let table = table(number, endpoints + (n + 1) % 2);
        let want = vec![(table.service.clone(), Some(table))];
        changes.push(timed(|| settled(restarted.apply(want, &scope())))?);
    }
    changes.sort();
    let p99 = changes[changes.len() * 99 / 100];
    println!(
        "one endpoint more or less     {:>9.3} ms  p99 {:.3} ms",
        ms(median(changes)),
        ms(p99)
    );
    Ok(())
}

fn table(number: u32, endpoints: u32) -> Table {
    let backend = |n| Backend {
        address: Ipv4Addr::from(0x0a80_0000 + number * endpoints.next_multiple_of(16) + n).into(),
        port: 8080,
        local: n == 0,
    };
    let asked = Asked::Vip(Ipv4Addr::from(0x0a60_0000 + number).into());
    let frontend = Frontend { asked, protocol: Protocol::Tcp, port: 80 };
    let entry = Entry::for_everybody(frontend, (0..endpoints).map(backend).collect());
    let name = format!("service-{number}").into();
    Table { service: ServiceKey { namespace: "default".into(), name }, entries: vec![entry] }
}

fn scope() -> Scope {
    let pods = "10.128.0.0/9".parse();
    Scope {
        uplinks: vec!["eth0".into()],
        pod_cidrs: pods.into_iter().collect(),
        ..Scope::default()
    }
}

/// The same rules in nft's syntax.
fn printed(tables: &[Table], options: Options) -> Result<String, Failure> {
    let mut paper = Forward::with_kernel(Paper::default(), options)?;
    settled(paper.sync(tables.to_vec(), &scope()))?;
    let (table, elements) = paper.into_kernel().read(Family::Ip, TABLE)?.ok_or("no table")?;
    Ok(ruleset(&table, &elements))
}

fn load(script: &str) -> Result<(), Failure> {
    let mut nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn()?;
    nft.stdin.take().ok_or("no stdin")?.write_all(script.as_bytes())?;
    if nft.wait()?.success() { Ok(()) } else { Err("nft -f failed".into()) }
}

fn settled(outcome: signpost_forward::Outcome) -> Result<(), Failure> {
    match outcome.trouble {
        Some(trouble) => Err(trouble.into()),
        None if outcome.is_complete && outcome.refused.is_empty() => Ok(()),
        None => Err("not everything was acknowledged".into()),
    }
}

fn timed(run: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed())
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// This process' time on the CPU, which other processes do not lengthen.
fn cpu() -> Result<Duration, Failure> {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
    Ok(time.into())
}

fn memory_mb(field: &str) -> Result<f64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(field)).ok_or("no such field")?;
    let kb: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kb / 1e3)
}
