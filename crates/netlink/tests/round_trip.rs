//! Any table of ours goes through the kernel and comes back equal, also while others write.

#![allow(clippy::unwrap_used)]

mod namespace;
#[allow(dead_code)]
mod sample;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use namespace::in_new;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::test_runner::TestRunner;
use signpost_netlink::ReadError;
use signpost_netlink::nf_tables::Session;
use signpost_nft::{
    Base, Bytes, Chain, ChainType, Change, Element, Family, Form, Hook, Jhash, Operand, Part, Rule,
    Set, SetValue, Statement, Table, Type, Value, Verdict,
};

const CHAINS: [&str; 3] = ["a", "b", "c"];
/// Jumps lead to here, so that there are no loops.
const LEAF: &str = "leaf";
const OPERANDS: [Operand; 15] = [
    Operand::IpSaddr,
    Operand::IpDaddr,
    Operand::ThDport,
    Operand::IcmpType,
    Operand::L4Proto,
    Operand::IifName,
    Operand::CtOriginalIpDaddr,
    Operand::NumgenRandom(7),
    Operand::AnyIpDaddr,
    Operand::FibDaddrType,
    Operand::CtOriginalIpSaddr,
    Operand::CtOriginalProtoDst,
    Operand::CtReplyIpSaddr,
    Operand::CtReplyProtoSrc,
    Operand::JhashIpSaddr(Jhash { modulus: 5, seed: 9 }),
];

fn part(kind: Type) -> BoxedStrategy<Part> {
    match kind {
        Type::Ipv4Addr => any::<u32>().prop_map(|bits| Part::Ipv4(bits.into())).boxed(),
        Type::Ipv6Addr => any::<u128>().prop_map(|bits| Part::Ipv6(bits.into())).boxed(),
        Type::InetProto => any::<u8>().prop_map(Part::Proto).boxed(),
        Type::InetService => any::<u16>().prop_map(Part::Port).boxed(),
        Type::IfName => {
            "[a-z][a-z0-9]{0,14}".prop_map(|name| Part::if_name(&name).unwrap()).boxed()
        }
        Type::Number => any::<u32>().prop_map(Part::Number).boxed(),
    }
}

fn bytes(types: &[Type]) -> impl Strategy<Value = Bytes> + use<> {
    let parts: Vec<_> = types.iter().map(|kind| part(*kind)).collect();
    parts.prop_map(|parts| Bytes::new(&parts))
}

fn verdict() -> impl Strategy<Value = Verdict> {
    select(vec![
        Verdict::Accept,
        Verdict::Drop,
        Verdict::Return,
        Verdict::Jump(LEAF.into()),
        Verdict::Goto(LEAF.into()),
    ])
}

/// A set's key is of operands, so that rules can look into it.
type SetWithElements = (Vec<Operand>, Set, Vec<Element>);

fn set() -> impl Strategy<Value = SetWithElements> {
    let key = subsequence(OPERANDS.to_vec(), 1..4).prop_shuffle();
    let key = key.prop_filter("too long", |key| Type::total_size(&kinds(key)) <= Bytes::MAX);
    let service = vec![Type::Ipv4Addr, Type::InetService];
    let value = select(vec![SetValue::None, SetValue::Verdict, SetValue::Data(service)]);
    (key, value).prop_flat_map(|(key, value)| {
        let set = Set { key: kinds(&key), value, form: Form::Plain };
        let value = match &set.value {
            SetValue::Verdict => verdict().prop_map(Value::Verdict).boxed(),
            SetValue::Data(types) => bytes(types).prop_map(Value::Data).boxed(),
            SetValue::None | SetValue::Foreign(_) => Just(Value::None).boxed(),
        };
        let elements = btree_map(bytes(&set.key), value, 0..40);
        (Just(key), Just(set), elements).prop_map(|(key, set, elements)| {
            let element = |(key, value)| Element { key, interval_end: false, value };
            (key, set, elements.into_iter().map(element).collect())
        })
    })
}

fn interval_set() -> impl Strategy<Value = SetWithElements> {
    let edges = btree_set(any::<u32>(), 0..20).prop_map(|edges: BTreeSet<u32>| {
        let edge = |(index, at): (usize, u32)| Element {
            key: Bytes::new(&[Part::Ipv4(at.into())]),
            interval_end: index % 2 == 1,
            value: Value::None,
        };
        edges.into_iter().enumerate().map(edge).collect()
    });
    let set = Set { key: vec![Type::Ipv4Addr], value: SetValue::None, form: Form::Interval };
    edges.prop_map(move |edges| (vec![Operand::IpSaddr], set.clone(), edges))
}

fn kinds(key: &[Operand]) -> Vec<Type> {
    key.iter().map(|operand| operand.kind()).collect()
}

fn statement(sets: &BTreeMap<Box<str>, SetWithElements>) -> BoxedStrategy<Statement> {
    let compare = select(OPERANDS.to_vec()).prop_flat_map(|left| {
        let right = bytes(&[left.kind()]);
        (right, any::<bool>()).prop_map(move |(right, negated)| Statement::Match {
            left,
            negated,
            right,
        })
    });
    let bits = (1u32.., any::<bool>()).prop_map(|(bits, any)| Statement::MatchBits {
        left: Operand::CtStatus,
        bits,
        any,
    });
    let mut choices = vec![compare.boxed(), bits.boxed()];
    let named = sets.iter().map(|(name, (key, set, _))| (name.clone(), key.clone(), set.clone()));
    let named: Vec<_> = named.collect();
    if !named.is_empty() {
        let look_up = (select(named), any::<bool>()).prop_map(|((name, key, set), negated)| {
            match set.value {
                SetValue::Verdict => Statement::Vmap { key, map: name },
                SetValue::Data(_) => Statement::Dnat { key, map: name },
                SetValue::None | SetValue::Foreign(_) => {
                    Statement::InSet { key, set: name, negated }
                }
            }
        });
        choices.push(look_up.boxed());
    }
    proptest::strategy::Union::new(choices).boxed()
}

