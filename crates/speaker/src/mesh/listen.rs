//! Listening before speaking: at the start, and after a standstill.

use std::time::Duration;

use super::members::Member;
use super::{Change, Mesh};
use crate::{Instant, MemberState};

/// We own nothing new until we know what the others own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listen {
    pub(super) since: Instant,
    pub(super) until: Instant,
    /// After a standstill, not at the start.
    pub(super) stalled: bool,
}

impl Mesh {
    /// Claims nothing until the others were heard.
    pub(crate) fn listen(&mut self, now: Instant) {
        let until = now + self.config.interval * (u32::from(self.config.multiplier) + 1);
        self.listen = Some(Listen { since: now, until, stalled: false });
        self.heartbeat_at = now;
    }

    /// We stood still. What we own is still ours if nobody else claims it, but is not answered for
    /// until everybody who was alive has been heard again.
    pub(crate) fn stalled(&mut self, now: Instant, deaf: Duration) {
        if self.listen.is_none_or(|l| l.stalled) {
            let until = now + self.config.detection();
            self.listen = Some(Listen { since: now, until, stalled: true });
        }
        self.heartbeat_at = now;
        for m in self.members.iter_mut() {
            match m.state {
                MemberState::Alive | MemberState::Suspect => {
                    m.awaited = true;
                    // It was not silent, we were deaf: that time does not count.
                    m.last_heard = now.min(m.last_heard + deaf);
                }
                MemberState::Away | MemberState::NeverHeard | MemberState::Dead => {}
            }
        }
        self.gateway_heard = self.gateway_heard.map(|t| now.min(t + deaf));
        self.judge_at = now;
        self.addresses.touch_all();
    }

    pub(crate) fn listening(&self) -> bool {
        self.listen.is_some()
    }

    pub(super) fn end_listening(&mut self, now: Instant) {
        let Some(listen) = self.listen else { return };
        let known = if listen.stalled {
            self.members.iter().all(|(_, m)| !m.awaited || !m.lives())
                && self.members.iter().all(|(_, m)| !m.lives() || m.synced())
        } else {
            let heard =
                |m: &Member| m.listed.is_none() || (m.state == MemberState::Alive && m.synced());
            self.listed && self.alive > 0 && self.members.iter().all(|(_, m)| heard(m))
        };
        if known || now >= listen.until {
            self.listen = None;
            for m in self.members.iter_mut() {
                m.awaited = false;
            }
            self.heartbeat_at = now;
            if listen.stalled {
                self.changes
                    .extend(self.addresses.iter().filter(|a| a.owned).map(|a| Change::Kept(a.ip)));
            }
            self.addresses.touch_all();
        }
    }
}
