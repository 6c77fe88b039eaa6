//! The rules of chains that frontends share.
//!
//! One chain a distinct number of endpoints (`c<N>`, `l<N>`) picks an index at random. A packet
//! reads the kernel's generation anew at each lookup: it may take `goto c3` from before a change
//! and look for index 2 after it. Untranslated, the connection would be pinned to nowhere; so each
//! of these chains ends with two guards: the first endpoint, else drop.
//!
//! With affinity it is `cs` or `ls`: first the endpoint that the client had, by `learned`; else that
//! of the slot that its address is hashed to. After the translation `t<S>` writes the endpoint down
//! for S seconds, anew with each connection: a client that is known keeps its endpoint.
//!
//! Chains that begin with `n` are NodePorts', whose key has no address; those that begin with `g`
//! drop who is not in `allowed`.

use signpost_nft::{Jhash, Operand, Rule, Statement};
use signpost_plan::{Family, Protocol};

use crate::chain::{By, Chain, Choice, Pick};
use crate::layout::{ALLOWED, ChainSpec, LEARNED, Layout, PROTOCOLS};
use crate::rules::{drop, is, rule};
use crate::sticky;

impl Layout {
    /// A chain that frontends share.
    pub(crate) fn shared(self, chain: Chain) -> ChainSpec {
        let rules = match chain {
            Chain::Pick(pick) => self.pick(pick),
            Chain::Learn(timeout_s) => {
                PROTOCOLS.map(|protocol| self.learn(protocol, timeout_s)).into()
            }
        };
        ChainSpec { name: chain.name(), base: None, rules }
    }

    fn pick(self, Pick { by, lane, choice }: Pick) -> Vec<Rule> {
        let endpoint_at = |index: Operand| {
            let mut key = match by {
                By::Address | By::Guarded => self.frontend(),
                By::Node => self.node_frontend(),
            };
            key.push(index);
            rule([Statement::Dnat { key, map: lane.endpoints().into() }])
        };
        let mut rules = Vec::new();
        match by {
            By::Guarded => rules.push(self.only_allowed()),
            By::Address | By::Node => {}
        }
        match choice {
            Choice::Random(count) => rules.push(endpoint_at(Operand::NumgenRandom(count))),
            Choice::Sticky => {
                let key = [&[self.saddr()], &*self.frontend()].concat();
                rules.push(rule([Statement::Dnat { key, map: LEARNED.into() }]));
                rules.push(endpoint_at(self.slot()));
            }
        }
        if self.guards {
            rules.extend([endpoint_at(Operand::NumgenRandom(1)), rule([drop()])]);
        }
        rules
    }

    fn only_allowed(self) -> Rule {
        let mut key = self.frontend();
        key.push(self.saddr());
        rule([Statement::InSet { key, set: ALLOWED.into(), negated: true }, drop()])
    }

    fn learn(self, protocol: Protocol, timeout_s: u32) -> Rule {
        let learn = Statement::Learn {
            key: vec![
                self.original_saddr(),
                self.original_daddr(),
                Operand::L4Proto,
                Operand::CtOriginalProtoDst,
            ],
            value: vec![self.reply_saddr(), Operand::CtReplyProtoSrc],
            timeout_s,
            map: LEARNED.into(),
        };
        rule([is(protocol), learn])
    }

    fn slot(self) -> Operand {
        let into = Jhash { modulus: sticky::SLOTS, seed: sticky::SEED };
        match self.family {
            Family::V4 => Operand::JhashIpSaddr(into),
            Family::V6 => Operand::JhashIp6Saddr(into),
        }
    }
}
