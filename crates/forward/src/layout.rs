//! What our table looks like: sets, chains and rules, the same for every number of Services.
//!
//! ```text
//! map svc    address . proto . port : goto c<N>            what everybody asks
//! map svc_x  the same, outsiders first: goto l<N>, or drop  where they get something else
//! map svc_o  the same, this node's processes first
//! map ep     address . proto . port . index : address . port    all endpoints that serve
//! map ep_l   the same, of this node only
//! ```
//!
//! A NodePort stands in the same maps under the address of all zeros. It is asked after the
//! addresses of Services, and only of local ones in `node_nets`. What the chains are that verdicts
//! lead to is said in `picks`.
//!
//! What each sender gets is decided at two places. `prerouting` tells outsiders (by an uplink, and
//! not from a pod's range) from pods, and from pods elsewhere: these ask an address of Services on
//! their own node, so what they ask here is a NodePort, as outsiders do. `output` has this node's
//! processes. `hide` hides the sender's address only where the reply would miss us, in this order:
//!
//! 1. not translated by us: not our concern;
//! 2. an endpoint that picked itself: masquerade, else it would answer itself;
//! 3. the endpoint is on this node: keep, its reply comes through here;
//! 4. came in by an uplink: masquerade, the endpoint's node would answer the sender directly;
//! 5. a pod of this node (no uplink, from a pod's range): keep, its node is this one;
//! 6. a process of this node: masquerade, so that the source fits the interface it leaves by.
//!    Before Linux 5.7 `iifname` is empty here: outsiders then end at this rule, with the same
//!    effect.

use signpost_nft::{
    Base, ChainType, Family, Form, Hook, Operand, Part, Rule, Set, SetValue, Statement, Type,
};
use signpost_plan::{self as plan, Protocol};

use crate::rules::{equals, goto, in_set, is, keep, not_in_set, rule};

/// The name of our table, in each family.
pub const TABLE: &str = "signpost";

pub(crate) const SVC: &str = "svc";
pub(crate) const SVC_X: &str = "svc_x";
pub(crate) const SVC_O: &str = "svc_o";
pub(crate) const LEARN: &str = "learn";
pub(crate) const LEARNED: &str = "learned";
pub(crate) const ALLOWED: &str = "allowed";
pub(crate) const EP: &str = "ep";
pub(crate) const EP_L: &str = "ep_l";
pub(crate) const VIPS: &str = "vips";
pub(crate) const NODE_PORTS: &str = "node_ports";
pub(crate) const NODE_NETS: &str = "node_nets";
pub(crate) const CLOSED: &str = "closed";
pub(crate) const HAIRPIN: &str = "hairpin";
pub(crate) const LOCAL_PODS: &str = "local_pods";
pub(crate) const PODS: &str = "pods";
pub(crate) const UPLINKS: &str = "uplinks";

/// What clients are remembered at once, all Services together: 64 Ki take some 10 MB. Beyond that
/// new ones get the endpoint of their slot.
const LEARNED_MAX: u32 = 65_536;

