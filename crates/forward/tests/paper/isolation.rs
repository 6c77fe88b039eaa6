//! What is refused, held or not acknowledged stays with its Service and its time.

use signpost_forward::{Forward, Options, Outcome};
use signpost_netlink::nf_tables::CommitError;
use signpost_nft::{Change, Family, Part, Type};
use signpost_plan::{Asked, Backend, Entry, Frontend, Protocol, Scope, ServiceKey, Table};

use crate::recorder::Recorder;
use crate::world::key;

fn table(service: u8, vip: u8) -> Table {
    let backend = Backend { address: [10, 244, 0, vip].into(), port: 8080, local: true };
    let asked = Asked::Vip([203, 0, 113, vip].into());
    let frontend = Frontend { asked, protocol: Protocol::Tcp, port: 80 };
    let entry = Entry::for_everybody(frontend, vec![backend]);
    Table { service: key(service), entries: vec![entry] }
}

fn started() -> (Recorder, Forward<Recorder>) {
    let kernel = Recorder::default();
    let mut forward = Forward::with_kernel(kernel.clone(), Options::default()).unwrap();
    forward.sync(Vec::new(), &Scope::default());
    (kernel, forward)
}

fn acknowledged(outcome: &Outcome) -> Vec<&str> {
    outcome.acknowledged.iter().map(|(service, _)| &*service.name).collect()
}

/// Refuses what concerns 203.0.113.2.
fn refuses(change: &Change) -> Option<i32> {
    let Change::AddElements(set, elements) = change else { return None };
    let types = [Type::Ipv4Addr, Type::InetProto, Type::InetService];
    let hit = elements.iter().any(|element| match element.key.parts(&types).as_deref() {
        Some([Part::Ipv4(address), ..]) => address.octets()[3] == 2,
        _ => false,
    });
    (&**set == "svc" && hit).then_some(libc::ENOSPC)
}

#[test]
fn a_refused_service_keeps_no_other_out() {
    let (kernel, mut forward) = started();
    kernel.0.borrow_mut().refuses = Some(refuses);
    let all = (1..=3).map(|n| (key(n), Some(table(n, n)))).collect();
    let outcome = forward.apply(all, &Scope::default());
    assert_eq!(acknowledged(&outcome), ["s1", "s3"]);
    assert_eq!(outcome.refused, [(key(2), libc::ENOSPC)]);
    assert!(outcome.in_flight.is_empty() && outcome.trouble.is_none());
    // Once the kernel can, it gets in.
    kernel.0.borrow_mut().refuses = None;
    let outcome = forward.apply(vec![(key(2), Some(table(2, 2)))], &Scope::default());
    assert_eq!(acknowledged(&outcome), ["s2"]);
}

#[test]
fn many_are_refused_at_once_and_all_others_get_in() {
    let kernel = Recorder::default();
    let mut forward = Forward::with_kernel(kernel.clone(), Options::default()).unwrap();
    let many = |n: u32| {
        let mut table = table(0, 0);
        table.service = ServiceKey { name: format!("s{n}").into(), ..key(0) };
        let address = std::net::Ipv4Addr::from(0x0a60_0000 + n).into();
        table.entries[0].frontend.asked = Asked::Vip(address);
        table
    };
    // Every address that ends in 2.
    kernel.0.borrow_mut().refuses = Some(refuses);
    let outcome = forward.sync((0..2500).map(many).collect(), &Scope::default());
    let refused = (0..2500).filter(|n| n % 256 == 2).count();
    assert_eq!((outcome.refused.len(), outcome.acknowledged.len()), (refused, 2500 - refused));
    let contents = kernel.0.borrow().paper.contents(Family::Ip).unwrap();
    assert_eq!(contents.1["svc"].len(), 2500 - refused);
    assert_eq!(contents.1["vips"].len(), 2500 - refused);
}

