//! Operations and members as elements of the kernel's sets, and back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use signpost_nft::{Bytes, Change, Element, Part, Type, Value, Verdict};
use signpost_plan::Protocol;

use crate::chain::Chain;
use crate::diff::{Member, Op};
use crate::ladder::Seen;
use crate::layout::{
    ALLOWED, CLOSED, HAIRPIN, LOCAL_PODS, NODE_NETS, NODE_PORTS, PODS, UPLINKS, VIPS,
};
use crate::part::{Endpoint, Place};
use crate::{Frontend, Target, Turn};

/// The operations as changes of one transaction, a set at a time, what goes before what comes: a
/// replaced element must be gone before its successor is made.
pub(crate) fn changes(ops: &[Op]) -> impl Iterator<Item = Change> {
    let mut sets: Vec<Edits> = Vec::new();
    for op in ops {
        let set = set_of(op);
        let at = sets.iter().position(|edits| edits.set == set).unwrap_or_else(|| {
            sets.push(Edits { set, deleted: Vec::new(), added: Vec::new() });
            sets.len() - 1
        });
        sets[at].push(op);
    }
    sets.into_iter().flat_map(|Edits { set, deleted, added }| {
        let deleted = (!deleted.is_empty()).then(|| Change::DeleteElements(set.into(), deleted));
        let added = (!added.is_empty()).then(|| Change::AddElements(set.into(), added));
        deleted.into_iter().chain(added)
    })
}

struct Edits {
    set: &'static str,
    deleted: Vec<Element>,
    added: Vec<Element>,
}

impl Edits {
    fn push(&mut self, op: &Op) {
        match op {
            Op::Point { turn: _, frontend, replaces, target } => {
                let key = Bytes::new(&frontend.parts());
                if *replaces {
                    self.deleted.push(bare(key));
                }
                self.added.extend(target.map(|target| {
                    let value = verdict_value(target);
                    Element { key, interval_end: false, value }
                }));
            }
            Op::Fill { lane: _, frontend, index, replaces, endpoint } => {
                let [address, protocol, port] = frontend.parts();
                let key = Bytes::new(&[address, protocol, port, Part::Number(*index)]);
                if *replaces {
                    self.deleted.push(bare(key));
                }
                self.added.extend(endpoint.map(|endpoint| {
                    let value = endpoint_value(endpoint);
                    Element { key, interval_end: false, value }
                }));
            }
            Op::Join(member) => self.added.extend(member.elements()),
            Op::Leave(member) => self.deleted.extend(member.elements()),
        }
    }
}

fn set_of(op: &Op) -> &'static str {
    match op {
        Op::Point { turn, .. } => turn.verdicts(),
        Op::Fill { lane, .. } => lane.endpoints(),
        Op::Join(member) | Op::Leave(member) => member.set(),
    }
}

/// Of a frontend.
pub(crate) fn verdict_value(target: Target) -> Value {
    Value::Verdict(match target {
        Target::Pick(pick) => Verdict::Goto(Chain::Pick(pick).name()),
        Target::Drop => Verdict::Drop,
        // The packet goes on, untranslated, to where it is refused.
        Target::Refuse => Verdict::Accept,
        Target::Learn(timeout_s) => Verdict::Jump(Chain::Learn(timeout_s).name()),
    })
}

fn target(turn: Turn, verdict: &Verdict) -> Option<Target> {
    match (turn, verdict) {
        (Turn::Learn, Verdict::Jump(chain)) => match Chain::named(chain)? {
            Chain::Learn(timeout_s) => Some(Target::Learn(timeout_s)),
            Chain::Pick(_) => None,
        },
        (Turn::Learn, _) => None,
        (Turn::Everybody | Turn::Outsiders | Turn::Processes, Verdict::Goto(chain)) => {
            match Chain::named(chain)? {
                Chain::Pick(pick) => Some(Target::Pick(pick)),
                Chain::Learn(_) => None,
            }
        }
        (Turn::Everybody | Turn::Outsiders | Turn::Processes, Verdict::Drop) => Some(Target::Drop),
        (Turn::Outsiders | Turn::Processes, Verdict::Accept) => Some(Target::Refuse),
        (Turn::Everybody | Turn::Outsiders | Turn::Processes, _) => None,
    }
}

/// Of an index.
pub(crate) fn endpoint_value((address, port): Endpoint) -> Value {
    Value::Data(Bytes::new(&[address.into(), Part::Port(port)]))
}

