//! What goes wrong, and when it is over.

use std::time::Duration;

use super::{Happening, Time, World, micros};

#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// Per cent of all datagrams and frames.
    Loss(u64),
    /// Hosts by island; the gateway is in 0.
    Islands(Vec<usize>),
    /// Hosts by whom their heartbeats reach, while ARP reaches all.
    MeshGroups(Vec<usize>),
    Pause(usize, Time),
    /// Late wakes, and stamps too old.
    Clock(usize, Time, Time),
    Crash(usize),
    PowerOff(usize),
    Start(usize),
    Leave(usize, Option<Duration>),
    Exit(usize, u64),
    Gate {
        host: usize,
        address: usize,
        open: bool,
    },
    Drain(usize, bool),
    HangControl(usize, bool),
    Carrier(usize, bool),
}

impl World {
    /// Faults after a quiet start and before a quiet end.
    pub(super) fn script(&mut self) {
        let end = micros(self.size.length);
        for _ in 0..self.size.faults {
            let at = self.random.between(4_000_000, end - 12_000_000);
            let lasts = match self.random.below(3) {
                0 => self.random.between(20_000, 400_000),
                1 => self.random.between(400_000, 2_000_000),
                _ => self.random.between(2_000_000, 8_000_000),
            };
            self.plan_fault(at, at + lasts);
            self.outcome.faults += 1;
        }
    }

    fn plan_fault(&mut self, at: Time, over: Time) {
        let n = self.hosts.len();
        let host = self.random.below(n as u64) as usize;
        let groups = |world: &mut Self, kinds| -> Vec<usize> {
            (0..n).map(|_| world.random.below(kinds) as usize).collect()
        };
        let (begin, end) = match self.random.below(14) {
            0 => (Fault::Loss([5, 10, 20, 30][self.random.below(4) as usize]), Fault::Loss(0)),
            1 => (Fault::Islands(groups(self, 2)), Fault::Islands(vec![0; n])),
            2 => (Fault::MeshGroups(groups(self, 3)), Fault::MeshGroups(vec![0; n])),
            3 => {
                // One cable.
                let islands = (0..n).map(|i| usize::from(i == host)).collect();
                (Fault::Islands(islands), Fault::Islands(vec![0; n]))
            }
            4 | 5 => return self.at(at, Happening::Fault(Fault::Pause(host, over - at))),
            6 => {
                let (late, skew) = (self.random.below(600_000), self.random.below(5_000_000));
                (Fault::Clock(host, late, skew), Fault::Clock(host, 0, 0))
            }
            7 => (Fault::Crash(host), Fault::Start(host)),
            8 => (Fault::PowerOff(host), Fault::Start(host)),
            9 => {
                let back = self.random.chance(70).then_some(Duration::from_secs(3));
                (Fault::Leave(host, back), Fault::Start(host))
            }
            10 => {
                let address = self.random.below(self.size.addresses as u64) as usize;
                let gate = |open| Fault::Gate { host, address, open };
                (gate(false), gate(true))
            }
            11 => (Fault::Drain(host, true), Fault::Drain(host, false)),
            12 => (Fault::HangControl(host, true), Fault::HangControl(host, false)),
            _ => (Fault::Carrier(host, false), Fault::Carrier(host, true)),
        };
        self.at(at, Happening::Fault(begin));
        self.at(over, Happening::Fault(end));
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        self.say(|| format!("--- {fault:?}"));
        let now = self.now;
        match fault {
            Fault::Loss(percent) => self.loss = percent,
            Fault::Islands(islands) => {
                self.hosts.iter_mut().zip(islands).for_each(|(h, i)| h.island = i);
            }
            Fault::MeshGroups(groups) => {
                self.hosts.iter_mut().zip(groups).for_each(|(h, g)| h.mesh_group = g);
            }
            Fault::Pause(host, lasts) => {
                let h = &mut self.hosts[host];
                let until = now + lasts;
                h.paused_until = Some(h.paused_until.map_or(until, |t| t.max(until)));
                self.at(until, Happening::Resume(host));
            }
            Fault::Clock(host, late, skew) => {
                (self.hosts[host].late, self.hosts[host].skew) = (late, skew);
            }
            Fault::Crash(host) => self.hosts[host].stop(),
            Fault::PowerOff(host) => {
                self.hosts[host].stop();
                self.hosts[host].powered_off = true;
            }
            Fault::Start(host) => {
                self.hosts[host].powered_off = false;
                self.at(now, Happening::Start(host));
            }
            Fault::Leave(host, back) => {
                if self.hosts[host].runs() {
                    self.hosts[host].leave(now, back);
                    self.turn(host);
                    let life = self.hosts[host].life;
                    self.at(now + 5_000, Happening::Fault(Fault::Exit(host, life)));
                }
            }
            Fault::Exit(host, life) => {
                if self.hosts[host].life == life {
                    self.hosts[host].stop();
                }
            }
            Fault::Gate { host, address, open } => {
                if let Some(gated) = &mut self.hosts[host].serves[address] {
                    gated.open = open;
                    self.while_running(host, |h| h.tell_gate(now, address));
                }
            }
            Fault::Drain(host, drained) => {
                self.hosts[host].drained = drained;
                if self.hosts[host].gates_open {
                    self.while_running(host, |h| h.open_gates(now));
                }
            }
            Fault::HangControl(host, hangs) => {
                self.hosts[host].control_hangs = hangs;
                if !hangs {
                    self.while_running(host, |h| h.renew(now));
                }
            }
            Fault::Carrier(host, carrier) => {
                self.hosts[host].carrier = carrier;
                self.while_running(host, |h| h.tell_link(now));
            }
        }
    }

    /// Orders reach a process that does not stand still; one that does learns them when it runs
    /// again.
    fn while_running(&mut self, host: usize, order: impl FnOnce(&mut super::Host)) {
        if self.hosts[host].runs() {
            order(&mut self.hosts[host]);
            self.turn(host);
        } else {
            self.hosts[host].behind = true;
        }
    }
}
