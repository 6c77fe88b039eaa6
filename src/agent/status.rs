//! What `signpost status` prints, as JSON.

use std::net::IpAddr;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use signpost_forward::Forward;
use signpost_plan::world::Forwarding;
use signpost_plan::{Asked, Lease, Reason, Verdict, diagnostics, explain, unserved};
use signpost_report::Diagnostic;
use signpost_speaker::MemberState;

use super::state::{NEWS, State, mac_text};

/// The whole report as one line. Ten thousand addresses are written one after the other: as one tree
/// they would take more memory than everything else.
pub(crate) fn report(s: &State, forward: &Forward) -> String {
    let found = diagnostics(&s.world);
    let report = Report {
        node: s.node.to_string(),
        version: env!("CARGO_PKG_VERSION"),
        drained: s.observed.drained,
        members: members(s),
        addresses: Each(|| s.verdicts.keys().map(|a| address(s, *a))),
        rules: json!({
            "forward": match s.world.forwarding() {
                Forwarding::Vip => "vip",
                Forwarding::All => "all",
            },
            "services": s.observed.acknowledged.len(),
            "frontends": frontends(s),
            "refused": refused(s),
            "changes": s.changes.count,
            "first_change_us": s.changes.first.as_micros(),
            "last_change_us": s.changes.last.as_micros(),
            "table_flags": if forward.is_owner() { "owner,persist" } else { "" },
            "in_flight": s.in_flight.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }),
        notices: notices(s),
        diagnostics: Each(|| s.source.iter().chain(&found).map(diagnostic)),
    };
    serde_json::to_string(&report).expect("maps have string keys, and no writer can fail")
}

/// How many places are served, by kind.
fn frontends(s: &State) -> Value {
    let (mut vips, mut cluster_ips, mut node_ports) = (0, 0, 0);
    for entry in s.observed.acknowledged.values().flat_map(|t| &t.entries) {
        match entry.frontend.asked {
            Asked::Vip(_) => vips += 1,
            Asked::ClusterIp(_) => cluster_ips += 1,
            Asked::NodePort(_) => node_ports += 1,
        }
    }
    json!({ "vip": vips, "cluster_ip": cluster_ips, "node_port": node_ports })
}

/// What an address that is ours cannot do from here.
fn degraded(s: &State, a: IpAddr) -> Option<String> {
    let lost = unserved(&s.world, a);
    let lost: Vec<_> = lost.iter().map(ToString::to_string).collect();
    (!lost.is_empty()).then(|| {
        format!(
            "degraded: {}: externalTrafficPolicy is Local, and their endpoints are on other nodes",
            lost.join(", ")
        )
    })
}

#[derive(Serialize)]
struct Report<A, D> {
    node: String,
    version: &'static str,
    drained: bool,
    members: Vec<Value>,
    addresses: A,
    rules: Value,
    notices: Vec<String>,
    diagnostics: D,
}

/// A list that is made while it is written.
struct Each<F>(F);

impl<I: Iterator<Item = Value>, F: Fn() -> I> Serialize for Each<F> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq((self.0)())
    }
}

fn address(s: &State, a: IpAddr) -> Value {
    let (verdict, since) = &s.verdicts[&a];
    let mut tables =
        s.world.services_of_address(a).filter_map(|v| s.observed.acknowledged.get(&v.key));
    let acknowledged = tables.any(|t| t.entries.iter().any(|e| e.frontend.vip() == Some(a)));
    // What the wire decided on its own concerns every address that is offered.
    let on_its_own = match (s.observed.lease, s.observed.cut_off) {
        (Lease::Lapsed, _) => Some(Verdict::Withhold(Reason::ControlHung)),
        (Lease::Held, true) => Some(Verdict::Withhold(Reason::CutOff)),
        (Lease::Held, false) => None,
    };
    let verdict = match verdict {
        Verdict::Own(_) | Verdict::StandBy(_) => on_its_own.as_ref().unwrap_or(verdict),
        Verdict::Withhold(_) => verdict,
    };
    let (word, reason, detail) = match verdict {
        Verdict::Own(_) => ("own", None, degraded(s, a)),
        Verdict::StandBy(_) => ("standby", None, None),
        Verdict::Withhold(r) => {
            let why = explain(&s.world, &s.observed, a);
            let sentence = why.map(|w| format!("{}; {}", w.sentence, w.cure));
            ("withhold", Some(r.name()), Some(sentence.unwrap_or_else(|| r.to_string())))
        }
    };
    let conflict = s.conflicts.get(&a).filter(|(_, at)| at.elapsed() < NEWS);
    let detail = match conflict {
        Some((mac, _)) => Some(format!("a stranger ({}) answers for it too", mac_text(*mac))),
        None => detail,
    };
    json!({
        "address": a.to_string(),
        "services": s.world.services_of_address(a).map(|s| s.key.to_string()).collect::<Vec<_>>(),
        "owner": s.observed.owners.get(&a).map(ToString::to_string),
        "verdict": word,
        "reason": reason,
        "detail": detail,
        "acknowledged": acknowledged,
        // Milliseconds: nobody compares clocks more closely.
        "since": format!("{since:.3}"),
    })
}

