//! What our table looks like: sets, chains and rules, the same for every number of Services.
//!
//! ```text
//! map svc    address . proto . port : goto c<N>            what everybody asks
//! map svc_x  the same, outsiders first: goto l<N>, or drop  externalTrafficPolicy Local
//! map ep     address . proto . port . index : address . port    all endpoints that serve
//! map ep_l   the same, of this node only
//! ```
//!
//! One chain a distinct number of endpoints (`c<N>`, `l<N>`) picks an index at random. A packet
//! reads the kernel's generation anew at each lookup: it may take `goto c3` from before a change
//! and look for index 2 after it. Untranslated, the connection would be pinned to nowhere; so each
//! of these chains ends with two guards: the first endpoint, else drop.
//!
//! What each sender gets is decided at two places. `prerouting` tells outsiders (by an uplink, and
//! not from a pod's range) from pods; `output` has this node's processes. `postrouting` hides the
//! sender's address only where the reply would miss us, in this order:
//!
//! 1. not translated by us: not our concern;
//! 2. an endpoint that picked itself: masquerade, else it would answer itself;
//! 3. the endpoint is on this node: keep, its reply comes through here;
//! 4. came in by an uplink: masquerade, the endpoint's node would answer the sender directly;
//! 5. a pod of this node (no uplink, from a pod's range): keep, its node is this one;
//! 6. a process of this node: masquerade, so that the source fits the interface it leaves by.
//!    Before Linux 5.7 `iifname` is empty here: outsiders then end at this rule, with the same
//!    effect.

use std::net::IpAddr;

use signpost_nft::{
    Base, Bytes, ChainType, Family, Hook, Operand, Part, Rule, Set, SetValue, Statement, Type,
    Verdict,
};

use crate::Lane;

/// The name of our table, in each family.
pub const TABLE: &str = "signpost";

pub(crate) const SVC: &str = "svc";
pub(crate) const SVC_X: &str = "svc_x";
pub(crate) const EP: &str = "ep";
pub(crate) const EP_L: &str = "ep_l";
pub(crate) const VIPS: &str = "vips";
pub(crate) const HAIRPIN: &str = "hairpin";
pub(crate) const LOCAL_PODS: &str = "local_pods";
pub(crate) const PODS: &str = "pods";
pub(crate) const UPLINKS: &str = "uplinks";

const INTERNAL: &str = "internal";
const EXTERNAL: &str = "external";

/// nat chains run together at the hook; the lower priority comes first, and who translates first
/// wins: before kube-proxy's and others' at dstnat (-100).
const BEFORE_DSTNAT: i32 = -101;
/// NF_IP_PRI_NAT_SRC
const SRCNAT: i32 = 100;
/// NF_IP_PRI_FILTER
const FILTER: i32 = 0;
/// IPS_DST_NAT of `enum ip_conntrack_status`
const IPS_DST_NAT: u32 = 1 << 5;
const IPPROTO_TCP: u8 = 6;

/// The layout in one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) family: Family,
    /// False only to show what happens without them.
    pub(crate) guards: bool,
}

/// A chain of the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChainSpec {
    pub(crate) name: Box<str>,
    pub(crate) base: Option<Base>,
    pub(crate) rules: Vec<Rule>,
}

impl Layout {
    /// Whether an address is of the layout's family.
    pub(crate) fn holds(self, address: IpAddr) -> bool {
        address.is_ipv6() == self.is_ipv6()
    }

    pub(crate) fn sets(self) -> Vec<(&'static str, Set)> {
        let address = self.address();
        let frontend = vec![address, Type::InetProto, Type::InetService];
        let slot = [frontend.as_slice(), &[Type::Number]].concat();
        let endpoint = SetValue::Data(vec![address, Type::InetService]);
        let set = |key: Vec<Type>, value| Set { key, value, interval: false };
        vec![
            (SVC, set(frontend.clone(), SetValue::Verdict)),
            (SVC_X, set(frontend, SetValue::Verdict)),
            (EP, set(slot.clone(), endpoint.clone())),
            (EP_L, set(slot, endpoint)),
            (VIPS, set(vec![address], SetValue::None)),
            (HAIRPIN, set(vec![address, address], SetValue::None)),
            (LOCAL_PODS, set(vec![address], SetValue::None)),
            (PODS, Set { key: vec![address], value: SetValue::None, interval: true }),
            (UPLINKS, set(vec![Type::IfName], SetValue::None)),
        ]
    }

