//! nf_tables against this kernel and the nft program.

#![allow(clippy::unwrap_used)]

mod namespace;
mod sample;

use std::net::Ipv4Addr;
use std::os::fd::AsFd;

use namespace::{in_new, nft_load, sh, try_sh};
use signpost_netlink::nf_tables::{ChangeKind, CommitError, Event, Monitor, Refusal, Session};
use signpost_nft::{
    Bytes, Chain, ChainType, Change, Element, Family, Form, Operand, Part, Rule, Set, SetValue,
    Statement, Table, Type, Value, Verdict,
};

fn session_with_sample() -> (Session, Table, sample::Elements) {
    let (table, elements) = sample::table();
    let mut session = Session::open().unwrap();
    let changes = sample::changes(&table, &elements);
    session.commit(Family::Ip, "signpost", &changes).unwrap();
    (session, table, elements)
}

#[test]
fn what_is_committed_is_read_back_equal() {
    in_new(|| {
        let (mut session, table, elements) = session_with_sample();
        let (have, have_elements) = session.read(Family::Ip, "signpost").unwrap().unwrap();
        assert_eq!(have, table);
        assert_eq!(have_elements, elements);
        assert!(session.read(Family::Ip, "other").unwrap().is_none());
    });
}

#[test]
fn the_printed_table_is_what_nft_lists_and_loads() {
    in_new(|| {
        let (mut session, table, elements) = session_with_sample();
        let printed = signpost_nft::display::ruleset(&table, &elements);
        assert_eq!(printed, sh("nft list ruleset"));

        sh("nft flush ruleset");
        nft_load(&printed);
        let (have, mut have_elements) = session.read(Family::Ip, "signpost").unwrap().unwrap();
        assert_eq!(have, table);
        // nft marks the end of the gap before the first range.
        let gap_end = have_elements.get_mut("pods").unwrap().remove(0);
        assert!(gap_end.interval_end);
        assert_eq!(have_elements, elements);
    });
}

/// Of a key with ranges nft turns a part around when it loads it: it reads back as nobody's.
#[test]
fn a_rule_that_asks_for_ranges_of_a_concatenation_is_listed() {
    use Operand::{IpDaddr, IpSaddr, L4Proto, ThDport};
    in_new(|| {
        let (mut session, mut table, _) = session_with_sample();
        let rule = Rule(vec![
            Statement::InSet {
                key: vec![IpDaddr, L4Proto, ThDport, IpSaddr],
                set: "allowed".into(),
                negated: true,
            },
            Statement::Verdict(Verdict::Drop),
        ]);
        let change = Change::AddRule("sticky".into(), rule.clone());
        session.commit(Family::Ip, "signpost", &[change]).unwrap();
        table.chains.get_mut("sticky").unwrap().rules.push(rule);
        let (have, elements) = session.read(Family::Ip, "signpost").unwrap().unwrap();
        assert_eq!(have, table);
        let printed = signpost_nft::display::ruleset(&table, &elements);
        assert_eq!(printed, sh("nft list ruleset"));
        sh("nft flush ruleset");
        nft_load(&printed);
    });
}

#[test]
fn what_packets_taught_is_told() {
    in_new(|| {
        sh("ip link set lo up");
        nft_load(
            "add table ip signpost
             add map ip signpost learned { type ipv4_addr . inet_proto : ipv4_addr; size 8; flags dynamic,timeout; }
             add chain ip signpost out { type filter hook output priority 0; }
             add rule ip signpost out meta l4proto udp update @learned { ip daddr . meta l4proto timeout 1h : ip saddr }",
        );
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"x", "127.0.0.9:9").unwrap();
        let mut session = Session::open().unwrap();
        let ip = |last| Part::Ipv4([127, 0, 0, last].into());
        let value = Value::Data(Bytes::new(&[ip(1)]));
        let want = sample::element(&[ip(9), Part::Proto(17)], value);
        assert_eq!(session.learned(Family::Ip, "signpost", "learned").unwrap(), [want]);
        // It is no part of the table as it was written.
        let (table, elements) = session.read(Family::Ip, "signpost").unwrap().unwrap();
        assert_eq!(table.sets["learned"].form, Form::Learned { size: 8 });
        assert!(elements["learned"].is_empty());
    });
}

