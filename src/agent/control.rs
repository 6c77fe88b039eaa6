//! The control loop: absorbs events, re-plans what they touch, writes the kernel, tells the wire.
//!
//! Withdrawals leave before rules go; announcements leave after the kernel's acknowledgement. Each
//! turn renews the lease without which the wire withdraws everything on its own.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::SignalFd;
use signpost_forward::{Damage, Endpoint, Forward, Frontend, Outcome, Place};
use signpost_netlink::{conntrack, nf_tables, route};
use signpost_nft as nft;
use signpost_plan::world::{Forwarding, Touched};
use signpost_plan::{Family, NodeName, Scope, ServiceKey, Table, health_checks, scope};
use signpost_report::Severity;
use signpost_speaker::{self as speaker, Command, Gate, Instant};

use super::clock;
use super::fault::Hang;
use super::health::{Health, TOLD_EVERY};
use super::inbox::{Inbox, Sender};
use super::outside::{Connection, Reply};
use super::process::{self, Urgency};
use super::request::{Fault, Request};
use super::state::State;
use super::status;
use super::wire::Wire;
use crate::watch::SourceEvent;

/// Everything that control hears, beside the kernel.
pub(crate) enum Event {
    Source(SourceEvent),
    Wire(speaker::Event),
    Request(Connection, Request),
}

/// A repair that the kernel has not acknowledged by then is no repair: stop attracting traffic.
const REPAIR_PATIENCE: Duration = Duration::from_millis(20);

/// How long the members keep this node's addresses for it while its agent restarts.
pub(crate) const BACK_IN: Duration = Duration::from_secs(3);

pub(crate) struct Control {
    pub(crate) state: State,
    pub(crate) inbox: Inbox<Event>,
    pub(crate) outside: Sender<Reply>,
    pub(crate) wire: Wire,
    pub(crate) forward: Forward,
    /// Of the table of each family.
    pub(crate) rules: [nf_tables::Monitor; 2],
    pub(crate) routes: route::Monitor,
    pub(crate) signals: SignalFd,
    /// For how long the wire believes that this loop lives.
    pub(crate) lease: Duration,
    pub(crate) lab_faults: bool,
    pub(crate) hang: Arc<Hang>,
    /// Handed to the agent that takes over.
    pub(crate) hold: Vec<OwnedFd>,
    pub(crate) told: Told,
    pub(crate) health: Healthy,
    /// Who is a pod here, as the kernel was told.
    pub(crate) scope: Scope,
    /// The interfaces could not be read when they changed.
    pub(crate) host_stale: bool,
    /// Others' edits of our rules are not heard any more.
    pub(crate) deaf: bool,
    /// No complete set of tables was given to the kernel yet.
    pub(crate) unsynced: bool,
}

/// What the wire was told last, so that it is told only news.
#[derive(Default)]
pub(crate) struct Told {
    links: Option<Vec<speaker::Link>>,
    peers: Option<Vec<(NodeName, std::net::IpAddr)>>,
}

/// What health checks were told last.
#[derive(Default)]
pub(crate) struct Healthy {
    told: Option<Health>,
    updated: jiff::Timestamp,
    pending_since: Option<std::time::Instant>,
}

impl Control {
    /// Runs until a signal or a successor ends it.
    pub(crate) fn run(mut self) -> Result<()> {
        // Where we may not, the threads share the processors as others do.
        let _ = process::prefer(Urgency::Soon);
        self.read_host();
        loop {
            self.wait()?;
            self.renew_lease();
            if self.signals.read_signal().context("signalfd")?.is_some() {
                return self.leave();
            }
            let mut touched = Touched::default();
            let mut changed = None;
            self.inbox.silence();
            while let Some(event) = self.inbox.next() {
                if let Event::Source(SourceEvent::Changes(_) | SourceEvent::Complete) = event {
                    changed.get_or_insert_with(clock::now);
                }
                touched.merge(self.absorb(event)?);
            }
            let links = self.routes.drain().context("rtnetlink events")?;
            if !links.is_empty() || std::mem::take(&mut self.host_stale) {
                touched.merge(self.read_host());
            }
            self.turn(&touched, changed);
            self.watch_rules()?;
            self.tell_health(&touched);
            if self.deaf {
                bail!("nf_tables events cannot be listened to any more");
            }
            self.state.end_turn();
        }
    }