fn bare(key: Bytes) -> Element {
    Element { key, interval_end: false, value: Value::None }
}

impl Frontend {
    fn parts(&self) -> [Part; 3] {
        let address = match self.place {
            Place::Address(address) => address,
            Place::Node(family) => family.unspecified(),
        };
        [address.into(), Part::Proto(self.protocol.number()), Part::Port(self.port)]
    }

    pub(crate) fn from_parts(address: Part, protocol: Part, port: Part) -> Option<Self> {
        let Part::Port(port) = port else { return None };
        let place = Place::of(ip(address)?);
        Some(Self { place, protocol: read_protocol(protocol)?, port })
    }
}

fn read_protocol(part: Part) -> Option<Protocol> {
    let Part::Proto(number) = part else { return None };
    [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter().find(|p| p.number() == number)
}

impl Member {
    pub(crate) const fn set(&self) -> &'static str {
        match self {
            Self::Vip(_) => VIPS,
            Self::NodePort(..) => NODE_PORTS,
            Self::Closed(_) => CLOSED,
            Self::Allowed(..) => ALLOWED,
            Self::Hairpin(_) => HAIRPIN,
            Self::LocalPod(_) => LOCAL_PODS,
            Self::Pods(_) => PODS,
            Self::NodeNet(_) => NODE_NETS,
            Self::Uplink(_) => UPLINKS,
        }
    }

    /// One element, and an end marker for a range.
    pub(crate) fn elements(&self) -> Vec<Element> {
        match *self {
            Self::Vip(address) | Self::LocalPod(address) => {
                vec![bare(Bytes::new(&[address.into()]))]
            }
            Self::NodePort(protocol, port) => {
                let parts = [Part::Proto(protocol.number()), Part::Port(port)];
                vec![bare(Bytes::new(&parts))]
            }
            Self::Closed(frontend) => vec![bare(Bytes::new(&frontend.parts()))],
            Self::Allowed(ref allowed) => {
                let (frontend, net) = &**allowed;
                let [address, protocol, port] = frontend.parts();
                let key = |source: IpAddr| Bytes::new(&[address, protocol, port, source.into()]);
                let value = Value::Last(key(net.broadcast()));
                vec![Element { value, ..bare(key(net.network())) }]
            }
            Self::Hairpin(pod) => vec![bare(Bytes::new(&[pod.into(), pod.into()]))],
            Self::Pods(range) | Self::NodeNet(range) => {
                let first = bare(Bytes::new(&[range.network().into()]));
                let end = after(range.broadcast())
                    .map(|end| Element { interval_end: true, ..bare(Bytes::new(&[end.into()])) });
                [Some(first), end].into_iter().flatten().collect()
            }
            Self::Uplink(name) => vec![bare(Bytes::new(&[Part::IfName(name)]))],
        }
    }
}

/// Where a range that ends with this address has its end marker; the last range has none.
fn after(last: IpAddr) -> Option<IpAddr> {
    match last {
        IpAddr::V4(v4) => Some(Ipv4Addr::from(u32::from(v4).checked_add(1)?).into()),
        IpAddr::V6(v6) => Some(Ipv6Addr::from(u128::from(v6).checked_add(1)?).into()),
    }
}

/// The ranges that a set's elements mark, as far as they are prefixes; `None`: not all are.
pub(crate) fn ranges(address: Type, elements: &[Element]) -> Option<Vec<IpNet>> {
    let mut marks = Vec::with_capacity(elements.len());
    for element in elements {
        let [mark] = element.key.parts(&[address])?[..] else { return None };
        marks.push((ip(mark)?, !element.interval_end));
    }
    // At one address the end of a range comes before the start of the next.
    marks.sort();
    let mut ranges = Vec::new();
    let mut marks = marks.into_iter().peekable();
    while let Some((first, is_start)) = marks.next() {
        if !is_start {
            // The kernel has none before the first range, nft writes one.
            continue;
        }
        let end = marks.next_if(|(_, is_start)| !is_start).map(|(end, _)| end);
        ranges.push(prefix(first, end)?);
    }
    Some(ranges)
}

fn prefix(first: IpAddr, end: Option<IpAddr>) -> Option<IpNet> {
    let bits = if first.is_ipv4() { 32 } else { 128 };
    (0..=bits)
        .filter_map(|len| IpNet::new(first, len).ok())
        .find(|net| net.network() == first && after(net.broadcast()) == end)
}