#[test]
fn a_refusal_names_its_change_and_element_and_nothing_is_applied() {
    in_new(|| {
        let (mut session, table, elements) = session_with_sample();
        let vips = |last: &[u8]| last.iter().map(|last| vip(*last)).collect();
        let wrong_length = sample::element(&[Part::Port(1)], Value::None);
        let changes = [
            Change::AddElements("vips".into(), vips(&[7, 8])),
            Change::DeleteElements("vips".into(), vips(&[1, 77, 2])),
            Change::AddElements("vips".into(), vec![vip(9), vip(10), wrong_length]),
            Change::DeleteChain("absent".into()),
            Change::AddElements("vips".into(), vips(&[11])),
        ];
        let refused = match session.commit(Family::Ip, "signpost", &changes) {
            Err(CommitError::Refused(refused)) => refused,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            refused,
            [
                Refusal { index: 1, element: Some(1), errno: libc::ENOENT },
                Refusal { index: 2, element: Some(2), errno: libc::EINVAL },
                Refusal { index: 3, element: None, errno: libc::ENOENT },
            ]
        );
        assert_eq!(session.read(Family::Ip, "signpost").unwrap().unwrap(), (table, elements));
        // The answers to the refused one are not taken for those to the next.
        session.commit(Family::Ip, "signpost", &changes[..1]).unwrap();
    });
}

#[test]
fn the_last_change_refused_is_a_refusal() {
    in_new(|| {
        let (mut session, ..) = session_with_sample();
        let changes = [Change::FlushSet("vips".into()), Change::DeleteSet("absent".into())];
        let result = session.commit(Family::Ip, "signpost", &changes);
        assert!(matches!(result, Err(CommitError::Refused(_))), "{result:?}");
        assert_ne!(session.read(Family::Ip, "signpost").unwrap().unwrap().1["vips"], []);
    });
}

