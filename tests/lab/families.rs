//! Labs with both families, without agents: IPv6 is as IPv4 is.

use std::net::IpAddr;
use std::time::Duration;

use signpost_lab::ndp::{Sniffer, who_has};
use signpost_lab::probe::{Cause, Outcome, Summary, Target, Verdict, run, summary};
use signpost_lab::{Added, Lab};

use crate::dual_lab;

const PATIENCE: Duration = Duration::from_millis(1500);
const SOON: Duration = Duration::from_secs(5);

fn probed(lab: &Lab, from: &str, to: &str) -> Summary {
    let target: Target = to.parse().unwrap();
    summary(&run(&lab.namespace(from).unwrap(), &[target; 6], PATIENCE).unwrap())
}

fn check(lab: &Lab, from: &str, to: &str, verdict: Verdict, cause: Option<Cause>) {
    let s = probed(lab, from, to);
    assert_eq!(s.verdict, verdict, "{from} -> {to}: {s:?}");
    assert_eq!(s.causes.into_iter().next(), cause, "{from} -> {to}");
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn rules(lab: &Lab, member: &str, text: &str) {
    lab.namespace(member).unwrap().command("nft", &["-f", "-"], text).unwrap();
}

pub(crate) fn ipv6_outcomes_are_told_apart() {
    let lab = dual_lab(None);
    for to in ["[2001:db8:19:2::5]:8080/tcp", "[2001:db8:19:2::5]:8080/udp", "198.19.2.5:8080/tcp"]
    {
        for (from, v4, v6) in [
            ("client", "192.0.2.200", "2001:db8:2::200"),
            ("remote", "198.51.100.77", "2001:db8:100::77"),
            ("node-a", "192.0.2.11", "2001:db8:2::11"),
            ("a1", "198.19.1.5", "2001:db8:19:1::5"),
            ("b2", "198.19.2.6", "2001:db8:19:2::6"),
        ] {
            let s = probed(&lab, from, to);
            let own = address(if to.starts_with('[') { v6 } else { v4 });
            assert_eq!((s.verdict, s.seen), (Verdict::Ok, [own].into()), "{from} -> {to}");
            assert_eq!(s.pods.keys().collect::<Vec<_>>(), ["b1"], "{from} -> {to}");
        }
    }
    let pod = address("2001:db8:19:2::5");
    check(&lab, "remote", "2001:db8:19:2::5/icmp", Verdict::Ok, None);
    check(&lab, "remote", "[2001:db8:19:2::5]:81/tcp", Verdict::Refused, Some(Cause::Reset));
    check(&lab, "remote", "[2001:db8:19:2::5]:81/udp", Verdict::Refused, Some(Cause::Icmp(pod)));

    // A packet that goes round, and one that is told that there is no way.
    let router = address("2001:db8:100::1");
    lab.namespace("router")
        .unwrap()
        .ip("route add 2001:db8:9::/64 via 2001:db8:2::11\nroute add unreachable 2001:db8:8::/64\n")
        .unwrap();
    let last = Some(Cause::Expired(address("2001:db8:2::11")));
    check(&lab, "remote", "[2001:db8:9::1]:80/tcp", Verdict::Unreachable, last);
    check(&lab, "remote", "[2001:db8:9::1]:80/udp", Verdict::Unreachable, last);
    let told = Some(Cause::Icmp(router));
    check(&lab, "remote", "[2001:db8:8::1]:80/udp", Verdict::Unreachable, told);

    // A node's rules: dropped, rejected on the way, denied to its own processes.
    rules(
        &lab,
        "node-b",
        "table ip6 t {
            chain f { type filter hook forward priority 0
                tcp dport 8080 drop
                udp dport 8080 reject
            }
            chain o { type filter hook output priority 0
                udp dport 8080 drop
            }
        }",
    );
    let node = address("2001:db8:2::12");
    let to = "[2001:db8:19:2::5]:8080";
    check(&lab, "client", &format!("{to}/tcp"), Verdict::Timeout, None);
    check(&lab, "client", &format!("{to}/udp"), Verdict::Refused, Some(Cause::Icmp(node)));
    check(&lab, "node-b", &format!("{to}/udp"), Verdict::Refused, Some(Cause::Local));
}