    /// The chains that are always there, each after those that it names.
    pub(crate) fn chains(self) -> Vec<ChainSpec> {
        let regular = |name: &str, rules| ChainSpec { name: name.into(), base: None, rules };
        let base = |name: &str, kind, hook, priority, rules| ChainSpec {
            name: name.into(),
            base: Some(Base { kind, hook, priority }),
            rules,
        };
        let (nat, filter) = (ChainType::Nat, ChainType::Filter);
        vec![
            regular(INTERNAL, self.internal()),
            regular(EXTERNAL, [vec![rule([self.vmap(SVC_X)])], self.internal()].concat()),
            base("prerouting", nat, Hook::Prerouting, BEFORE_DSTNAT, self.prerouting()),
            base("output", nat, Hook::Output, BEFORE_DSTNAT, vec![rule([goto(INTERNAL)])]),
            base("postrouting", nat, Hook::Postrouting, SRCNAT, self.postrouting()),
            base("refuse_forward", filter, Hook::Forward, FILTER, self.refuse()),
            base("refuse_output", filter, Hook::Output, FILTER, self.refuse()),
        ]
    }

    /// The chain that picks one of so many endpoints.
    pub(crate) fn pick(self, lane: Lane, count: u32) -> ChainSpec {
        let dnat = |modulus| {
            let mut key = self.frontend();
            key.push(Operand::NumgenRandom(modulus));
            rule([Statement::Dnat { key, map: lane.endpoints().into() }])
        };
        let mut rules = vec![dnat(count)];
        if self.guards {
            rules.extend([dnat(1), rule([Statement::Verdict(Verdict::Drop)])]);
        }
        ChainSpec { name: lane.chain(count), base: None, rules }
    }

    fn internal(self) -> Vec<Rule> {
        vec![
            rule([self.vmap(SVC)]),
            rule([
                in_set([self.daddr()], VIPS),
                equals(Operand::L4Proto, Part::Proto(self.icmp())),
                equals(Operand::IcmpType, Part::Proto(self.echo_request())),
                Statement::Redirect,
            ]),
        ]
    }

    fn prerouting(self) -> Vec<Rule> {
        vec![
            rule([not_in_set(Operand::IifName, UPLINKS), goto(INTERNAL)]),
            rule([in_set([self.saddr()], PODS), goto(INTERNAL)]),
            rule([goto(EXTERNAL)]),
        ]
    }

    fn postrouting(self) -> Vec<Rule> {
        let masquerade = || Statement::Masquerade { fully_random: true };
        let keep = || Statement::Verdict(Verdict::Return);
        let untranslated =
            Statement::MatchBits { left: Operand::CtStatus, bits: IPS_DST_NAT, any: false };
        vec![
            rule([untranslated, keep()]),
            rule([not_in_set(self.original_daddr(), VIPS), keep()]),
            rule([in_set([self.saddr(), self.daddr()], HAIRPIN), masquerade()]),
            rule([in_set([self.daddr()], LOCAL_PODS), keep()]),
            rule([in_set([Operand::IifName], UPLINKS), masquerade()]),
            rule([in_set([self.saddr()], PODS), keep()]),
            rule([masquerade()]),
        ]
    }

    fn refuse(self) -> Vec<Rule> {
        let ours = || in_set([self.daddr()], VIPS);
        let tcp = equals(Operand::L4Proto, Part::Proto(IPPROTO_TCP));
        vec![
            rule([ours(), tcp, Statement::RejectTcpReset]),
            rule([ours(), Statement::RejectPortUnreachable]),
        ]
    }

    fn vmap(self, map: &str) -> Statement {
        Statement::Vmap { key: self.frontend(), map: map.into() }
    }

    fn frontend(self) -> Vec<Operand> {
        vec![self.daddr(), Operand::L4Proto, Operand::ThDport]
    }

    const fn is_ipv6(self) -> bool {
        matches!(self.family, Family::Ip6)
    }

    pub(crate) const fn address(self) -> Type {
        if self.is_ipv6() { Type::Ipv6Addr } else { Type::Ipv4Addr }
    }

    const fn saddr(self) -> Operand {
        if self.is_ipv6() { Operand::Ip6Saddr } else { Operand::IpSaddr }
    }

    const fn daddr(self) -> Operand {
        if self.is_ipv6() { Operand::Ip6Daddr } else { Operand::IpDaddr }
    }

    const fn original_daddr(self) -> Operand {
        Operand::CtOriginalIpDaddr
    }

    /// IPPROTO_ICMP, IPPROTO_ICMPV6
    const fn icmp(self) -> u8 {
        if self.is_ipv6() { 58 } else { 1 }
    }

    /// ICMP_ECHO, ICMPV6_ECHO_REQUEST
    const fn echo_request(self) -> u8 {
        if self.is_ipv6() { 128 } else { 8 }
    }
}

fn rule<const N: usize>(statements: [Statement; N]) -> Rule {
    Rule(statements.into())
}

fn goto(chain: &str) -> Statement {
    Statement::Verdict(Verdict::Goto(chain.into()))
}

fn equals(left: Operand, right: Part) -> Statement {
    Statement::Match { left, negated: false, right: Bytes::new(&[right]) }
}

fn in_set<const N: usize>(key: [Operand; N], set: &str) -> Statement {
    Statement::InSet { key: key.into(), set: set.into(), negated: false }
}

fn not_in_set(key: Operand, set: &str) -> Statement {
    Statement::InSet { key: vec![key], set: set.into(), negated: true }
}
