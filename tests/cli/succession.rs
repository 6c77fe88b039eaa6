//! One agent after another.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use signpost_lab::arp::Sniffer;

use crate::bed::{Bed, SOON, VIP, address, member};

#[test]
fn a_takeover_goes_unnoticed() {
    let bed = Bed::new();
    let mut old = bed.owner("node-a", &[]);
    let _other = bed.agent("node-b", &[]);
    bed.until("node-b", "node-a is heard", |s| member(s, "node-a")["state"] == "alive");
    let (rules, generation) = (bed.rules("node-a"), bed.generation("node-a"));
    let done = AtomicBool::new(false);
    let new = std::thread::scope(|s| {
        let asking = s.spawn(|| {
            let mut answers = 0;
            while !done.load(Ordering::Relaxed) {
                bed.status("node-a").expect("somebody answers all the while");
                answers += 1;
            }
            answers
        });
        let new = bed.agent("node-a", &["--takeover"]);
        let ended = bed.wait_until("the old agent ends", SOON, || old.has_ended());
        let owns = |s: &serde_json::Value| address(s, VIP)["verdict"] == "own";
        bed.until("node-a", "the new one owns the address", owns);
        done.store(true, Ordering::Relaxed);
        ended.unwrap();
        assert!(asking.join().unwrap() > 0);
        new
    });
    assert_eq!(bed.rules("node-a"), rules);
    assert_eq!(bed.generation("node-a"), generation, "rules were touched");
    assert_eq!(address(&bed.status("node-b").unwrap(), VIP)["owner"], "node-a");
    // The lock went over as well, and says to whom.
    let lock = bed.directory().join("node-a/agent.sock.lock");
    assert_eq!(std::fs::read_to_string(lock).unwrap(), format!("{}\n", new.pid()));
    assert!(bed.refused("node-a", &[]).contains("another agent"));
    // The table's owner went over: others' edits are still refused, the new agent's are not.
    if bed.status("node-a").unwrap()["rules"]["table_flags"] == "owner,persist" {
        let flush =
            bed.namespace("node-a").unwrap().command("nft", &["delete", "table", "signpost"], "");
        assert!(flush.unwrap_err().to_string().contains("Operation not permitted"));
    }
    bed.serve("api", "192.0.2.101");
    bed.until("node-a", "a new Service", |s| address(s, "192.0.2.101")["acknowledged"] == true);
    new.end(Signal::SIGTERM);
}

#[test]
fn a_takeover_that_would_fail_ends_nobody() {
    let bed = Bed::new();
    let mut agent = bed.owner("node-a", &[]);
    let empty = bed.directory().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let mut args = bed.arguments("node-a");
    args[4] = format!("dir:{}", empty.display());
    args.push("--takeover".into());
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    assert!(bed.signpost("node-a", &args).refusal().contains("no manifests"));
    let mut args = bed.arguments("node-a");
    args[2] = "node-q".into();
    args.push("--takeover".into());
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    assert!(bed.signpost("node-a", &args).refusal().contains("--node is one of"));
    assert!(!agent.has_ended());
    assert_eq!(address(&bed.status("node-a").unwrap(), VIP)["verdict"], "own");
}

#[test]
fn a_restart_in_time_moves_nothing() {
    let bed = Bed::new();
    let old = bed.owner("node-a", &[]);
    let _other = bed.agent("node-b", &[]);
    bed.until("node-b", "node-a owns the address", |s| address(s, VIP)["owner"] == "node-a");
    let mut sniffer = Sniffer::start(&bed.namespace("client").unwrap()).unwrap();
    let generation = bed.generation("node-a");
    old.end(Signal::SIGTERM);
    let status = bed.until("node-b", "node-a is away", |s| member(s, "node-a")["state"] == "away");
    assert_eq!(address(&status, VIP)["owner"], "node-a");
    let _new = bed.owner("node-a", &[]);
    let status = bed.until("node-b", "it is back", |s| member(s, "node-a")["state"] == "alive");
    assert_eq!(address(&status, VIP)["owner"], "node-a");
    let other = bed.node("node-b").unwrap().mac();
    let claims = sniffer.claims(VIP.parse().unwrap());
    assert!(claims.iter().all(|f| f.from.to_string() != other), "{claims:?}");
    // Ownership of the table comes back with one transaction; no rule is written anew.
    assert!(bed.generation("node-a") - generation <= 1);
}

#[test]
fn an_agent_that_stays_away_is_replaced() {
    let bed = Bed::new();
    let old = bed.owner("node-a", &[]);
    let _other = bed.agent("node-b", &[]);
    bed.until("node-b", "node-a owns the address", |s| address(s, VIP)["owner"] == "node-a");
    old.end(Signal::SIGTERM);
    bed.until("node-b", "it takes the address over", |s| address(s, VIP)["verdict"] == "own");
    assert!(bed.rules("node-a").contains(VIP), "the kernel goes on forwarding");
}
