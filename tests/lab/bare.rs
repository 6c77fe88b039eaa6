//! Labs without agents: what they build, and whether their probes tell the truth.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signpost_lab::arp::{Sniffer, who_has};
use signpost_lab::probe::{Cause, Outcome, Pool, Stream, Target, Verdict, run, summary};
use signpost_lab::topology::mac;
use signpost_lab::{Added, Fault, Lab, LabName, Options, Scoped, Topology, down};

use crate::{bare_lab, fresh_name, program};

const PATIENCE: Duration = Duration::from_millis(1500);

/// Namespaces, the directory and processes of a lab.
fn left_of(name: &LabName) -> Vec<String> {
    let mut left = Vec::new();
    for entry in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        if file.starts_with(&name.prefix()) {
            left.push(file);
        }
    }
    if name.directory().exists() {
        left.push(name.directory().display().to_string());
    }
    left
}

/// The network namespaces of a lab.
fn inodes(lab: &Lab) -> BTreeSet<u64> {
    let members = lab.topology().members();
    members.into_iter().map(|m| lab.namespace(m).unwrap().inode().unwrap()).collect()
}

/// The processes in these namespaces.
fn inside(inodes: &BTreeSet<u64>) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let ours = entries.filter(|entry| {
        let ns = std::fs::metadata(entry.path().join("ns/net"));
        ns.is_ok_and(|m| inodes.contains(&m.ino()))
    });
    ours.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

pub(crate) fn down_leaves_nothing_also_after_a_crash() {
    let (kept, lost) = (bare_lab(), bare_lab());
    let (kept_name, lost_name) = (kept.name(), lost.name());
    let (kept_inodes, lost_inodes) = (inodes(&kept), inodes(&lost));
    assert_eq!(inside(&kept_inodes).len(), 6, "a server a pod");
    let servers = inside(&lost_inodes);
    assert_eq!(servers.len(), 6, "two labs run at once");
    // As after a crash: the state is gone, and a process neither runs nor ends.
    std::fs::remove_file(lost.directory().join("state.json")).unwrap();
    kill(Pid::from_raw(servers[0]), Signal::SIGSTOP).unwrap();
    assert!(Lab::attach(&lost_name).is_err());
    std::mem::forget(lost);
    assert!(down(&lost_name).unwrap(), "there was something to end");
    assert_eq!(left_of(&lost_name), Vec::<String>::new());
    assert_eq!(inside(&lost_inodes), Vec::<i32>::new());
    assert_eq!(inside(&kept_inodes).len(), 6, "the other lab's pods still run");
    assert!(!down(&lost_name).unwrap(), "nothing was left");
    drop(kept);
    assert_eq!(left_of(&kept_name), Vec::<String>::new());
    assert_eq!(inside(&kept_inodes), Vec::<i32>::new());
}

pub(crate) fn pods_come_and_go() {
    let lab = bare_lab();
    let name = "demo.web-5d9c6b7f8d-x2x4z";
    let pod = |name, address: [u8; 4]| Added {
        name,
        node: "node-a",
        address: address.into(),
        ports: &[8080, 9090],
        says: "web",
    };
    for _ in 0..2 {
        lab.add_pod(&pod(name, [198, 19, 1, 16])).unwrap();
        let to = ["198.19.1.16:9090/tcp", "198.19.1.16:8080/udp"].map(|t| t.parse().unwrap());
        let seen = run(&lab.namespace("b1").unwrap(), &to, PATIENCE).unwrap();
        let answer = Outcome::Answered { pod: "web".into(), seen: [198, 19, 2, 5].into() };
        assert_eq!(seen, [answer.clone(), answer]);
        lab.namespace(name).unwrap();
        lab.remove_pod(name).unwrap();
        assert_eq!(lab.added_pods(), Vec::<String>::new());
    }
    for (bad, why) in [
        (pod("a1", [198, 19, 1, 17]), "already"),
        (pod("a/b", [198, 19, 1, 17]), "a-z"),
        (pod("x", [198, 19, 2, 17]), "no pod's address"),
        (pod("x", [198, 19, 1, 1]), "no pod's address"),
        // The address of a1: the kernel refuses the second route.
        (pod("x", [198, 19, 1, 5]), "File exists"),
    ] {
        let said = lab.add_pod(&bad).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
        assert_eq!(lab.added_pods(), Vec::<String>::new());
    }
    assert!(lab.remove_pod("a1").unwrap_err().to_string().contains("no added pod a1"));
}

