//! The reader of messages under hostile input.

#![allow(clippy::unwrap_used)]

use proptest::collection::vec;
use proptest::prelude::*;
use signpost_netlink::fuzz_read;
use signpost_netlink::message::{Attributes, Messages};

/// A tree of attributes, of the types that the parsers look for.
#[derive(Clone, Debug)]
enum Node {
    Value(u16, Vec<u8>),
    Nest(u16, Vec<Node>),
}

fn write(nodes: &[Node]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for node in nodes {
        let (kind, value) = match node {
            Node::Value(kind, value) => (*kind, value.clone()),
            Node::Nest(kind, nodes) => (kind | 0x8000, write(nodes)),
        };
        bytes.extend((value.len() as u16 + 4).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

fn message(kind: u16, flags: u16, fixed: &[u8], nodes: &[Node]) -> Vec<u8> {
    let body = [fixed, &write(nodes)].concat();
    let mut bytes = (body.len() as u32 + 16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let names = ["a", "payload", "meta", "ct", "numgen", "bitwise", "cmp", "lookup", "nat", "masq"];
    let more_names = ["redir", "reject", "immediate", "filter", "nat", "veth"];
    let names: Vec<_> = names.into_iter().chain(more_names).collect();
    prop_oneof![
        prop::sample::select(names).prop_map(|name| [name.as_bytes(), &[0]].concat()),
        (0u32..24).prop_map(|number| number.to_be_bytes().to_vec()),
        vec(any::<u8>(), 0..40),
    ]
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let leaf = (0u16..20, value()).prop_map(|(kind, value)| Node::Value(kind, value));
    let node = leaf.prop_recursive(5, 40, 6, |inner| {
        (0u16..12, vec(inner, 0..6)).prop_map(|(kind, nodes)| Node::Nest(kind, nodes))
    });
    vec(node, 0..8)
}

fn well_formed() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![
        0u16..90,
        (0u16..20).prop_map(|kind| 10 << 8 | kind),
        (0u16..4).prop_map(|kind| 1 << 8 | kind),
    ];
    let fixed = prop_oneof![Just(4usize), Just(8), Just(12), Just(16), Just(20)];
    let fixed = fixed.prop_flat_map(|length| vec(0u8..11, length));
    (kind, any::<u16>(), fixed, nodes())
        .prop_map(|(kind, flags, fixed, nodes)| message(kind, flags, &fixed, &nodes))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_bytes_make_a_parser_panic_or_hang(bytes in vec(any::<u8>(), 0..300)) {
        fuzz_read(&bytes);
    }

    #[test]
    fn no_damage_to_a_message_makes_a_parser_panic_or_hang(
        mut bytes in well_formed(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        fuzz_read(&bytes);
        fuzz_read(&bytes[..bytes.len() / 2]);
    }

    #[test]
    fn what_is_written_is_read(nodes in nodes(), kind in 0u16..3000, flags in any::<u16>()) {
        let bytes = [message(kind, flags, &[], &nodes), message(7, 0, &[], &[])].concat();
        let messages: Result<Vec<_>, _> = Messages::new(&bytes).collect();
        let messages = messages.unwrap();
        prop_assert_eq!((messages[0].kind, messages[0].flags), (kind, flags));
        prop_assert_eq!(messages[1].kind, 7);
        let read: Result<Vec<_>, _> = Attributes::new(messages[0].payload).collect();
        let want: Vec<_> = nodes
            .iter()
            .map(|node| match node {
                Node::Value(kind, value) => (*kind, value.clone()),
                Node::Nest(kind, nodes) => (*kind, write(nodes)),
            })
            .collect();
        let read: Vec<_> =
            read.unwrap().into_iter().map(|(kind, value)| (kind, value.to_vec())).collect();
        prop_assert_eq!(read, want);
    }
}

#[test]
fn lengths_that_lie_end_the_reading() {
    let whole = message(1, 0, &[], &[Node::Value(1, vec![1, 2, 3])]);
    for length in [0u32, 15, whole.len() as u32 + 1, u32::MAX] {
        let mut lying = whole.clone();
        lying[..4].copy_from_slice(&length.to_ne_bytes());
        let read: Vec<_> = Messages::new(&lying).collect();
        assert!(matches!(*read, [Err(_)]), "{length}: {read:?}");
    }
    for length in [0u16, 3, 9, u16::MAX] {
        let mut lying = whole[16..].to_vec();
        lying[..2].copy_from_slice(&length.to_ne_bytes());
        let read: Vec<_> = Attributes::new(&lying).collect();
        assert!(matches!(*read, [Err(_)]), "{length}: {read:?}");
    }
}
