//! A table with everything that Signpost writes.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use signpost_nft::{
    Base, Bytes, Chain, ChainType, Change, Element, Family, Form, Hook, Jhash, Operand, Part, Rule,
    Set, SetValue, Statement, Table, Type, Value, Verdict,
};

pub(crate) type Elements = BTreeMap<Box<str>, Vec<Element>>;

const SERVICE: [Operand; 3] = [Operand::IpDaddr, Operand::L4Proto, Operand::ThDport];

pub(crate) fn table() -> (Table, Elements) {
    use Type::{IfName, InetProto, InetService, Ipv4Addr as Address, Number};
    let mut table = Table {
        family: Family::Ip,
        name: "signpost".into(),
        owner: false,
        persist: false,
        dormant: false,
        sets: BTreeMap::new(),
        chains: BTreeMap::new(),
    };
    let mut set = |name: &str, key: &[Type], value, form| {
        table.sets.insert(name.into(), Set { key: key.to_vec(), value, form });
    };
    let service = [Address, InetProto, InetService];
    set("services", &service, SetValue::Verdict, Form::Plain);
    set(
        "endpoints",
        &[Address, InetProto, InetService, Number],
        SetValue::Data(vec![Address, InetService]),
        Form::Plain,
    );
    set("vips", &[Address], SetValue::None, Form::Plain);
    set("pods", &[Address], SetValue::None, Form::Interval);
    set("hairpin", &[Address, Address], SetValue::None, Form::Plain);
    set("uplinks", &[IfName], SetValue::None, Form::Plain);
    set("ports", &[InetService], SetValue::Data(vec![InetService]), Form::Plain);
    set("protocols", &[InetProto], SetValue::Verdict, Form::Plain);
    let client = [Address, Address, InetProto, InetService];
    let learned = Form::Learned { size: 65_536 };
    set("learned", &client, SetValue::Data(vec![Address, InetService]), learned);
    let source = [Address, InetProto, InetService, Address];
    set("allowed", &source, SetValue::None, Form::Interval);
    set("node_ports", &[InetProto, InetService], SetValue::None, Form::Plain);

    let mut chain = |name: &str, base: Option<(ChainType, Hook, i32)>, rules: Vec<Vec<_>>| {
        let base = base.map(|(kind, hook, priority)| Base { kind, hook, priority });
        let rules = rules.into_iter().map(Rule).collect();
        table.chains.insert(name.into(), Chain { base, rules });
    };
    chain("n1", None, vec![vec![dnat(1)], vec![drop()]]);
    chain("n3", None, vec![vec![dnat(3)], vec![dnat(1)], vec![drop()]]);
    chain(
        "forward_all",
        Some((ChainType::Filter, Hook::Forward, 0)),
        vec![
            vec![tcp(), in_set(Operand::IpDaddr, "vips", false), Statement::RejectTcpReset],
            vec![in_set(Operand::IpDaddr, "vips", false), Statement::RejectPortUnreachable],
        ],
    );
    chain(
        "input",
        Some((ChainType::Filter, Hook::Input, -5)),
        vec![
            vec![
                in_set(Operand::IpDaddr, "vips", false),
                tcp(),
                equal(Operand::ThDport, Part::Port(80)),
                Statement::Verdict(Verdict::Accept),
            ],
            vec![equal(Operand::L4Proto, Part::Proto(17)), Statement::Verdict(Verdict::Accept)],
            vec![equal(Operand::ThDport, Part::Port(53)), Statement::Verdict(Verdict::Accept)],
            vec![
                Statement::InSet {
                    key: vec![Operand::IpSaddr, Operand::IpDaddr],
                    set: "hairpin".into(),
                    negated: true,
                },
                Statement::Verdict(Verdict::Return),
            ],
        ],
    );
    let hash = Operand::JhashIpSaddr(Jhash { modulus: 1024, seed: 0x1b });
    let any = [Operand::AnyIpDaddr, Operand::L4Proto, Operand::ThDport];
    let local = equal(Operand::FibDaddrType, Part::Number(2));
    chain(
        "sticky",
        None,
        vec![
            vec![Statement::Dnat {
                key: [&[Operand::IpSaddr], &SERVICE[..]].concat(),
                map: "learned".into(),
            }],
            vec![Statement::Dnat { key: [&any[..], &[hash]].concat(), map: "endpoints".into() }],
        ],
    );
    chain(
        "nodes",
        Some((ChainType::Filter, Hook::Input, 0)),
        vec![
            vec![
                Statement::MatchBits { left: Operand::CtState, bits: 8, any: true },
                Statement::InSet {
                    key: vec![Operand::L4Proto, Operand::ThDport],
                    set: "node_ports".into(),
                    negated: false,
                },
                local.clone(),
                Statement::RejectPortUnreachable,
            ],
            vec![equal(Operand::CtOriginalIpDaddr, Part::Ipv4([10, 99, 0, 1].into())), drop()],
        ],
    );
    chain("mangle_out", Some((ChainType::Route, Hook::Output, -150)), vec![]);
    chain("output", Some((ChainType::Nat, Hook::Output, -101)), vec![vec![goto("translate")]]);
    chain(
        "postrouting",
        Some((ChainType::Nat, Hook::Postrouting, 99)),
        vec![
            vec![
                Statement::MatchBits { left: Operand::CtStatus, bits: 0x20, any: false },
                Statement::Verdict(Verdict::Return),
            ],
            vec![
                Statement::MatchBits { left: Operand::CtStatus, bits: 0x20, any: true },
                in_set(Operand::CtOriginalIpDaddr, "vips", true),
                Statement::Verdict(Verdict::Return),
            ],
            vec![
                Statement::InSet {
                    key: vec![Operand::IpSaddr, Operand::IpDaddr],
                    set: "hairpin".into(),
                    negated: false,
                },
                Statement::Masquerade { fully_random: true },
            ],
            vec![
                tcp(),
                Statement::InSet {
                    key: vec![Operand::L4Proto, Operand::CtOriginalProtoDst],
                    set: "node_ports".into(),
                    negated: false,
                },
                Statement::Learn {
                    key: vec![
                        Operand::CtOriginalIpSaddr,
                        Operand::CtOriginalIpDaddr,
                        Operand::L4Proto,
                        Operand::CtOriginalProtoDst,
                    ],
                    value: vec![Operand::CtReplyIpSaddr, Operand::CtReplyProtoSrc],
                    timeout_s: 5400,
                    map: "learned".into(),
                },
            ],
            vec![Statement::Masquerade { fully_random: false }],
        ],
    );
    chain(
        "prerouting",
        Some((ChainType::Nat, Hook::Prerouting, -101)),
        vec![
            vec![in_set(Operand::IifName, "uplinks", true), goto("translate")],
            vec![
                Statement::Match {
                    left: Operand::IifName,
                    negated: true,
                    right: Bytes::if_name("eth0").unwrap(),
                },
                in_set(Operand::IpSaddr, "pods", false),
                Statement::Verdict(Verdict::Jump("translate".into())),
            ],
        ],
    );
    chain(
        "translate",
        None,
        vec![
            vec![Statement::Vmap { key: SERVICE.to_vec(), map: "services".into() }],
            vec![
                in_set(Operand::IpDaddr, "vips", false),
                equal(Operand::L4Proto, Part::Proto(1)),
                equal(Operand::IcmpType, Part::Proto(8)),
                Statement::Redirect,
            ],
            vec![Statement::Vmap { key: vec![Operand::L4Proto], map: "protocols".into() }],
            vec![local, Statement::Vmap { key: any.to_vec(), map: "services".into() }],
        ],
    );
    (table, elements())
}

