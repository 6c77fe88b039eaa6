//! The node's agent: three threads, each with one inbox of one enum.
//!
//! **wire** moves bytes for the speaker, **control** decides and writes the kernel, **outside**
//! follows the source and answers people.

mod clock;
mod control;
mod fault;
mod health;
mod host;
mod inbox;
mod kernel;
pub(crate) mod key;
mod outside;
mod process;
mod request;
mod source;
mod state;
mod status;
mod takeover;
mod wire;

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use ipnet::IpNet;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ring::rand::{SecureRandom, SystemRandom};
use signpost_forward::{self as forward, Forward, TableOwner};
use signpost_netlink::{nf_tables, route};
use signpost_nft::Family;
use signpost_plan::world::{Forwarding, NodePortAddresses};
use signpost_plan::{NodeName, Scope};
use signpost_speaker::{Config, Key, Speaker};

use crate::watch::dir::Dir;
use takeover::Sockets;

/// A process that has ended closes its sockets within milliseconds.
const CLOSING: Duration = Duration::from_millis(500);

/// How often they are tried until then.
const RETRY: Duration = Duration::from_millis(5);

/// What a person asked for.
pub(crate) struct Options {
    pub(crate) source: PathBuf,
    pub(crate) node: NodeName,
    pub(crate) key: Option<Key>,
    pub(crate) mesh_port: u16,
    pub(crate) mesh_interval: Duration,
    pub(crate) mesh_multiplier: u8,
    pub(crate) preempt_delay: Duration,
    pub(crate) table_owner: bool,
    pub(crate) pod_cidrs: Vec<IpNet>,
    pub(crate) forwarding: Forwarding,
    pub(crate) node_port_addresses: NodePortAddresses,
    pub(crate) socket: PathBuf,
    pub(crate) takeover: bool,
    pub(crate) lab_faults: bool,
}

pub(crate) fn run(o: Options) -> Result<ExitCode> {
    log();
    process::keep_together();
    kernel::check()?;
    let dir = Dir::open(&o.source)?;
    if o.takeover {
        // An agent that works does not end for one that will not.
        source::check(&o.source, &o.node)?;
    }
    // Blocked before any thread starts, so that they reach only the descriptor.
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGTERM);
    mask.add(Signal::SIGINT);
    mask.thread_block()?;
    let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;

    let hold = takeover::acquire(&o.socket, o.takeover)?;
    let (mesh, session) = match hold.from_running {
        Some(Sockets { mesh, session }) => (Some(mesh), Some(session)),
        None => (None, None),
    };
    let monitor =
        |family| nf_tables::Monitor::open(family, forward::TABLE).context("nf_tables events");
    let mut rules = [monitor(Family::Ip)?, monitor(Family::Ip6)?];
    let routes = route::Monitor::open().context("rtnetlink events")?;
    let table_owner = if o.table_owner { TableOwner::Auto } else { TableOwner::Off };
    let options = forward::Options { table_owner, ..forward::Options::default() };
    let forward = match session {
        Some(fd) => {
            let session = nf_tables::Session::from_fd(fd).context("the table's socket")?;
            Forward::with_session(session, options)?
        }
        None => open_forward(options)?,
    };
    let mesh = open_mesh(mesh, o.mesh_port)?;
    let mesh_socket = mesh.as_fd().try_clone_to_owned().context("the mesh's socket")?;
    rules.iter_mut().for_each(|rules| rules.ignore(forward.session().portid()));
    let (control_tx, control_inbox) = inbox::inbox()?;
    let (outside_tx, outside_inbox) = inbox::inbox()?;
    let detection = o.mesh_interval * u32::from(o.mesh_multiplier);
    let config = Config {
        interval: o.mesh_interval,
        multiplier: o.mesh_multiplier,
        preempt_delay: o.preempt_delay,
        ..Config::new(o.node.clone(), random()?, o.key, random()?)
    };
    let parts = wire::Parts { speaker: Speaker::new(config), mesh };
    let wire = wire::start(parts, control_tx.clone(), control::Event::Wire)?;
    let hang = Arc::new(fault::Hang::default());
    let outside = outside::Outside {
        dir,
        listener: hold.listener.try_clone()?,
        inbox: outside_inbox,
        control: control_tx,
        hang: Arc::clone(&hang),
        health: health::Servers::default(),
    };
    std::thread::Builder::new().name("outside".into()).spawn(move || outside.run())?;
    let mut state = state::State::new(o.node, o.mesh_port);
    state.world.set_pod_cidrs(o.pod_cidrs);
    state.world.set_forwarding(o.forwarding);
    state.world.set_node_port_addresses(o.node_port_addresses);
    control::Control {
        state,
        inbox: control_inbox,
        outside: outside_tx,
        wire,
        forward,
        rules,
        routes,
        signals,
        lease: detection,
        lab_faults: o.lab_faults,
        hang,
        hold: vec![hold.lock, hold.listener.into(), mesh_socket],
        told: control::Told::default(),
        health: control::Healthy::default(),
        scope: Scope::default(),
        host_stale: false,
        deaf: false,
        unsynced: true,
    }
    .run()?;
    Ok(ExitCode::SUCCESS)
}