/// A verdict map's element.
pub(crate) fn read_verdict(
    turn: Turn,
    address: Type,
    element: &Element,
) -> Option<(Frontend, Seen<Target>)> {
    let types = [address, Type::InetProto, Type::InetService];
    let [address, protocol, port] = element.key.parts(&types)?[..] else { return None };
    let seen = match &element.value {
        Value::Verdict(verdict) => target(turn, verdict).map_or(Seen::Foreign, Seen::Ours),
        Value::Data(_) | Value::None | Value::Last(_) => Seen::Foreign,
    };
    Some((Frontend::from_parts(address, protocol, port)?, seen))
}

/// An element of a map of endpoints.
pub(crate) fn read_endpoint(
    address: Type,
    element: &Element,
) -> Option<(Frontend, u32, Seen<Endpoint>)> {
    let types = [address, Type::InetProto, Type::InetService, Type::Number];
    let [to, protocol, port, Part::Number(index)] = element.key.parts(&types)?[..] else {
        return None;
    };
    let seen = match &element.value {
        Value::Data(data) => read_data(address, data).map_or(Seen::Foreign, Seen::Ours),
        Value::Verdict(_) | Value::None | Value::Last(_) => Seen::Foreign,
    };
    Some((Frontend::from_parts(to, protocol, port)?, index, seen))
}

/// An element of a shared set but those of ranges of addresses.
pub(crate) fn read_member(set: &str, address: Type, element: &Element) -> Option<Member> {
    let single = |kind| match element.key.parts(&[kind])?[..] {
        [part] => Some(part),
        _ => None,
    };
    match set {
        VIPS => Some(Member::Vip(ip(single(address)?)?)),
        NODE_PORTS => match element.key.parts(&[Type::InetProto, Type::InetService])?[..] {
            [protocol, Part::Port(port)] => Some(Member::NodePort(read_protocol(protocol)?, port)),
            _ => None,
        },
        CLOSED => {
            let types = [address, Type::InetProto, Type::InetService];
            let [to, protocol, port] = element.key.parts(&types)?[..] else { return None };
            Some(Member::Closed(Frontend::from_parts(to, protocol, port)?))
        }
        ALLOWED => read_allowed(address, element),
        LOCAL_PODS => Some(Member::LocalPod(ip(single(address)?)?)),
        HAIRPIN => match element.key.parts(&[address, address])?[..] {
            [from, to] if from == to => Some(Member::Hairpin(ip(from)?)),
            _ => None,
        },
        UPLINKS => match single(Type::IfName)? {
            Part::IfName(name) => Some(Member::Uplink(name)),
            Part::Ipv4(_) | Part::Ipv6(_) | Part::Proto(_) | Part::Port(_) | Part::Number(_) => {
                None
            }
        },
        _ => None,
    }
}

fn read_allowed(address: Type, element: &Element) -> Option<Member> {
    let types = [address, Type::InetProto, Type::InetService, address];
    let Value::Last(last) = &element.value else { return None };
    let first = element.key.parts(&types)?;
    let last = last.parts(&types)?;
    let ([to, protocol, port, from], [.., end]) = (&first[..], &last[..]) else { return None };
    let net = prefix(ip(*from)?, after(ip(*end)?))?;
    (first[..3] == last[..3]).then_some(())?;
    let frontend = Frontend::from_parts(*to, *protocol, *port)?;
    Some(Member::Allowed(Box::new((frontend, net))))
}

fn read_data(address: Type, data: &Bytes) -> Option<Endpoint> {
    match data.parts(&[address, Type::InetService])?[..] {
        [address, Part::Port(port)] => Some((ip(address)?, port)),
        _ => None,
    }
}

pub(crate) fn ip(part: Part) -> Option<IpAddr> {
    match part {
        Part::Ipv4(v4) => Some(v4.into()),
        Part::Ipv6(v6) => Some(v6.into()),
        Part::Proto(_) | Part::Port(_) | Part::IfName(_) | Part::Number(_) => None,
    }
}

/// The first part of an element's key, if it is an address.
pub(crate) fn read_address(address: Type, element: &Element) -> Option<IpAddr> {
    let bytes = element.key.as_slice().get(..address.size())?;
    let [part] = Bytes::from_slice(bytes)?.parts(&[address])?[..] else { return None };
    ip(part)
}