fn elements() -> Elements {
    let address = |last: u8| Part::Ipv4(Ipv4Addr::new(10, 99, 0, last));
    let mut all = Elements::new();
    let mut put = |set: &str, elements: Vec<Element>| {
        all.insert(set.into(), elements);
    };
    put(
        "services",
        vec![
            element(&[address(1), Part::Proto(6), Part::Port(80)], goto_value("n3")),
            element(&[address(1), Part::Proto(17), Part::Port(53)], goto_value("n1")),
            element(&[address(2), Part::Proto(6), Part::Port(80)], Value::Verdict(Verdict::Drop)),
        ],
    );
    let endpoint = |last, proto, port, number, pod| {
        let value = [Part::Ipv4(Ipv4Addr::new(10, 244, 1, pod)), Part::Port(8080)];
        let key = [address(last), Part::Proto(proto), Part::Port(port), Part::Number(number)];
        element(&key, Value::Data(Bytes::new(&value)))
    };
    put(
        "endpoints",
        vec![
            endpoint(1, 6, 80, 0, 2),
            endpoint(1, 6, 80, 1, 3),
            endpoint(1, 6, 80, 2, 4),
            endpoint(1, 17, 53, 0, 2),
            endpoint(1, 17, 53, 256, 2),
        ],
    );
    put("vips", vec![element(&[address(1)], Value::None), element(&[address(2)], Value::None)]);
    let edge = |a, b, c, d, interval_end| Element {
        key: Bytes::new(&[Part::Ipv4(Ipv4Addr::new(a, b, c, d))]),
        interval_end,
        value: Value::None,
    };
    put(
        "pods",
        vec![
            edge(10, 1, 0, 0, false),
            edge(10, 1, 0, 6, true),
            edge(10, 3, 3, 3, false),
            edge(10, 3, 3, 4, true),
            edge(10, 244, 0, 0, false),
            edge(10, 245, 0, 0, true),
        ],
    );
    put(
        "hairpin",
        vec![element(
            &[Part::Ipv4([10, 244, 1, 2].into()), Part::Ipv4([10, 244, 1, 2].into())],
            Value::None,
        )],
    );
    let tcp_port = [address(1), Part::Proto(6), Part::Port(80)];
    let allowed = |first: [u8; 4], last: [u8; 4]| {
        let key = |source: [u8; 4]| {
            let [to, protocol, port] = tcp_port;
            Bytes::new(&[to, protocol, port, Part::Ipv4(source.into())])
        };
        Element { key: key(first), interval_end: false, value: Value::Last(key(last)) }
    };
    put(
        "allowed",
        vec![
            allowed([192, 0, 2, 0], [192, 0, 2, 255]),
            allowed([198, 51, 100, 7], [198, 51, 100, 7]),
        ],
    );
    put("learned", Vec::new());
    put("node_ports", vec![element(&[Part::Proto(6), Part::Port(30080)], Value::None)]);
    put("uplinks", vec![element(&[Part::if_name("eth0").unwrap()], Value::None)]);
    put("ports", vec![element(&[Part::Port(80)], Value::Data(Bytes::new(&[Part::Port(8080)])))]);
    put("protocols", vec![element(&[Part::Proto(6)], Value::Verdict(Verdict::Return))]);
    all
}