/// The mesh's socket: that of the agent before us, if the port is the same.
fn open_mesh(inherited: Option<OwnedFd>, port: u16) -> Result<wire::socket::Mesh> {
    if let Some(mesh) = inherited.and_then(|s| wire::socket::Mesh::inherit(s, port)) {
        return mesh.context("the mesh's socket");
    }
    let taken = |e: &std::io::Error| e.kind() == std::io::ErrorKind::AddrInUse;
    patiently(|| wire::socket::Mesh::open(port), taken).map_err(|e| {
        if !taken(&e) {
            return anyhow!(e).context(format!("the mesh's UDP port {port}"));
        }
        anyhow!(
            "UDP port {port} is taken by another program (`ss -lunp sport = :{port}` shows it): \
             stop it, or give every node another --mesh-port"
        )
    })
}

fn open_forward(options: forward::Options) -> Result<Forward, forward::Error> {
    let owned = |e: &forward::Error| matches!(e, forward::Error::OwnedByAnother);
    patiently(|| Forward::open(options), owned)
}

/// Tries again while the agent before us may still be closing its sockets: its lock goes first.
fn patiently<T, E>(open: impl Fn() -> Result<T, E>, busy: impl Fn(&E) -> bool) -> Result<T, E> {
    let deadline = std::time::Instant::now() + CLOSING;
    loop {
        match open() {
            Err(e) if busy(&e) && std::time::Instant::now() < deadline => {
                std::thread::sleep(RETRY);
            }
            done => return done,
        }
    }
}

/// `--cleanup`: what Signpost put into this kernel goes, and nothing else.
pub(crate) fn cleanup(socket: &Path) -> Result<ExitCode> {
    use std::io::Write;
    log();
    kernel::check_nf_tables()?;
    // A running agent would put it back.
    let _lock = takeover::acquire(socket, false)?;
    let mut out = std::io::stdout();
    match forward::cleanup()? {
        0 => writeln!(out, "nothing of Signpost is in this kernel")?,
        n => writeln!(out, "removed {n} nftables table(s)")?,
    }
    let _ = std::fs::remove_file(socket);
    Ok(ExitCode::SUCCESS)
}

fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("SIGNPOST_LOG")
        .unwrap_or_else(|_| "info".into());
    // Already set: a second call in one process changes nothing.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .try_init();
}

fn random() -> Result<u64> {
    let mut b = [0; 8];
    SystemRandom::new().fill(&mut b).map_err(|_| anyhow!("the kernel gives no random bytes"))?;
    Ok(u64::from_ne_bytes(b))
}