#[test]
fn a_chain_that_is_in_use_is_not_deleted() {
    in_new(|| {
        let (mut session, ..) = session_with_sample();
        let changes = [Change::FlushChain("n3".into()), Change::DeleteChain("n3".into())];
        match session.commit(Family::Ip, "signpost", &changes) {
            Err(CommitError::Refused(refused)) => {
                assert_eq!(refused, [Refusal { index: 1, element: None, errno: libc::EBUSY }])
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn ten_thousand_services_go_in_with_one_transaction() {
    in_new(|| {
        let (mut session, _, mut elements) = session_with_sample();
        let (services, endpoints) = many(10_000, 10);
        let changes = [
            Change::FlushSet("services".into()),
            Change::FlushSet("endpoints".into()),
            Change::AddElements("services".into(), services.clone()),
            Change::AddElements("endpoints".into(), endpoints.clone()),
        ];
        session.commit(Family::Ip, "signpost", &changes).unwrap();
        elements.insert("services".into(), services);
        elements.insert("endpoints".into(), endpoints);
        let have = session.read(Family::Ip, "signpost").unwrap().unwrap().1;
        assert!(have == elements, "the elements differ");

        // A refusal far behind the first message still finds its element.
        let mut wrong = elements["endpoints"].clone();
        wrong[70_000] = vip(1);
        let changes =
            [Change::FlushSet("endpoints".into()), Change::AddElements("endpoints".into(), wrong)];
        match session.commit(Family::Ip, "signpost", &changes) {
            Err(CommitError::Refused(refused)) => {
                assert_eq!((refused[0].index, refused[0].element), (1, Some(70_000)));
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_map_is_read_whole_while_the_kernel_still_grows_its_hash_table() {
    in_new(|| {
        let (_, endpoints) = many(5_000, 10);
        let load = [Change::AddElements("endpoints".into(), endpoints.clone())];
        for _ in 0..8 {
            let (mut session, ..) = session_with_sample();
            let flush = Change::FlushSet("endpoints".into());
            session.commit(Family::Ip, "signpost", &[flush]).unwrap();
            session.commit(Family::Ip, "signpost", &load).unwrap();
            let (_, elements) = session.read(Family::Ip, "signpost").unwrap().unwrap();
            assert!(elements["endpoints"] == endpoints, "elements are missing");
            session.commit(Family::Ip, "signpost", &[Change::DeleteTable]).unwrap();
        }
    });
}

#[test]
fn an_owned_table_resists_others_and_passes_to_the_next_owner() {
    in_new(|| {
        let (mut table, elements) = sample::table();
        (table.owner, table.persist) = (true, true);
        let mut session = Session::open().unwrap();
        assert!(session.can_own_and_persist().unwrap());
        assert_eq!(sh("nft list tables"), "");
        session.commit(Family::Ip, "signpost", &sample::changes(&table, &elements)).unwrap();

        sh("nft flush ruleset");
        let refused = "Operation not permitted";
        for foreign in ["delete table", "add chain"] {
            let chain = if foreign == "add chain" { "foreign" } else { "" };
            let (ok, _, errors) = try_sh(&format!("nft {foreign} ip signpost {chain}"));
            assert!(!ok && errors.contains(refused), "{foreign}: {errors}");
        }
        let mut other = Session::open().unwrap();
        let result = other.commit(Family::Ip, "signpost", &[Change::FlushSet("vips".into())]);
        assert!(matches!(result, Err(CommitError::Refused(_))), "{result:?}");
        let have = other.read(Family::Ip, "signpost").unwrap().unwrap();
        assert_eq!(have, (table.clone(), elements.clone()));

        // The socket is handed over: the same owner.
        let fd = session.as_fd().try_clone_to_owned().unwrap();
        let portid = session.portid();
        drop(session);
        let mut successor = Session::from_fd(fd).unwrap();
        assert_eq!(successor.portid(), portid);
        let change = Change::DeleteElements("vips".into(), vec![vip(1)]);
        successor.commit(Family::Ip, "signpost", &[change]).unwrap();

        // The socket is closed: the table stays and belongs to nobody, then to who adopts it.
        drop(successor);
        let (orphan, _) = other.read(Family::Ip, "signpost").unwrap().unwrap();
        assert_eq!((orphan.owner, orphan.persist), (false, true));
        let adopt = Change::AddTable { owner: true, persist: true };
        other.commit(Family::Ip, "signpost", &[adopt]).unwrap();
        let (have, _) = other.read(Family::Ip, "signpost").unwrap().unwrap();
        assert_eq!(have, table);
        assert!(!try_sh("nft delete table ip signpost").0);
    });
}

#[test]
fn what_others_write_into_the_table_is_seen() {
    in_new(|| {
        let (mut session, table, _) = session_with_sample();
        let mut read = || session.read(Family::Ip, "signpost").unwrap().unwrap().0;

        nft_load("add rule ip signpost n1 ip saddr { 10.0.0.1, 10.0.0.2 } counter accept");
        let foreign = read().chains["n1"].rules.last().unwrap().clone();
        assert_eq!(
            foreign,
            Rule(vec![Statement::Foreign("payload lookup counter immediate".into())])
        );
        assert!(read().sets.keys().eq(table.sets.keys()));

        nft_load("add chain ip signpost shut { type filter hook input priority 7; policy drop; }");
        assert_eq!(read().chains["shut"].base.unwrap().kind, ChainType::Foreign);
        nft_load("add set ip signpost s { type ipv4_addr; timeout 1h; }");
        assert!(matches!(read().sets["s"].value, SetValue::Foreign(_)));
        nft_load("add element ip signpost vips { * }");
        assert!(matches!(read().sets["vips"].value, SetValue::Foreign(_)));
        for rule in
            ["ip saddr 10.0.0.0/8 drop", "ct status & 0x20 == 0x20 drop", "masquerade random"]
        {
            nft_load(&format!("add rule ip signpost postrouting {rule}"));
            let last = read().chains["postrouting"].rules.last().unwrap().clone();
            assert!(matches!(*last.0, [Statement::Foreign(_)]), "{rule}: {last:?}");
        }
        nft_load("add table ip signpost { flags dormant; }");
        assert!(read().dormant);
        let wake = Change::AddTable { owner: false, persist: false };
        session.commit(Family::Ip, "signpost", &[wake]).unwrap();
        assert!(!session.read(Family::Ip, "signpost").unwrap().unwrap().0.dormant);
    });
}

#[test]
fn ipv6_and_inet_tables_go_through_too() {
    in_new(|| {
        use signpost_nft::Operand::{Ip6Daddr, L4Proto, NumgenRandom, ThDport};
        let address = |text: &str| Part::Ipv6(text.parse().unwrap());
        let (mut table, _) = sample::table();
        table.family = Family::Ip6;
        let key = vec![Type::Ipv6Addr, Type::InetProto, Type::InetService];
        let mut with_number = key.clone();
        with_number.push(Type::Number);
        let value = SetValue::Data(vec![Type::Ipv6Addr, Type::InetService]);
        table.sets = [
            ("endpoints".into(), Set { key: with_number, value, form: Form::Plain }),
            (
                "pods".into(),
                Set { key: vec![Type::Ipv6Addr], value: SetValue::None, form: Form::Interval },
            ),
            ("services".into(), Set { key, value: SetValue::Verdict, form: Form::Plain }),
        ]
        .into();
        let rule = |map: &str, modulus| {
            Rule(vec![Statement::Dnat {
                key: vec![Ip6Daddr, L4Proto, ThDport, NumgenRandom(modulus)],
                map: map.into(),
            }])
        };
        let vmap =
            Statement::Vmap { key: vec![Ip6Daddr, L4Proto, ThDport], map: "services".into() };
        table.chains = [
            ("n2".into(), Chain { base: None, rules: vec![rule("endpoints", 2)] }),
            (
                "services".into(),
                Chain {
                    base: None,
                    rules: vec![Rule(vec![vmap]), Rule(vec![Statement::RejectPortUnreachable])],
                },
            ),
        ]
        .into();
        let service = [address("fd00::1"), Part::Proto(6), Part::Port(80)];
        let endpoint = |index| {
            let key = [service[0], service[1], service[2], Part::Number(index)];
            let pod = [address("fd01::2"), Part::Port(8080)];
            sample::element(&key, Value::Data(signpost_nft::Bytes::new(&pod)))
        };
        let edge = |text, interval_end| Element {
            interval_end,
            ..sample::element(&[address(text)], Value::None)
        };
        let elements: sample::Elements = [
            ("endpoints".into(), vec![endpoint(0), endpoint(1)]),
            ("pods".into(), vec![edge("fd01::", false), edge("fd01:0:0:1::", true)]),
            ("services".into(), vec![sample::element(&service, sample::goto_value("n2"))]),
        ]
        .into_iter()
        .collect();
        let mut session = Session::open().unwrap();
        for family in [Family::Ip6, Family::Inet] {
            table.family = family;
            session.commit(family, "signpost", &sample::changes(&table, &elements)).unwrap();
            let have = session.read(family, "signpost").unwrap().unwrap();
            assert_eq!(have, (table.clone(), elements.clone()));
        }
        table.family = Family::Ip6;
        let printed = signpost_nft::display::ruleset(&table, &elements);
        assert_eq!(printed, sh("nft list table ip6 signpost"));
    });
}

#[test]
fn the_monitor_tells_own_changes_from_those_of_others() {
    in_new(|| {
        let mut monitor = Monitor::open(Family::Ip, "signpost").unwrap();
        let (mut session, ..) = session_with_sample();
        let events = monitor.drain().unwrap();
        assert!(matches!(events.last(), Some(Event::Generation { .. })));
        assert!(events.iter().all(|event| port(event) == session.portid()));
        let tables = events.iter().filter(|event| kind(event) == Some(&ChangeKind::NewTable));
        assert_eq!(tables.count(), 1);

        nft_load("add element ip signpost vips { 10.99.0.9 }\nadd rule ip signpost n1 drop");
        nft_load("add table ip other\nadd chain ip other c\n");
        let events = monitor.drain().unwrap();
        assert!(events.iter().all(|event| port(event) != session.portid()));
        let kinds: Vec<_> = events.iter().filter_map(kind).collect();
        assert_eq!(
            kinds,
            [
                &ChangeKind::NewElements("vips".into(), vec![vip(9)]),
                &ChangeKind::NewRule("n1".into()),
            ]
        );
        match events.last().unwrap() {
            Event::Generation { process, id, .. } => {
                assert_eq!(&**process, "nft");
                assert_eq!(*id, session.generation().unwrap());
            }
            other => panic!("{other:?}"),
        }

        monitor.ignore(session.portid());
        let change = Change::DeleteElements("vips".into(), vec![vip(9)]);
        session.commit(Family::Ip, "signpost", &[change]).unwrap();
        sh("nft delete table ip signpost");
        let events = monitor.drain().unwrap();
        let kinds: Vec<_> = events.iter().filter_map(kind).collect();
        assert!(kinds.contains(&&ChangeKind::DeleteTable));
        assert!(!kinds.contains(&&ChangeKind::DeleteElements("vips".into(), vec![vip(9)])));
    });
}

#[test]
fn a_paused_monitor_hears_nothing_and_the_generation_shows_whether_others_wrote() {
    in_new(|| {
        let (mut session, ..) = session_with_sample();
        let mut monitor = Monitor::open(Family::Ip, "signpost").unwrap();
        monitor.pause().unwrap();
        let before = session.generation().unwrap();
        let add = Change::AddElements("vips".into(), vec![vip(9)]);
        session.commit(Family::Ip, "signpost", &[add]).unwrap();
        monitor.resume().unwrap();
        assert_eq!(session.generation().unwrap(), before + 1);
        assert_eq!(monitor.drain().unwrap(), []);
        nft_load("delete element ip signpost vips { 10.99.0.9 }");
        assert_eq!(session.generation().unwrap(), before + 2);
        assert_eq!(monitor.drain().unwrap().len(), 2);
    });
}

fn kind(event: &Event) -> Option<&ChangeKind> {
    match event {
        Event::Change { kind, .. } => Some(kind),
        Event::Generation { .. } | Event::Overrun => None,
    }
}

fn port(event: &Event) -> u32 {
    match event {
        Event::Change { port, .. } | Event::Generation { port, .. } => *port,
        Event::Overrun => 0,
    }
}

fn vip(last: u8) -> Element {
    sample::element(&[Part::Ipv4(Ipv4Addr::new(10, 99, 0, last))], Value::None)
}

/// The elements of many services, sorted by key.
fn many(services: u32, endpoints: u32) -> (Vec<Element>, Vec<Element>) {
    let first = u32::from(Ipv4Addr::new(10, 100, 0, 0));
    let key = |service: u32| [Part::Ipv4((first + service).into()), Part::Proto(6), Part::Port(80)];
    let service = |index| sample::element(&key(index), sample::goto_value("n3"));
    let endpoint = |index: u32| {
        let [address, protocol, port] = key(index / endpoints);
        let key = [address, protocol, port, Part::Number(index % endpoints)];
        let pod = [Part::Ipv4(index.into()), Part::Port(8080)];
        sample::element(&key, Value::Data(signpost_nft::Bytes::new(&pod)))
    };
    let mut all_endpoints: Vec<_> = (0..services * endpoints).map(endpoint).collect();
    all_endpoints.sort_by_key(|element| element.key);
    ((0..services).map(service).collect(), all_endpoints)
}