pub(crate) fn a_failed_up_leaves_nothing() {
    let name = fresh_name();
    let options = Options { program: "/nonexistent".into(), agents: false, agent_args: vec![] };
    let said = Lab::up(&name, Topology::default(), options).unwrap_err().to_string();
    assert!(said.contains("/nonexistent"), "{said}");
    assert_eq!(left_of(&name), Vec::<String>::new());

    let lab = bare_lab();
    let options = Options { program: program(), agents: false, agent_args: vec![] };
    let said = Lab::up(&lab.name(), Topology::default(), options).unwrap_err().to_string();
    assert!(said.contains("up already"), "{said}");
    assert!(!left_of(&lab.name()).is_empty(), "the refused one does not end the other");
}

fn outcomes(lab: &Lab, from: &str, to: &str) -> Vec<Outcome> {
    let target: Target = to.parse().unwrap();
    run(&lab.namespace(from).unwrap(), &[target; 6], PATIENCE).unwrap()
}

pub(crate) fn probes_tell_outcomes_apart() {
    let lab = bare_lab();
    let check = |from: &str, to: &str, verdict: Verdict, cause: Option<Cause>, seen: &str| {
        let s = summary(&outcomes(&lab, from, to));
        assert_eq!(s.verdict, verdict, "{from} -> {to}: {s:?}");
        assert_eq!(s.causes.into_iter().next(), cause, "{from} -> {to}");
        let seen: Vec<Ipv4Addr> = seen.parse().into_iter().collect();
        assert_eq!(s.seen.into_iter().collect::<Vec<_>>(), seen, "{from} -> {to}");
    };
    let pod = Ipv4Addr::new(198, 19, 2, 5);
    let router = Ipv4Addr::new(198, 51, 100, 1);
    for protocol in ["tcp", "udp"] {
        let to = format!("198.19.2.5:8080/{protocol}");
        check("client", &to, Verdict::Ok, None, "192.0.2.200");
        check("remote", &to, Verdict::Ok, None, "198.51.100.77");
        check("node-a", &to, Verdict::Ok, None, "192.0.2.11");
        check("a1", &to, Verdict::Ok, None, "198.19.1.5");
        check("b1", &to, Verdict::Ok, None, "198.19.2.5");
    }
    check("remote", "198.19.2.5/icmp", Verdict::Ok, None, "");
    check("remote", "198.19.2.5:81/tcp", Verdict::Refused, Some(Cause::Reset), "");
    check("remote", "198.19.2.5:81/udp", Verdict::Refused, Some(Cause::Icmp(pod)), "");
    check("client", "192.0.2.99:80/tcp", Verdict::Timeout, None, "");
    let rules = "table ip t {
        chain f { type filter hook forward priority 0
            ip daddr 203.0.113.0/24 reject with icmp type host-unreachable
        }
    }";
    lab.namespace("router").unwrap().command("nft", &["-f", "-"], rules).unwrap();
    lab.namespace("router").unwrap().ip("route add 203.0.113.0/24 via 192.0.2.11\n").unwrap();
    check("remote", "203.0.113.1:80/tcp", Verdict::Unreachable, Some(Cause::Icmp(router)), "");
    check("remote", "203.0.113.1:80/udp", Verdict::Unreachable, Some(Cause::Icmp(router)), "");

    // A packet that goes round: the router sends it to a node, and that one back.
    lab.namespace("router").unwrap().ip("route add 203.0.112.0/24 via 192.0.2.11\n").unwrap();
    let last = Some(Cause::Expired(Ipv4Addr::new(192, 0, 2, 11)));
    check("remote", "203.0.112.1:80/tcp", Verdict::Unreachable, last, "");
    check("remote", "203.0.112.1:80/udp", Verdict::Unreachable, last, "");

    // A node's rules: dropped, rejected on the way, denied to its own processes.
    let rules = "table ip t {
        chain f { type filter hook forward priority 0
            tcp dport 8080 drop
            udp dport 8080 reject
        }
        chain o { type filter hook output priority 0
            udp dport 8080 drop
            udp dport 8081 reject
        }
    }";
    lab.namespace("node-b").unwrap().command("nft", &["-f", "-"], rules).unwrap();
    let node = Ipv4Addr::new(192, 0, 2, 12);
    check("client", "198.19.2.5:8080/tcp", Verdict::Timeout, None, "");
    check("client", "198.19.2.5:8080/udp", Verdict::Refused, Some(Cause::Icmp(node)), "");
    check("node-b", "198.19.2.5:8080/udp", Verdict::Refused, Some(Cause::Local), "");
    // The ICMP error comes from the address that the denied packet had.
    let denied = Some(Cause::Denied(Ipv4Addr::new(198, 19, 2, 1)));
    check("node-b", "198.19.2.5:8081/udp", Verdict::Refused, denied, "");
}