#[test]
fn a_frontend_that_another_service_has_is_refused() {
    let (_kernel, mut forward) = started();
    forward.apply(vec![(key(1), Some(table(1, 1)))], &Scope::default());
    let outcome = forward
        .apply(vec![(key(2), Some(table(2, 1))), (key(3), Some(table(3, 3)))], &Scope::default());
    assert_eq!(outcome.refused, [(key(2), libc::EEXIST)]);
    assert_eq!(acknowledged(&outcome), ["s3"]);
    // A frontend moves from one Service to another in one step.
    let moved = vec![(key(1), None), (key(2), Some(table(2, 1)))];
    let outcome = forward.apply(moved, &Scope::default());
    assert_eq!(acknowledged(&outcome), ["s1", "s2"]);
}

#[test]
fn what_is_not_acknowledged_stays_wanted() {
    let (kernel, mut forward) = started();
    kernel.0.borrow_mut().fails.push(CommitError::NoAck);
    let outcome = forward.apply(vec![(key(1), Some(table(1, 1)))], &Scope::default());
    assert!(outcome.acknowledged.is_empty() && outcome.trouble.is_some());
    assert_eq!(outcome.in_flight, [key(1)]);
    let outcome = forward.apply(Vec::new(), &Scope::default());
    assert_eq!(acknowledged(&outcome), ["s1"]);
}

#[test]
fn held_writes_wait_and_the_last_wish_counts() {
    let (kernel, mut forward) = started();
    let generation = kernel.0.borrow().paper.generation;
    forward.hold(true);
    forward.apply(vec![(key(1), Some(table(1, 1)))], &Scope::default());
    let outcome = forward.apply(vec![(key(1), Some(table(1, 2)))], &Scope::default());
    assert_eq!(outcome.in_flight, [key(1)]);
    assert_eq!(kernel.0.borrow().paper.generation, generation);
    forward.hold(false);
    let outcome = forward.apply(Vec::new(), &Scope::default());
    assert_eq!(outcome.acknowledged, [(key(1), Some(table(1, 2)))]);
    assert_eq!(kernel.0.borrow().paper.generation, generation + 1);
}

#[test]
fn nothing_is_changed_before_the_first_complete_set() {
    let kernel = Recorder::default();
    let mut forward = Forward::with_kernel(kernel.clone(), Options::default()).unwrap();
    let outcome = forward.apply(vec![(key(1), Some(table(1, 1)))], &Scope::default());
    assert_eq!(outcome.in_flight, [key(1)]);
    assert_eq!(kernel.0.borrow().paper.generation, 0);
}

#[test]
fn the_next_call_removes_what_the_second_transaction_left() {
    let (kernel, mut forward) = started();
    forward.apply(vec![(key(1), Some(table(1, 1)))], &Scope::default());
    // The stack is popped from its end: the first transaction passes, the second fails.
    kernel.0.borrow_mut().fails = Vec::new();
    kernel.0.borrow_mut().refuses = Some(|change| {
        matches!(change, Change::DeleteElements(set, _) if &**set == "ep").then_some(libc::EINTR)
    });
    let outcome = forward.apply(vec![(key(1), None)], &Scope::default());
    assert_eq!(outcome.acknowledged, [(key(1), None)]);
    assert_eq!(kernel.0.borrow().paper.contents(Family::Ip).unwrap().1["ep"].len(), 1);
    kernel.0.borrow_mut().refuses = None;
    forward.apply(Vec::new(), &Scope::default());
    assert_eq!(kernel.0.borrow().paper.contents(Family::Ip).unwrap().1["ep"].len(), 0);
}

#[test]
fn a_kernel_without_an_expression_is_told_by_its_option() {
    let kernel = Recorder::default();
    kernel.0.borrow_mut().refuses = Some(|change| {
        let translates = change.to_string().contains("chain postrouting");
        (matches!(change, Change::AddRule(..)) && translates).then_some(libc::ENOENT)
    });
    let mut forward = Forward::with_kernel(kernel, Options::default()).unwrap();
    let trouble = forward.sync(Vec::new(), &Scope::default()).trouble.unwrap().to_string();
    assert!(trouble.ends_with("this kernel may lack CONFIG_NFT_CT"), "{trouble}");
}