fn chain(sets: &BTreeMap<Box<str>, SetWithElements>) -> impl Strategy<Value = Chain> + use<> {
    let last = prop_oneof![
        verdict().prop_map(Statement::Verdict),
        Just(Statement::Redirect),
        Just(Statement::Verdict(Verdict::Drop)),
    ];
    let rule = (vec(statement(sets), 0..4), last).prop_map(|(mut statements, last)| {
        statements.push(last);
        Rule(statements)
    });
    let base = (select(vec![Hook::Prerouting, Hook::Output]), -99i32..300)
        .prop_map(|(hook, priority)| Base { kind: ChainType::Nat, hook, priority });
    (prop::option::of(base), vec(rule, 0..6)).prop_map(|(base, rules)| Chain { base, rules })
}

fn table() -> impl Strategy<Value = (Table, sample::Elements)> {
    let sets = (btree_map("[a-z]{1,12}", set(), 0..4), interval_set());
    let sets = sets.prop_map(|(sets, ranges)| {
        let named = sets.into_iter().map(|(name, set)| (name.into(), set));
        named.chain([("ranges-1".into(), ranges)]).collect::<BTreeMap<Box<str>, _>>()
    });
    sets.prop_flat_map(|sets| {
        let chains: Vec<_> = CHAINS.iter().map(|_| chain(&sets)).collect();
        (Just(sets), chains)
    })
    .prop_map(|(sets, chains)| {
        let mut table = sample::table().0;
        table.chains = CHAINS.iter().map(|name| Box::from(*name)).zip(chains).collect();
        table.chains.insert(LEAF.into(), Chain::default());
        let elements = sets.iter().map(|(name, (_, _, all))| (name.clone(), all.clone())).collect();
        table.sets = sets.into_iter().map(|(name, (_, set, _))| (name, set)).collect();
        (table, elements)
    })
}

#[test]
fn any_table_is_read_back_equal() {
    in_new(|| {
        let mut runner = TestRunner::new(ProptestConfig::with_cases(200));
        let outcome = runner.run(&table(), |(mut table, elements)| {
            // Without `flags persist` it goes away with the session.
            table.owner = true;
            let mut session = Session::open().unwrap();
            let changes = sample::changes(&table, &elements);
            let committed = session.commit(Family::Ip, "signpost", &changes);
            prop_assert!(committed.is_ok(), "{committed:?}");
            let read = session.read(Family::Ip, "signpost").unwrap().unwrap();
            prop_assert_eq!(read, (table, elements));
            Ok(())
        });
        outcome.unwrap();
    });
}

#[test]
fn a_reading_is_of_one_moment() {
    /// Each is read in many attempts, because the writer never rests.
    const READINGS: usize = 10;
    in_new(|| {
        let (mut table, mut elements) = sample::table();
        // It is read between the two sets that the writer changes together, and takes a while.
        let large = Set { key: vec![Type::Number], value: SetValue::None, form: Form::Plain };
        let all = (0..5000u32).map(|n| sample::element(&[Part::Number(n)], Value::None));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|element| element.key);
        table.sets.insert("queue".into(), large);
        elements.insert("queue".into(), all);
        let mut session = Session::open().unwrap();
        session.commit(Family::Ip, "signpost", &sample::changes(&table, &elements)).unwrap();

        let done = Arc::new(AtomicBool::new(false));
        let writer = std::thread::spawn({
            let done = Arc::clone(&done);
            move || write_pairs(&done)
        });
        for _ in 0..READINGS {
            match session.read(Family::Ip, "signpost") {
                Ok(read) => {
                    let (_, now) = read.unwrap();
                    let more = |set: &str| now[set].len() - elements[set].len();
                    assert_eq!(more("ports"), more("vips"));
                }
                Err(error) => assert!(matches!(error, ReadError::Changing(_)), "{error}"),
            }
        }
        done.store(true, Relaxed);
        writer.join().unwrap();
        assert_eq!(session.read(Family::Ip, "signpost").unwrap().unwrap().1, elements);
    });
}

/// Adds an element to two sets at once, and deletes both, over and over.
fn write_pairs(done: &AtomicBool) {
    let mut session = Session::open().unwrap();
    let vip = sample::element(&[Part::Ipv4([10, 99, 0, 77].into())], Value::None);
    let port = sample::element(&[Part::Port(77)], Value::Data(Bytes::new(&[Part::Port(1)])));
    let both = |change: fn(Box<str>, Vec<Element>) -> Change| {
        [change("ports".into(), vec![port.clone()]), change("vips".into(), vec![vip.clone()])]
    };
    let [add, delete] = [both(Change::AddElements), both(Change::DeleteElements)];
    while !done.load(Relaxed) {
        session.commit(Family::Ip, "signpost", &add).unwrap();
        session.commit(Family::Ip, "signpost", &delete).unwrap();
    }
}
