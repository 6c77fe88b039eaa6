//! Golden bytes, round trips, and what is refused.

use proptest::prelude::*;

use super::*;

const HEADER: Header<'static> = Header {
    name: "n1",
    boot: 0x0102_0304_0506_0708,
    sequence: 9,
    flags: Flags { listening: true, multicast: true, wanted: false },
};

fn written(message: &Message<'_>, key: Option<&Key>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, &HEADER, message, key);
    bytes
}

/// Two versions may run side by side: a change here needs another version number.
#[test]
fn golden() {
    let heartbeat = Heartbeat {
        interval: Duration::from_millis(100),
        multiplier: 3,
        epoch: 7,
        macs: Macs::collect([Mac([2, 0, 0, 0, 0, 1])].into_iter()),
    };
    let head = b"SGN\x01\x01\x06\x02n1\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\0\0\0\0\x09";
    let body = b"\0\0\0\x64\x03\0\0\0\x07\x01\x02\0\0\0\0\x01";
    let bytes = written(&Message::Heartbeat(&heartbeat), None);
    assert_eq!(bytes, [&head[..], body].concat());
    assert_eq!(parse(&bytes, None), Ok((HEADER, Body::Heartbeat(heartbeat))));

    let entries = [
        Entry { address: [192, 0, 2, 1].into(), weight: 258, owned: true, removed: false },
        Entry { address: [0; 16].into(), weight: 0, owned: false, removed: true },
    ];
    let bytes = written(&Message::Delta { base: 1, epoch: 2, entries: &entries }, None);
    let body = b"\0\0\0\x01\0\0\0\x02\x02\x01\x02\xc0\0\x02\x01\x05\0\0";
    assert_eq!(bytes[head.len()..], [&body[..], &[0; 16]].concat());
    assert_eq!(bytes[4], 2);
}

#[test]
fn a_part_beyond_its_count_is_refused() {
    for (index, count, ok) in [(0, 1, true), (1, 1, false), (0, PARTS_MAX + 1, false)] {
        let part = Message::Part { epoch: 1, index, count, entries: &[] };
        assert_eq!(parse(&written(&part, None), None).is_ok(), ok, "{index} of {count}");
    }
}

#[test]
fn cut_short_anywhere_it_is_refused() {
    let entry = Entry { address: [10, 0, 0, 1].into(), weight: 1, owned: true, removed: false };
    let key = Key::parse(b"0123456789abcdef").unwrap();
    for key in [None, Some(&key)] {
        let bytes = written(&Message::Delta { base: 1, epoch: 2, entries: &[entry] }, key);
        assert!(parse(&bytes, key).is_ok());
        // Without its entry it is a delta of none.
        let empty = bytes.len() - entry.len();
        for len in (0..bytes.len()).filter(|&len| key.is_some() || len != empty) {
            assert!(parse(&bytes[..len], key).is_err(), "{len} bytes");
        }
    }
}

prop_compose! {
    fn entries()(all in proptest::collection::vec(
        (any::<IpAddr>(), any::<u16>(), any::<bool>(), any::<bool>()), 0..20)) -> Vec<Entry> {
        let entry = |(address, weight, owned, removed)| Entry { address, weight, owned, removed };
        all.into_iter().map(entry).collect()
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(entries in entries(), a in any::<u64>(), b in any::<u64>(), ms in 1u32..) {
        let span = Duration::from_millis(u64::from(ms));
        let entries = &entries[..];
        for message in [
            Message::Delta { base: 1, epoch: 2, entries },
            Message::Part { epoch: 1, index: 2, count: 3, entries },
            Message::Pull { boot: a },
            Message::Challenge { boot: a, nonce: b },
            Message::Response { boot: a, nonce: b },
            Message::Leave { back: Some(span) },
            Message::Leave { back: None },
            Message::Yours { boot: a, remaining: span, entries },
        ] {
            let bytes = written(&message, None);
            let (header, body) = parse(&bytes, None).unwrap();
            prop_assert_eq!(header, HEADER);
            let same = match (message, body) {
                (Message::Delta { .. }, Body::Delta { base: 1, epoch: 2, entries: e })
                | (Message::Part { .. }, Body::Part { epoch: 1, index: 2, count: 3, entries: e }) => {
                    e.eq(entries.iter().copied())
                }
                (Message::Yours { .. }, Body::Yours { boot, remaining, entries: e }) => {
                    (boot, remaining) == (a, span) && e.eq(entries.iter().copied())
                }
                (Message::Pull { .. }, Body::Pull { boot }) => boot == a,
                (Message::Challenge { .. }, Body::Challenge { boot, nonce })
                | (Message::Response { .. }, Body::Response { boot, nonce }) => (boot, nonce) == (a, b),
                (Message::Leave { back }, Body::Leave { back: read }) => back == read,
                _ => false,
            };
            prop_assert!(same, "{:?}", message);
        }
    }
}