fn members(s: &State) -> Vec<Value> {
    let peers = super::host::peers(&s.world, &s.node);
    peers
        .iter()
        .map(|(name, ip)| {
            let state = s.members.get(name).copied().unwrap_or(MemberState::NeverHeard);
            let word = match state {
                MemberState::NeverHeard => "never-heard",
                MemberState::Alive => "alive",
                MemberState::Suspect => "suspect",
                MemberState::Away => "away",
                MemberState::Dead => "dead",
            };
            let detail = match state {
                // A member counts as heard when its datagrams answer ours.
                MemberState::NeverHeard | MemberState::Dead => Some(format!(
                    "no datagram from {name}, or none that answers ours: does its agent run, is \
                     udp/{} open here and there?",
                    s.mesh_port
                )),
                MemberState::Alive | MemberState::Suspect | MemberState::Away => None,
            };
            json!({
                "name": name.to_string(),
                "state": word,
                "address": ip.to_string(),
                "detail": detail,
            })
        })
        .collect()
}

fn refused(s: &State) -> Vec<Value> {
    let words = |errno: i32| std::io::Error::from_raw_os_error(errno).to_string();
    s.observed
        .refused
        .iter()
        .map(|(k, errno)| json!({ "service": k.to_string(), "error": words(*errno) }))
        .collect()
}

/// What concerns the whole node.
fn notices(s: &State) -> Vec<String> {
    let mut all = Vec::new();
    if s.observed.cut_off {
        all.push(
            "neither a member nor the gateway answers: this node answers for nothing until one \
             does"
                .into(),
        );
    }
    if let Some(e) = &s.trouble {
        all.push(format!("the rules cannot be written: {e}"));
    }
    for (ip, _) in s.wrong_keys.iter().filter(|(_, at)| at.elapsed() < NEWS) {
        all.push(format!(
            "datagrams from {ip} are signed with another key: compare its --mesh-key file with \
             this node's"
        ));
    }
    all
}

fn diagnostic(d: &Diagnostic) -> Value {
    json!({
        "file": d.span.as_ref().map(|s| s.file.clone()),
        "line": d.span.as_ref().map(|s| s.line),
        "column": d.span.as_ref().map(|s| s.column),
        "severity": format!("{:?}", d.severity).to_lowercase(),
        "object": d.object,
        "message": d.message,
        "cure": d.cure,
        "text": d.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use signpost_forward::Outcome;
    use signpost_plan::world::Touched;
    use signpost_plan::{ServiceKey, table};

    use super::*;

    const YAML: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a}}
- {apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: first}, spec: {addresses: [192.0.2.100/32]}}
- {apiVersion: v1, kind: Service, metadata: {name: web, namespace: demo, annotations: {metallb.io/loadBalancerIPs: 192.0.2.100}},
   spec: {type: LoadBalancer, ports: [{port: 80}]}}
"#;

    /// A state that has seen the objects and its first turn.
    fn settled() -> State {
        let mut s = State::new("a".into(), 7948);
        let objects = signpost_api::parse("web.yaml", YAML).objects;
        s.changes(objects.into_iter().map(signpost_api::Object::into_change).collect());
        s.complete = true;
        s.gates(&Touched { all: true, ..Touched::default() });
        s
    }

    #[test]
    fn times_are_told_to_the_millisecond() {
        let mut s = settled();
        let a: IpAddr = "192.0.2.100".parse().unwrap();
        for (nanosecond, text) in [(743_677_444, "00.743Z"), (0, "00.000Z")] {
            let at = jiff::Timestamp::new(0, nanosecond).unwrap();
            s.verdicts.get_mut(&a).unwrap().1 = at;
            assert_eq!(address(&s, a)["since"], format!("1970-01-01T00:00:{text}"));
        }
    }

    #[test]
    fn rules_are_acknowledged_when_the_kernel_has_said_so() {
        let mut s = settled();
        let web = ServiceKey { namespace: "demo".into(), name: "web".into() };
        let rules = table(&s.world, &web, &s.node);
        assert!(rules.is_some());
        let says = |s: &State| address(s, "192.0.2.100".parse().unwrap())["acknowledged"].clone();
        assert_eq!(says(&s), false);
        s.outcome(Outcome { in_flight: vec![web.clone()], ..Outcome::default() });
        assert_eq!(says(&s), false);
        s.outcome(Outcome { refused: vec![(web.clone(), 12)], ..Outcome::default() });
        assert_eq!(says(&s), false);
        s.outcome(Outcome { acknowledged: vec![(web.clone(), rules)], ..Outcome::default() });
        assert_eq!(says(&s), true);
        s.outcome(Outcome { acknowledged: vec![(web, None)], ..Outcome::default() });
        assert_eq!(says(&s), false);
    }
}