/// The changes that make it.
pub(crate) fn changes(table: &Table, elements: &Elements) -> Vec<Change> {
    let mut changes = vec![Change::AddTable { owner: table.owner, persist: table.persist }];
    let sets = table.sets.iter();
    changes.extend(sets.map(|(name, set)| Change::AddSet(name.clone(), set.clone())));
    let chains = table.chains.iter();
    changes.extend(chains.map(|(name, chain)| Change::AddChain(name.clone(), chain.base)));
    for (name, chain) in &table.chains {
        let rules = chain.rules.iter();
        changes.extend(rules.map(|rule| Change::AddRule(name.clone(), rule.clone())));
    }
    let elements = elements.iter();
    changes.extend(elements.map(|(name, all)| Change::AddElements(name.clone(), all.clone())));
    changes
}

pub(crate) fn element(key: &[Part], value: Value) -> Element {
    Element { key: Bytes::new(key), interval_end: false, value }
}

pub(crate) fn goto_value(chain: &str) -> Value {
    Value::Verdict(Verdict::Goto(chain.into()))
}

fn dnat(modulus: u32) -> Statement {
    let mut key = SERVICE.to_vec();
    key.push(Operand::NumgenRandom(modulus));
    Statement::Dnat { key, map: "endpoints".into() }
}

fn goto(chain: &str) -> Statement {
    Statement::Verdict(Verdict::Goto(chain.into()))
}

fn drop() -> Statement {
    Statement::Verdict(Verdict::Drop)
}

fn tcp() -> Statement {
    equal(Operand::L4Proto, Part::Proto(6))
}

fn equal(left: Operand, right: Part) -> Statement {
    Statement::Match { left, negated: false, right: Bytes::new(&[right]) }
}

fn in_set(operand: Operand, set: &str, negated: bool) -> Statement {
    Statement::InSet { key: vec![operand], set: set.into(), negated }
}