pub(crate) fn streams_count_what_is_lost() {
    let mut lab = bare_lab();
    let client = lab.namespace("client").unwrap();
    let pod = Ipv4Addr::new(198, 19, 1, 5);
    let (ms, second) = (Duration::from_millis(1), Duration::from_secs(1));
    let mut pool = Pool::open(&client, pod, 8080, 5, second).unwrap();
    let whole = Stream::udp(&client, pod, 8080, ms).unwrap();
    let fresh = Stream::tcp(&client, pod, 8080, 5 * ms).unwrap();
    assert!(pool.fates(second).iter().all(|f| *f == signpost_lab::probe::Fate::Alive));
    let (udp, tcp) = (whole.stop().unwrap(), fresh.stop().unwrap());
    assert_eq!((udp.lost, tcp.lost, udp.outage_ms), (0, 0, 0.0));
    assert!(udp.sent > 0 && tcp.sent > 0 && udp.pods.contains_key("a1"));

    let cut = Stream::udp(&client, pod, 8080, ms).unwrap();
    lab.fault(Fault::Link, "node-a").unwrap();
    // Long enough for probes to be sent: another round trip elsewhere.
    assert_eq!(summary(&outcomes(&lab, "client", "198.19.1.5:8080/udp")).verdict, Verdict::Timeout);
    lab.mend(Fault::Link, "node-a").unwrap();
    lab.wait_until("the pod answers again", Duration::from_secs(5), || {
        summary(&outcomes(&lab, "client", "198.19.1.5:8080/udp")).verdict == Verdict::Ok
    })
    .unwrap();
    let report = cut.stop().unwrap();
    assert!(report.lost > 0 && report.lost < report.sent, "{report:?}");
    assert!(report.outage_ms >= 1000.0, "the link was away for the probe's patience: {report:?}");

    lab.stop_pod("a1").unwrap();
    assert!(pool.fates(second).iter().all(|f| *f == signpost_lab::probe::Fate::Reset));
}

pub(crate) fn arp_is_heard_and_asked() {
    let lab: Scoped = bare_lab();
    let client = lab.namespace("client").unwrap();
    let (own, vip) = (Ipv4Addr::new(192, 0, 2, 200), Ipv4Addr::new(192, 0, 2, 100));
    let ask = || who_has(&client, own, vip, Duration::from_millis(100)).unwrap();
    let mut sniffer = Sniffer::start(&client).unwrap();
    assert_eq!(ask(), vec![]);
    for node in ["node-a", "node-b"] {
        lab.namespace(node).unwrap().ip(&format!("addr add {vip}/32 dev eth0\n")).unwrap();
    }
    let mut owners: Vec<String> = ask().iter().map(ToString::to_string).collect();
    owners.sort();
    let expected = [mac(Ipv4Addr::new(192, 0, 2, 11)), mac(Ipv4Addr::new(192, 0, 2, 12))];
    assert_eq!(owners, expected, "both claim it, and both are found");
    let heard = |sniffer: &mut Sniffer| sniffer.claims(vip).len() == 2;
    lab.wait_until("both replies are heard", Duration::from_secs(5), || heard(&mut sniffer))
        .unwrap();
}