pub(crate) fn sctp_finds_who_listens() {
    let lab = dual_lab(None);
    for (to, own) in [
        ("198.19.2.5:8080/sctp", "192.0.2.200"),
        ("[2001:db8:19:2::5]:8080/sctp", "2001:db8:2::200"),
    ] {
        let s = probed(&lab, "client", to);
        assert_eq!((s.verdict, s.seen), (Verdict::Ok, [address(own)].into()), "{to}");
        assert_eq!(s.pods["b1"], 6, "{to}");
        check(&lab, "client", &to.replace("8080", "81"), Verdict::Timeout, None);
    }
    // Through a translation, which mends the checksum.
    rules(
        &lab,
        "node-a",
        "table inet t {
            chain d { type nat hook prerouting priority dstnat
                ip daddr 192.0.2.11 sctp dport 80 dnat ip to 198.19.1.5:8080
                ip6 daddr 2001:db8:2::11 sctp dport 80 dnat ip6 to [2001:db8:19:1::5]:8080
            }
            chain i { type filter hook input priority 0
                sctp dport 82 reject
            }
        }",
    );
    for (to, node) in [("192.0.2.11", "192.0.2.11"), ("[2001:db8:2::11]", "2001:db8:2::11")] {
        assert_eq!(probed(&lab, "client", &format!("{to}:80/sctp")).pods["a1"], 6, "{to}");
        let refused = Some(Cause::Icmp(address(node)));
        check(&lab, "client", &format!("{to}:82/sctp"), Verdict::Refused, refused);
    }
}

pub(crate) fn ndp_is_heard_and_asked() {
    let lab = dual_lab(None);
    let client = lab.namespace("client").unwrap();
    let own = lab.topology().clients[0].ipv6.unwrap();
    let vip = "2001:db8:2::100".parse().unwrap();
    let ask = || who_has(&client, own, vip, Duration::from_millis(100)).unwrap();
    let mut sniffer = Sniffer::start(&client).unwrap();
    assert_eq!(ask(), vec![]);
    for node in ["node-a", "node-b"] {
        let line = format!("addr add {vip}/128 dev eth0 nodad\n");
        lab.namespace(node).unwrap().ip(&line).unwrap();
    }
    let nodes = &lab.topology().nodes;
    // The kernel joins an address's group some time after it has the address.
    lab.wait_until("both claim it, and both are found", SOON, || {
        let mut owners: Vec<String> = ask().iter().map(ToString::to_string).collect();
        owners.sort();
        owners == [nodes[0].mac(), nodes[1].mac()]
    })
    .unwrap();
    let heard = sniffer.claims(vip);
    for node in &nodes[..2] {
        assert!(heard.iter().any(|f| f.from.to_string() == node.mac()), "{heard:?}");
    }
    assert!(heard.iter().all(|f| f.from.to_string() != nodes[2].mac()), "{heard:?}");
}

pub(crate) fn a_second_pod_has_both_families() {
    let lab = dual_lab(None);
    let pod = |ipv6: &str| Added {
        name: "web-1",
        node: "node-a",
        address: [198, 19, 1, 16].into(),
        ipv6: ipv6.parse().ok(),
        ports: &[9090],
        says: "web",
    };
    lab.add_pod(&pod("2001:db8:19:1::16")).unwrap();
    let to: Target = "[2001:db8:19:1::16]:9090/tcp".parse().unwrap();
    let seen = run(&lab.namespace("b1").unwrap(), &[to], PATIENCE).unwrap();
    assert_eq!(seen, [Outcome::Answered { pod: "web".into(), seen: address("2001:db8:19:2::5") }]);
    lab.remove_pod("web-1").unwrap();
    let said = lab.add_pod(&pod("2001:db8:19:2::16")).unwrap_err().to_string();
    assert!(said.contains("no pod's address in 2001:db8:19:1::/64"), "{said}");
}