    fn wait(&self) -> Result<()> {
        // A third of the lease: two turns may come late before the wire withdraws.
        let timeout = PollTimeout::try_from(self.lease / 3).unwrap_or(PollTimeout::MAX);
        let mut fds = [
            PollFd::new(self.inbox.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.rules[0].as_fd(), PollFlags::POLLIN),
            PollFd::new(self.rules[1].as_fd(), PollFlags::POLLIN),
            PollFd::new(self.routes.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(e) => Err(e).context("poll"),
        }
    }

    fn renew_lease(&mut self) {
        self.wire.send(Command::Lease(clock::now() + self.lease));
    }

    fn absorb(&mut self, event: Event) -> Result<Touched> {
        // Each is bounded work; many of them together must not look like a loop that hangs.
        self.renew_lease();
        Ok(match event {
            Event::Source(SourceEvent::Changes(changes)) => self.state.changes(changes),
            Event::Source(SourceEvent::Diagnostics(d)) => {
                for new in d.iter().filter(|d| !self.state.source.contains(d)) {
                    match new.severity {
                        Severity::Error => tracing::error!("{new}"),
                        Severity::Warning => tracing::warn!("{new}"),
                        Severity::Note => tracing::info!("{new}"),
                    }
                }
                self.state.source = d;
                Touched::default()
            }
            Event::Source(SourceEvent::Complete) => {
                self.check_node()?;
                self.state.complete = true;
                Touched { all: true, ..Touched::default() }
            }
            Event::Source(SourceEvent::Failed(why)) => bail!("{why}"),
            Event::Wire(e) => {
                self.state.wire(e);
                Touched::default()
            }
            Event::Request(from, request) => self.request(from, request)?,
        })
    }

    fn check_node(&self) -> Result<()> {
        let node = &self.state.node;
        if self.state.world.node(node).is_some() {
            return Ok(());
        }
        Err(super::source::unknown(node, self.state.world.nodes().map(|n| &n.name)))
    }

    /// Plans what was touched: withdrawals, rules, announcements.
    fn turn(&mut self, touched: &Touched, changed: Option<Instant>) {
        // What the kernel has not acknowledged yet is tried again each turn.
        if !self.state.complete || (touched.is_empty() && !self.unfinished()) {
            return;
        }
        if touched.scope || touched.all {
            self.scope = scope(&self.state.world);
            self.tell_links();
        }
        // Before the first rules nothing was announced, so nothing can be withdrawn.
        let orders = if self.unsynced { Vec::new() } else { self.state.gates(touched) };
        let withdraws = orders.iter().any(|(_, g)| *g == Gate::Shut);
        self.gates(orders);
        if withdraws {
            self.wire.flush();
        }
        let wanted = self.state.wanted(touched);
        let first = std::mem::take(&mut self.unsynced);
        let outcome =
            if first { self.sync(wanted) } else { self.forward.apply(wanted, &self.scope) };
        if let Some(changed) = changed.filter(|_| outcome.transactions > 0) {
            self.state.note_change(clock::now().since(changed));
        }
        self.absorb_outcome(outcome);
        self.renew_lease();
        if first {
            process::give_back();
        }
    }

    /// The first complete set of tables: what a former process left and is not in it goes.
    fn sync(&mut self, wanted: Vec<(ServiceKey, Option<Table>)>) -> Outcome {
        let all = wanted.into_iter().filter_map(|(_, t)| t).collect();
        // Unheard, a large load takes half the time. That nobody else wrote meanwhile is known by
        // the generation; if somebody did, the table is read again.
        let before = self.generation();
        let paused = before.is_some() && self.rules.iter_mut().all(|rules| rules.pause().is_ok());
        let mut outcome = self.forward.sync(all, &self.scope);
        for rules in &mut self.rules {
            self.deaf |= rules.resume().is_err();
        }
        if paused {
            let own = before.map(|b| b.wrapping_add(outcome.transactions));
            if self.deaf || self.generation() != own {
                let again = self.forward.read_and_diff();
                outcome.acknowledged.extend(again.acknowledged);
                outcome.partly.extend(again.partly);
                outcome.refused.extend(again.refused);
                outcome.gone.extend(again.gone);
                outcome.transactions += again.transactions;
                outcome.in_flight = again.in_flight;
                outcome.trouble = again.trouble;
            }
        }
        outcome
    }

    fn generation(&self) -> Option<u32> {
        nf_tables::Session::open().ok()?.generation().ok()
    }

    /// Whether the kernel still lacks something that it should have.
    fn unfinished(&self) -> bool {
        let doubtful = !self.unsynced && !self.forward.is_certain();
        doubtful || !self.state.in_flight.is_empty() || !self.state.observed.damaged.is_empty()
    }

    fn absorb_outcome(&mut self, mut outcome: Outcome) {
        for (key, errno) in &outcome.refused {
            let e = std::io::Error::from_raw_os_error(*errno);
            tracing::error!("Service {key}: the kernel refuses its rules: {e}");
        }
        if outcome.transactions > 0 {
            self.health.updated = jiff::Timestamp::now();
        }
        let trouble = outcome.trouble.as_ref().map(ToString::to_string);
        if let Some(e) = trouble.as_ref().filter(|_| self.state.trouble != trouble) {
            tracing::error!("the rules cannot be written: {e}");
        }
        self.state.trouble = trouble;
        let gone = std::mem::take(&mut outcome.gone);
        let mut touched = self.state.outcome(outcome);
        if self.forward.is_certain() {
            touched.addresses.append(&mut self.state.observed.damaged);
        }
        let orders = self.state.gates(&touched);
        self.gates(orders);
        // After the announcements: a table of many connections takes long to look through.
        self.renew_lease();
        forget_connections(&gone);
        self.renew_lease();
    }

    fn gates(&mut self, orders: Vec<(std::net::IpAddr, Gate)>) {
        for (a, gate) in orders {
            self.wire.send(Command::Gate(a, gate));
        }
    }

    /// Reads the interfaces and routes of this node.
    fn read_host(&mut self) -> Touched {
        match super::host::read() {
            Ok(host) => self.state.host(host),
            Err(e) => {
                // What was known stays until the next turn, which reads again.
                tracing::error!("cannot read the interfaces: {e:#}");
                self.host_stale = true;
                Touched::default()
            }
        }
    }

    fn tell_links(&mut self) {
        let links = super::host::links(&self.state.world);
        if self.told.links.as_ref() != Some(&links) {
            self.wire.send(Command::Links(links.clone()));
            self.told.links = Some(links);
        }
        let peers = super::host::peers(&self.state.world, &self.state.node);
        if self.told.peers.as_ref() != Some(&peers) {
            self.wire.send(Command::Peers(peers.clone()));
            self.told.peers = Some(peers);
        }
    }

    /// Tells load balancers of others, where no other proxy does.
    fn tell_health(&mut self, touched: &Touched) {
        let world = &self.state.world;
        if world.forwarding() == Forwarding::Vip || !self.state.complete {
            return;
        }
        let now = std::time::Instant::now();
        let pending = self.unfinished() || self.state.trouble.is_some();
        let pending_since = pending.then(|| self.health.pending_since.unwrap_or(now));
        let due = self.health.told.as_ref().is_none_or(|told| now - told.told >= TOLD_EVERY);
        let changed = touched.all || !touched.services.is_empty();
        if !due && !changed && pending_since == self.health.pending_since {
            return;
        }
        self.health.pending_since = pending_since;
        let checks = match &self.health.told {
            Some(told) if !changed => told.checks.clone(),
            Some(_) | None => health_checks(world),
        };
        let health = Health {
            checks,
            node_eligible: world.node(&self.state.node).is_some_and(|n| !n.leaving),
            updated: self.health.updated,
            pending_since,
            told: now,
        };
        self.health.told = Some(health.clone());
        self.outside.send(Reply::Health(health));
    }

    /// Others' edits of our rules: announced all the while, and repaired at once.
    fn watch_rules(&mut self) -> Result<()> {
        for family in Family::ALL {
            self.watch_rules_of(family)?;
        }
        Ok(())
    }

    fn watch_rules_of(&mut self, family: Family) -> Result<()> {
        let events = self.rules[family as usize].drain().context("nf_tables events")?;
        if events.is_empty() || !self.state.complete {
            return Ok(());
        }
        let damage = self.forward.foreign(family, &events);
        if damage.is_none() {
            return Ok(());
        }
        let damaged = match damage {
            Damage { all: true, .. } => {
                let mut open = self.state.open();
                open.retain(|a| Family::of(*a) == family);
                open
            }
            Damage { all: false, ref addresses, .. } => addresses.clone(),
        };
        if events.iter().all(|e| matches!(e, nf_tables::Event::Overrun)) {
            // Events were lost, which is no sign that rules were: read, and mend what differs.
            tracing::warn!("nf_tables events were lost: reading the table");
        } else {
            self.state.observed.damaged.extend(damaged.iter().copied());
            tracing::warn!("somebody edited table `signpost`: repairing the rules of {damaged:?}");
            let orders = self.state.repairing(&damaged, clock::now() + REPAIR_PATIENCE);
            self.gates(orders);
        }
        let outcome = self.forward.repair(&damage);
        self.absorb_outcome(outcome);
        Ok(())
    }

    fn request(&mut self, from: Connection, request: Request) -> Result<Touched> {
        let mut touched = Touched::default();
        let reply: String = match request {
            Request::Status => status::report(&self.state, &self.forward),
            Request::Drain => {
                touched = self.state.drained(true);
                "{}".into()
            }
            Request::Undrain => {
                touched = self.state.drained(false);
                "{}".into()
            }
            Request::Takeover => {
                self.wire.send(Command::Leave(Some(BACK_IN)));
                self.wire.flush();
                let mut fds = std::mem::take(&mut self.hold);
                let session = self.forward.session().as_fd();
                fds.push(session.try_clone_to_owned().context("the table's socket")?);
                self.outside.send(Reply::HandOver(from, "{}".into(), fds));
                tracing::info!("handed over");
                return Ok(touched);
            }
            Request::Fault { .. } if !self.lab_faults => {
                r#"{"error":"faults are for the lab"}"#.into()
            }
            Request::Fault { fault } => {
                match fault {
                    Fault::HoldWrites => self.forward.hold(true),
                    Fault::ReleaseWrites => {
                        self.forward.hold(false);
                        touched.all = true;
                    }
                    Fault::HangControl => {
                        self.outside.send(Reply::Line(from, "{}".into()));
                        self.hang.set(true);
                        self.hang.wait();
                        return Ok(touched);
                    }
                    Fault::ReleaseControl => {}
                }
                "{}".into()
            }
        };
        self.outside.send(Reply::Line(from, reply));
        Ok(touched)
    }

    /// Ends: the members keep our addresses for a moment, the kernel keeps our rules.
    fn leave(mut self) -> Result<()> {
        self.wire.send(Command::Leave(Some(BACK_IN)));
        self.wire.flush();
        tracing::info!(
            "stopped; the rules stay, and so do the addresses for {} s: `signpost drain` first \
             moves them, `signpost agent --cleanup` removes the rules",
            BACK_IN.as_secs()
        );
        Ok(())
    }
}

/// UDP has no end of a connection: what still leads to an endpoint that went away must be
/// forgotten, or its clients would stay with it for ever.
fn forget_connections(gone: &[(Frontend, Endpoint)]) {
    if gone.is_empty() {
        return;
    }
    let flows = |(f, endpoint): &(Frontend, Endpoint)| conntrack::UdpFlows {
        address: match f.place {
            Place::Address(address) => Some(address),
            Place::Node(_) => None,
        },
        port: f.port,
        endpoint: (*endpoint).into(),
    };
    for (family, tables) in [(Family::V4, nft::Family::Ip), (Family::V6, nft::Family::Ip6)] {
        let stale: Vec<_> = gone.iter().filter(|(f, _)| f.family() == family).map(flows).collect();
        if let Err(e) = conntrack::delete_udp(tables, &stale) {
            tracing::warn!("connections to endpoints that went away stay in conntrack: {e}");
        }
    }
}
