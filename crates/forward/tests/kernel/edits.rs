//! Restarts, and what other people do to our table.

use std::time::{Duration, Instant};

use signpost_forward::{
    Error, Forward, Options, Outcome, Protection, TABLE, TableOwner, Turn, cleanup,
};
use signpost_netlink::nf_tables::{Monitor, Session};
use signpost_nft::{Change, Family, display::ruleset};
use signpost_plan::Table;

use crate::bed::{A, B, Bed, R};
use crate::probe::tcp;
use crate::tables::{cluster, here, key, local, there};

const OPEN: Options = Options { table_owner: TableOwner::Off, protection: Protection::Full };
const VIP: &str = "203.0.113.1:80";

fn tables() -> Vec<Table> {
    vec![
        cluster("one", "203.0.113.1", &[here(A), here(B), there(R)]),
        local("two", "203.0.113.2", &[here(A), there(R)]),
    ]
}

/// Nobody else has the table once its last session is closed. A program that another test starts has
/// a copy of that between its fork and its exec, so it may take a moment.
fn start(bed: &Bed, options: Options) -> Forward {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match bed.inside("node", || Forward::open(options)) {
            Err(Error::OwnedByAnother) if Instant::now() < deadline => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

fn synced(bed: &Bed, options: Options) -> Forward {
    let mut forward = start(bed, options);
    settled(&forward.sync(tables(), &Bed::scope()));
    forward
}

fn settled(outcome: &Outcome) {
    assert!(outcome.is_complete && outcome.refused.is_empty(), "{outcome:?}");
}

fn generation(bed: &Bed) -> u32 {
    bed.inside("node", || Session::open().unwrap().generation().unwrap())
}

fn listed(bed: &Bed) -> String {
    bed.run("node", &format!("nft list table ip {TABLE}"))
}

/// Sets and chains, in the order of their names.
fn blocks(list: &str) -> Vec<&str> {
    let inner = list.split_once('\n').unwrap().1.strip_suffix("}\n").unwrap();
    let mut blocks: Vec<_> = inner.split("\n\n").map(str::trim_end).collect();
    blocks.sort();
    blocks
}

#[test]
fn nft_lists_what_we_print() {
    let bed = Bed::new();
    let _forward = synced(&bed, OPEN);
    let read = bed.inside("node", || Session::open().unwrap().read(Family::Ip, TABLE).unwrap());
    let (table, elements) = read.unwrap();
    assert_eq!(blocks(&listed(&bed)), blocks(&ruleset(&table, &elements)));
    // And what is listed can be loaded.
    bed.run("switch", &format!("nft -f - <<'END'\n{}\nEND", ruleset(&table, &elements)));
}

#[test]
fn applying_twice_changes_nothing() {
    let bed = Bed::new();
    let mut forward = synced(&bed, Options::default());
    let before = generation(&bed);
    let again = tables().into_iter().map(|table| (table.service.clone(), Some(table)));
    let outcome = forward.apply(again.collect(), &Bed::scope());
    assert_eq!((outcome.acknowledged.len(), outcome.transactions), (2, 0));
    settled(&forward.read_and_diff());
    assert_eq!(generation(&bed), before);
}

#[test]
fn a_restart_changes_nothing_and_resets_no_connection() {
    let bed = Bed::new();
    let forward = synced(&bed, Options::default());
    assert!(forward.is_owner());
    let list = listed(&bed);
    let stream = bed.inside("client", || std::net::TcpStream::connect(VIP).unwrap());
    drop(forward);
    let forward = synced(&bed, Options::default());
    // The table is owned anew, by a process of another name; all else is as it was.
    let body = |text: &str| {
        let keep = |line: &&str| !line.contains("flags owner") && !line.starts_with("table");
        text.lines().filter(keep).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(body(&listed(&bed)), body(&list));
    assert!(forward.is_owner());
    bed.inside("client", || {
        use std::io::{Read, Write};
        let mut stream = stream;
        stream.write_all(b"still there\n").unwrap();
        let mut line = String::new();
        stream.read_to_string(&mut line).unwrap();
        assert!(line.ends_with(" 192.0.2.200\n") || line.ends_with(" 192.0.2.11\n"), "{line}");
    });
}

#[test]
fn a_restart_removes_what_is_wanted_no_more_and_mends_the_rest() {
    let bed = Bed::new();
    drop(synced(&bed, OPEN));
    bed.run(
        "node",
        &format!("nft delete element ip {TABLE} ep '{{ 203.0.113.1 . tcp . 80 . 1 }}'"),
    );
    bed.run("node", &format!("nft add chain ip {TABLE} strange"));
    bed.run("node", &format!("nft add element ip {TABLE} vips '{{ 198.51.100.9 }}'"));
    let mut forward = start(&bed, OPEN);
    let one = tables().into_iter().take(1).collect();
    settled(&forward.sync(one, &Bed::scope()));
    let mended = listed(&bed);
    bed.run("node", &format!("nft delete table ip {TABLE}"));
    let mut fresh = start(&bed, OPEN);
    settled(&fresh.sync(tables().into_iter().take(1).collect(), &Bed::scope()));
    // Chains that pick are kept for the next Service of their size.
    let with_spare = |text: &str| text.lines().filter(|l| !l.contains("203.0.113")).count();
    assert!(with_spare(&mended) >= with_spare(&listed(&bed)));
    assert!(!mended.contains("strange") && !mended.contains("198.51.100.9"), "{mended}");
    assert!(!mended.contains("203.0.113.2"), "{mended}");
    bed.inside("client", || assert!(tcp(VIP).is_ok()));
}

#[test]
fn the_kernel_refuses_other_peoples_edits() {
    let bed = Bed::new();
    let forward = synced(&bed, Options::default());
    let list = listed(&bed);
    bed.run("node", "nft flush ruleset");
    assert_eq!(listed(&bed), list);
    for edit in [
        format!("nft delete table ip {TABLE}"),
        format!("nft add chain ip {TABLE} strange"),
        format!("nft delete element ip {TABLE} vips '{{ 203.0.113.1 }}'"),
    ] {
        let (done, said) = bed.try_run("node", &edit);
        assert!(!done && said.contains("Operation not permitted"), "{edit}: {said}");
    }
    // Another process of ours as well, and it says why.
    let second = bed.inside("node", || Forward::open(Options::default()).unwrap_err());
    assert!(second.to_string().contains("another process"), "{second}");
    let error = bed.inside("node", cleanup).unwrap_err().to_string();
    assert!(error.contains("another process"), "{error}");
    // The table outlives its owner, and can be cleaned up then.
    drop(forward);
    assert!(listed(&bed).contains("203.0.113.1"));
    assert_eq!(bed.inside("node", cleanup).unwrap(), 1);
    assert_eq!(bed.inside("node", cleanup).unwrap(), 0);
}

#[test]
fn a_session_is_handed_over_with_its_table() {
    use std::os::fd::AsFd;
    let bed = Bed::new();
    let forward = synced(&bed, Options::default());
    let fd = forward.session().as_fd().try_clone_to_owned().unwrap();
    drop(forward);
    let before = generation(&bed);
    let session = Session::from_fd(fd).unwrap();
    let mut next = Forward::with_session(session, Options::default()).unwrap();
    settled(&next.sync(tables(), &Bed::scope()));
    assert_eq!(generation(&bed), before);
    let gone = next.apply(vec![(key("one"), None)], &Bed::scope());
    settled(&gone);
}

#[test]
fn cleaning_up_leaves_what_others_made() {
    let bed = Bed::new();
    drop(synced(&bed, Options::default()));
    bed.run("node", "nft add table ip other");
    assert_eq!(bed.inside("node", cleanup).unwrap(), 1);
    assert_eq!(bed.run("node", "nft list tables"), "table ip other\n");
}

#[test]
fn an_edit_of_an_element_concerns_its_address_and_is_mended() {
    let bed = Bed::new();
    let mut forward = synced(&bed, OPEN);
    let list = listed(&bed);
    let mut monitor = bed.inside("node", || Monitor::open(Family::Ip, TABLE).unwrap());
    for edit in [
        "delete element ip signpost svc { 203.0.113.1 . tcp . 80 }",
        "delete element ip signpost ep { 203.0.113.1 . udp . 80 . 2 }",
        "delete element ip signpost vips { 203.0.113.1 }",
        "add element ip signpost svc_x { 203.0.113.1 . tcp . 80 : drop }",
        "delete element ip signpost local_pods { 198.19.1.6 }",
        "add element ip signpost ep { 203.0.113.1 . tcp . 80 . 7 : 10.0.0.1 . 1 }",
        "delete element ip signpost ep { 203.0.113.1 . tcp . 80 . 1 }; \
         add element ip signpost ep { 203.0.113.1 . tcp . 80 . 1 : 10.0.0.1 . 1 }",
    ] {
        bed.run("node", &format!("nft '{edit}'"));
        let damage = forward.foreign(signpost_plan::Family::V4, &monitor.drain().unwrap());
        assert_eq!(damage.addresses, ["203.0.113.1".parse().unwrap()].into(), "{edit}");
        assert!(!damage.all, "{edit}");
        settled(&forward.repair(&damage));
        assert_eq!(listed(&bed), list, "{edit}");
        // Our own mending is no damage.
        assert!(
            forward.foreign(signpost_plan::Family::V4, &monitor.drain().unwrap()).is_none(),
            "{edit}"
        );
    }
}

#[test]
fn an_edit_while_another_is_mended_is_mended_too() {
    let bed = Bed::new();
    let mut forward = synced(&bed, OPEN);
    let list = listed(&bed);
    let mut monitor = bed.inside("node", || Monitor::open(Family::Ip, TABLE).unwrap());
    bed.run("node", "nft 'delete element ip signpost svc { 203.0.113.1 . tcp . 80 }'");
    let damage = forward.foreign(signpost_plan::Family::V4, &monitor.drain().unwrap());
    bed.run("node", "nft 'add element ip signpost svc { 203.0.113.1 . tcp . 80 : drop }'");
    // A held writer says that it is not done.
    forward.hold(true);
    assert!(!forward.repair(&damage).is_complete);
    forward.hold(false);
    settled(&forward.repair(&damage));
    assert_eq!(listed(&bed), list);
}

#[test]
fn edits_of_rules_and_a_flush_are_mended() {
    let bed = Bed::new();
    let mut forward = synced(&bed, OPEN);
    let list = listed(&bed);
    let mut monitor = bed.inside("node", || Monitor::open(Family::Ip, TABLE).unwrap());
    for edit in [
        "nft flush ruleset",
        "nft delete table ip signpost",
        "nft flush table ip signpost",
        "nft flush chain ip signpost prerouting",
        "nft insert rule ip signpost c3 drop",
        "nft add rule ip signpost refuse_forward counter",
        "nft add chain ip signpost c7",
        "nft flush set ip signpost uplinks",
        "nft add element ip signpost pods '{ 10.0.0.0-10.0.0.9 }'",
        "nft 'add table ip signpost { flags dormant; }'",
    ] {
        bed.run("node", edit);
        let damage = forward.foreign(signpost_plan::Family::V4, &monitor.drain().unwrap());
        assert!(!damage.is_none(), "{edit}");
        settled(&forward.repair(&damage));
        let mended = listed(&bed);
        let mut mended = blocks(&mended);
        // A chain of this name picks one of seven, and waits for the next Service of that size.
        mended.retain(|block| !block.contains("chain c7"));
        assert_eq!(mended, blocks(&list), "{edit}");
        assert!(
            forward.foreign(signpost_plan::Family::V4, &monitor.drain().unwrap()).is_none(),
            "{edit}"
        );
        bed.inside("client", || assert!(tcp(VIP).is_ok(), "{edit}"));
    }
}

#[test]
fn an_edit_that_is_not_heard_of_yet_refuses_no_service() {
    let bed = Bed::new();
    let mut forward = synced(&bed, OPEN);
    bed.run("node", "nft flush ruleset");
    let more = cluster("three", "203.0.113.3", &[here(A)]);
    let outcome = forward.apply(vec![(key("three"), Some(more))], &Bed::scope());
    settled(&outcome);
    bed.inside("client", || {
        assert!(tcp(VIP).is_ok());
        assert!(tcp("203.0.113.3:80").is_ok());
    });
}

#[test]
fn endpoints_come_and_go_one_by_one() {
    let bed = Bed::new();
    let mut forward = synced(&bed, Options::default());
    let all = [here(A), here(B), there(R)];
    let mut before: Vec<_> = all.to_vec();
    for subset in [0b011, 0b010, 0b110, 0b111, 0b101, 0b000, 0b100, 0b001, 0b111] {
        let now: Vec<_> = (0..3).filter(|bit| subset & 1 << bit != 0).map(|i| all[i]).collect();
        let table = cluster("one", "203.0.113.1", &now);
        let outcome = forward.apply(vec![(key("one"), Some(table))], &Bed::scope());
        settled(&outcome);
        let mut gone: Vec<_> = outcome.gone.iter().map(|(_, (address, _))| *address).collect();
        gone.sort();
        let mut want: Vec<_> =
            before.iter().filter(|b| !now.contains(b)).map(|b| b.address).collect();
        want.sort();
        assert_eq!(gone, want);
        // Nothing is left over, and nothing is missing.
        let count =
            bed.run("node", "nft list map ip signpost ep | grep -o '203.0.113.1 . tcp' | wc -l");
        assert_eq!(count.trim().parse(), Ok(now.len()));
        before = now;
    }
}

#[test]
fn a_range_of_pods_gives_way_to_others_that_overlap_it() {
    let bed = Bed::new();
    let mut forward = synced(&bed, OPEN);
    for ranges in [
        &["198.19.0.0/24", "198.19.1.0/24"][..],
        &["198.19.0.0/16"],
        &["198.19.0.0/17", "198.19.200.7/32", "198.19.200.8/32"],
        &["198.19.200.8/32", "0.0.0.0/1", "255.255.255.255/32"],
        &["0.0.0.0/0"],
        &[],
        &["198.19.0.0/16"],
    ] {
        let pod_cidrs = ranges.iter().map(|range| range.parse().unwrap()).collect();
        let scope = signpost_plan::Scope { pod_cidrs, ..Bed::scope() };
        settled(&forward.apply(Vec::new(), &scope));
        settled(&forward.read_and_diff());
        let mut again = start(&bed, OPEN);
        let before = generation(&bed);
        settled(&again.sync(tables(), &scope));
        assert_eq!(generation(&bed), before, "{ranges:?}");
    }
}

#[test]
fn a_large_service_has_its_own_chain() {
    let bed = Bed::new();
    let mut forward = synced(&bed, OPEN);
    let many: Vec<_> = (0..=255u8).map(|n| there(&format!("198.19.9.{n}"))).collect();
    settled(
        &forward
            .apply(vec![(key("one"), Some(cluster("one", "203.0.113.1", &many)))], &Bed::scope()),
    );
    assert!(listed(&bed).contains("203.0.113.1 . tcp . 80 : goto c256"));
    // Somebody takes away what the next change would build on.
    let mut other = bed.inside("node", || Session::open().unwrap());
    let gone = Change::FlushSet(Turn::Everybody.verdicts().into());
    other.commit(Family::Ip, TABLE, &[gone]).unwrap();
    settled(&forward.apply(vec![(key("one"), None)], &Bed::scope()));
    assert!(!listed(&bed).contains("203.0.113.1"));
}