/// nat chains run together at the hook; the lower priority comes first, and who translates first
/// wins: before kube-proxy's and others' at dstnat (-100).
const BEFORE_DSTNAT: i32 = -101;
/// NF_IP_PRI_NAT_SRC
const SRCNAT: i32 = 100;
/// NF_IP_PRI_FILTER
const FILTER: i32 = 0;
/// IPS_DST_NAT of `enum ip_conntrack_status`
const IPS_DST_NAT: u32 = 1 << 5;
/// NF_CT_STATE_BIT(IP_CT_NEW)
const STATE_NEW: u32 = 1 << 3;
/// RTN_LOCAL
const LOCAL: u32 = 2;
/// Those that Services have.
pub(crate) const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// The layout in one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) family: plan::Family,
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
    pub(crate) fn sets(self) -> Vec<(&'static str, Set)> {
        let address = self.address();
        let (proto, port) = (Type::InetProto, Type::InetService);
        let frontend = vec![address, proto, port];
        let slot = [frontend.as_slice(), &[Type::Number]].concat();
        let source = [frontend.as_slice(), &[address]].concat();
        let client = [&[address], frontend.as_slice()].concat();
        let endpoint = || SetValue::Data(vec![address, port]);
        let plain = |key: Vec<Type>, value| Set { key, value, form: Form::Plain };
        let ranges = |key: Vec<Type>| Set { key, value: SetValue::None, form: Form::Interval };
        let learned = Form::Learned { size: LEARNED_MAX };
        vec![
            (SVC, plain(frontend.clone(), SetValue::Verdict)),
            (SVC_X, plain(frontend.clone(), SetValue::Verdict)),
            (SVC_O, plain(frontend.clone(), SetValue::Verdict)),
            (LEARN, plain(frontend.clone(), SetValue::Verdict)),
            (CLOSED, plain(frontend, SetValue::None)),
            (LEARNED, Set { key: client, value: endpoint(), form: learned }),
            (ALLOWED, ranges(source)),
            (EP, plain(slot.clone(), endpoint())),
            (EP_L, plain(slot, endpoint())),
            (VIPS, plain(vec![address], SetValue::None)),
            (NODE_PORTS, plain(vec![proto, port], SetValue::None)),
            (NODE_NETS, ranges(vec![address])),
            (HAIRPIN, plain(vec![address, address], SetValue::None)),
            (LOCAL_PODS, plain(vec![address], SetValue::None)),
            (PODS, ranges(vec![address])),
            (UPLINKS, plain(vec![Type::IfName], SetValue::None)),
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
            regular("nodes", self.nodes(&[SVC])),
            regular("nodes_x", self.nodes(&[SVC_X, SVC])),
            regular("nodes_o", self.nodes(&[SVC_O, SVC])),
            regular("internal", self.asked(&[SVC], "nodes")),
            regular("elsewhere", self.asked(&[SVC], "nodes_x")),
            regular("external", self.asked(&[SVC_X, SVC], "nodes_x")),
            regular("own", self.asked(&[SVC_O, SVC], "nodes_o")),
            regular("hide", self.hide()),
            regular("ours", self.ours(self.original_daddr())),
            regular("ours_node", self.ours(self.any())),
            base("prerouting", nat, Hook::Prerouting, BEFORE_DSTNAT, self.prerouting()),
            base("output", nat, Hook::Output, BEFORE_DSTNAT, vec![rule([goto("own")])]),
            base("postrouting", nat, Hook::Postrouting, SRCNAT, self.postrouting()),
            base("refuse_input", filter, Hook::Input, FILTER, self.refuse_own()),
            base("refuse_forward", filter, Hook::Forward, FILTER, self.refuse()),
            base("refuse_output", filter, Hook::Output, FILTER, self.refuse()),
        ]
    }

    /// An address of Services first; then, for what is this node's own, its ports.
    fn asked(self, maps: &[&str], nodes: &str) -> Vec<Rule> {
        let mut rules: Vec<_> = maps.iter().map(|map| rule([vmap(self.frontend(), map)])).collect();
        rules.push(rule([
            in_set([self.daddr()], VIPS),
            equals(Operand::L4Proto, Part::Proto(self.icmp())),
            equals(Operand::IcmpType, Part::Proto(self.echo_request())),
            Statement::Redirect,
        ]));
        rules.push(rule([
            in_set([Operand::L4Proto, Operand::ThDport], NODE_PORTS),
            equals(Operand::FibDaddrType, Part::Number(LOCAL)),
            in_set([self.daddr()], NODE_NETS),
            goto(nodes),
        ]));
        rules
    }

    fn nodes(self, maps: &[&str]) -> Vec<Rule> {
        maps.iter().map(|map| rule([vmap(self.node_frontend(), map)])).collect()
    }

    fn prerouting(self) -> Vec<Rule> {
        vec![
            rule([not_in_set([Operand::IifName], UPLINKS), goto("internal")]),
            rule([in_set([self.saddr()], PODS), goto("elsewhere")]),
            rule([goto("external")]),
        ]
    }

    fn postrouting(self) -> Vec<Rule> {
        let untranslated =
            Statement::MatchBits { left: Operand::CtStatus, bits: IPS_DST_NAT, any: false };
        let mut rules = vec![
            rule([untranslated, keep()]),
            rule([in_set([self.original_daddr()], VIPS), goto("ours")]),
        ];
        rules.extend(PROTOCOLS.map(|protocol| {
            rule([
                is(protocol),
                in_set([Operand::L4Proto, Operand::CtOriginalProtoDst], NODE_PORTS),
                in_set([self.original_daddr()], NODE_NETS),
                goto("ours_node"),
            ])
        }));
        rules
    }

    fn ours(self, asked: Operand) -> Vec<Rule> {
        let key = || vec![asked, Operand::L4Proto, Operand::CtOriginalProtoDst];
        let mut rules: Vec<_> =
            PROTOCOLS.map(|protocol| rule([is(protocol), vmap(key(), LEARN)])).into();
        rules.push(rule([goto("hide")]));
        rules
    }

    fn hide(self) -> Vec<Rule> {
        let masquerade = || Statement::Masquerade { fully_random: true };
        vec![
            rule([in_set([self.saddr(), self.daddr()], HAIRPIN), masquerade()]),
            rule([in_set([self.daddr()], LOCAL_PODS), keep()]),
            rule([in_set([Operand::IifName], UPLINKS), masquerade()]),
            rule([in_set([self.saddr()], PODS), keep()]),
            rule([masquerade()]),
        ]
    }

    fn refuse(self) -> Vec<Rule> {
        refusals([in_set([self.daddr()], VIPS)])
    }

    /// What asks this node itself where nobody serves, by a NodePort or an address that it bears,
    /// must not reach a process that happens to listen. Connections that this node made itself may
    /// have such a port at their end here: they are not new.
    fn refuse_own(self) -> Vec<Rule> {
        let new = Statement::MatchBits { left: Operand::CtState, bits: STATE_NEW, any: true };
        let closed = |key| Statement::InSet { key, set: CLOSED.into(), negated: false };
        let mut rules = refusals([closed(self.frontend()), new.clone()]);
        rules.extend(refusals([
            closed(self.node_frontend()),
            new,
            equals(Operand::FibDaddrType, Part::Number(LOCAL)),
            in_set([self.daddr()], NODE_NETS),
        ]));
        rules
    }

    /// The key of a frontend: the address that the packet asks.
    pub(crate) fn frontend(self) -> Vec<Operand> {
        vec![self.daddr(), Operand::L4Proto, Operand::ThDport]
    }

    /// The key of a NodePort.
    pub(crate) fn node_frontend(self) -> Vec<Operand> {
        vec![self.any(), Operand::L4Proto, Operand::ThDport]
    }

    pub(crate) const fn nft_family(self) -> Family {
        match self.family {
            plan::Family::V4 => Family::Ip,
            plan::Family::V6 => Family::Ip6,
        }
    }

    pub(crate) const fn address(self) -> Type {
        match self.family {
            plan::Family::V4 => Type::Ipv4Addr,
            plan::Family::V6 => Type::Ipv6Addr,
        }
    }

    pub(crate) const fn saddr(self) -> Operand {
        match self.family {
            plan::Family::V4 => Operand::IpSaddr,
            plan::Family::V6 => Operand::Ip6Saddr,
        }
    }

    pub(crate) const fn daddr(self) -> Operand {
        match self.family {
            plan::Family::V4 => Operand::IpDaddr,
            plan::Family::V6 => Operand::Ip6Daddr,
        }
    }

    const fn any(self) -> Operand {
        match self.family {
            plan::Family::V4 => Operand::AnyIpDaddr,
            plan::Family::V6 => Operand::AnyIp6Daddr,
        }
    }

    pub(crate) const fn original_saddr(self) -> Operand {
        match self.family {
            plan::Family::V4 => Operand::CtOriginalIpSaddr,
            plan::Family::V6 => Operand::CtOriginalIp6Saddr,
        }
    }

    pub(crate) const fn original_daddr(self) -> Operand {
        match self.family {
            plan::Family::V4 => Operand::CtOriginalIpDaddr,
            plan::Family::V6 => Operand::CtOriginalIp6Daddr,
        }
    }

    pub(crate) const fn reply_saddr(self) -> Operand {
        match self.family {
            plan::Family::V4 => Operand::CtReplyIpSaddr,
            plan::Family::V6 => Operand::CtReplyIp6Saddr,
        }
    }

    /// IPPROTO_ICMP, IPPROTO_ICMPV6
    const fn icmp(self) -> u8 {
        match self.family {
            plan::Family::V4 => 1,
            plan::Family::V6 => 58,
        }
    }

    /// ICMP_ECHO, ICMPV6_ECHO_REQUEST
    const fn echo_request(self) -> u8 {
        match self.family {
            plan::Family::V4 => 8,
            plan::Family::V6 => 128,
        }
    }
}

fn refusals<const N: usize>(asked: [Statement; N]) -> Vec<Rule> {
    let mut reset = asked.to_vec();
    reset.extend([is(Protocol::Tcp), Statement::RejectTcpReset]);
    let mut unreachable = asked.to_vec();
    unreachable.push(Statement::RejectPortUnreachable);
    vec![Rule(reset), Rule(unreachable)]
}

fn vmap(key: Vec<Operand>, map: &str) -> Statement {
    Statement::Vmap { key, map: map.into() }
}
