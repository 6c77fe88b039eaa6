//! A reason in one sentence with the names of what it is about, and what to do.

use std::fmt::Display;
use std::net::IpAddr;

use crate::table::won_ports;
use crate::verdict::{advertisements_here, links_for};
use crate::world::{L2Advertisement, Link};
use crate::{Family, Observed, Reason, Verdict, World, verdict};

/// Why an address is not announced here, for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The reason.
    pub reason: Reason,
    /// It in one sentence, with the names of what it is about.
    pub sentence: String,
    /// What to do about it.
    pub cure: String,
}

/// Why an address is withheld here, or `None` if it is not.
pub fn explain(w: &World, o: &Observed, a: IpAddr) -> Option<Explanation> {
    match verdict(w, o, a) {
        Verdict::Own(_) | Verdict::StandBy(_) => None,
        Verdict::Withhold(reason) => {
            let (sentence, cure) = Told { w, o, a }.tell(reason);
            Some(Explanation { reason, sentence, cure })
        }
    }
}

struct Told<'a> {
    w: &'a World,
    o: &'a Observed,
    a: IpAddr,
}

impl Told<'_> {
    fn tell(&self, reason: Reason) -> (String, String) {
        let (a, node, services) = (self.a, self.w.this_node(), self.services());
        match reason {
            Reason::NoService => (
                format!("no Service asks for {a}"),
                "write it into a Service's annotation metallb.io/loadBalancerIPs".into(),
            ),
            Reason::OutsidePools => {
                (format!("{a} lies in no IPAddressPool"), format!("add {a} to an IPAddressPool"))
            }
            Reason::NodeAddress => (
                format!("{a} is the own address of {}", self.bearer()),
                "ask for an address that no machine bears".into(),
            ),
            Reason::ClusterIp => (
                format!("{a} is the ClusterIP of {}", self.insiders()),
                "ask for an address that no Service has as its ClusterIP".into(),
            ),
            Reason::NotAdvertised => (
                format!("no L2Advertisement selects the pool {} of {a}", self.pool()),
                format!("add an L2Advertisement with ipAddressPools [{}]", self.pool()),
            ),
            Reason::NodeNotSelected => (
                format!("the nodeSelectors of {} select other nodes than {node}", self.selecting()),
                format!("nothing, or label {node} as they want it"),
            ),
            Reason::NodeExcluded => (
                format!("{node} bears the label {EXCLUDE}"),
                format!("take that label off the Node {node} (metadata.labels)"),
            ),
            Reason::NetworkUnavailable => (
                format!("the condition NetworkUnavailable of {node} is True"),
                format!("look at the CNI plugin on {node}"),
            ),
            Reason::NoLink => self.no_link(),
            Reason::CarrierDown => {
                let names = self.links(|l| !l.up);
                (
                    format!("{} is down or has no carrier", names.join(" and ")),
                    names
                        .iter()
                        .map(|n| format!("ip link set {n} up, and look at its cable"))
                        .collect::<Vec<_>>()
                        .join("; "),
                )
            }
            Reason::ForwardingDisabled => {
                let family = Family::of(a);
                let names = self.links(|l| l.up && !l.forwards(family));
                let tree = match family {
                    Family::V4 => "ipv4",
                    Family::V6 => "ipv6",
                };
                // sysctl(8) writes a dot in an interface's name as a slash.
                let keys: Vec<_> = names
                    .iter()
                    .map(|n| format!("net.{tree}.conf.{}.forwarding", n.replace('.', "/")))
                    .collect();
                (
                    format!(
                        "{} is 0: what comes in for {a} would not be passed on",
                        keys.join(" and ")
                    ),
                    format!(
                        "{}; the same without `sysctl -w` in a file in /etc/sysctl.d keeps it",
                        keys.iter()
                            .map(|k| format!("sysctl -w {k}=1"))
                            .collect::<Vec<_>>()
                            .join("; ")
                    ),
                )
            }
            Reason::NoEndpoints => (
                format!("no endpoint of {services} serves anywhere"),
                format!(
                    "look at the EndpointSlices of {services} (label kubernetes.io/service-name): one needs the Service's port and an endpoint with conditions.ready true"
                ),
            ),
            Reason::NoLocalEndpoints => (
                format!(
                    "externalTrafficPolicy is Local, and no endpoint of {services} serves on {node}"
                ),
                "nothing: nodes with an endpoint announce it".into(),
            ),
            Reason::OnlyTerminatingHere => (
                format!(
                    "externalTrafficPolicy is Local, the endpoints of {services} on {node} are terminating, and others are ready"
                ),
                "nothing: nodes with a ready endpoint announce it".into(),
            ),
            Reason::RulesRefused => (
                format!("the kernel refused the rules of {}", self.refused()),
                "see the agent's log for the rule".into(),
            ),
            Reason::RulesDamaged => (
                format!("somebody edited the rules of {a}, and the repair is not acknowledged yet"),
                "find out by `nft monitor` who edits Signpost's table".into(),
            ),
            Reason::RulesNotAcknowledged => (
                format!("the kernel has not acknowledged the rules of {services} yet"),
                "wait a moment; if it stays so, see the agent's log".into(),
            ),
            Reason::ControlHung => (
                "the agent's control loop hung, and its wire side withdrew".into(),
                "see the agent's log, and restart the agent".into(),
            ),
            Reason::CutOff => (
                format!("{node} hears neither a member nor the gateway"),
                "look at the cable, and whether the mesh's UDP port is open".into(),
            ),
            Reason::Undecided => (
                format!("the members have not agreed on an owner of {a} yet"),
                "wait a second".into(),
            ),
        }
    }

    fn services(&self) -> String {
        let won = self
            .w
            .services_of_address(self.a)
            .filter(|s| won_ports(self.w, s, self.a).next().is_some());
        join(won.map(|s| &s.key))
    }

    fn refused(&self) -> String {
        let refused = self.w.services_of_address(self.a).filter_map(|s| {
            self.o
                .refused
                .get(&s.key)
                .map(|errno| format!("{}: {}", s.key, std::io::Error::from_raw_os_error(*errno)))
        });
        join(refused)
    }

    fn pool(&self) -> &str {
        self.w.pool_of(self.a).map_or("", |p| &p.name)
    }

    fn insiders(&self) -> String {
        join(self.w.services_of_cluster_ip(self.a).map(|s| &s.key))
    }

    fn bearer(&self) -> String {
        join(self.w.nodes().filter(|n| n.internal_ips.contains(&self.a)).map(|n| &n.name))
    }

    fn selecting(&self) -> String {
        let Some(pool) = self.w.pool_of(self.a) else { return String::new() };
        join(self.w.advertisements().filter(|ad| ad.selects_pool(pool)).map(|ad| &ad.name))
    }

    fn here(&self) -> Vec<&L2Advertisement> {
        advertisements_here(self.w, self.a)
    }

    /// The names of the interfaces to announce it on that fail a test.
    fn links(&self, fails: impl Fn(&Link) -> bool) -> Vec<&str> {
        let links = links_for(self.w, &self.here(), self.a);
        let of = links.iter().filter_map(|index| self.w.host().links.get(index));
        of.filter(|l| fails(l)).map(|l| &*l.name).collect()
    }

    fn no_link(&self) -> (String, String) {
        let named: Vec<_> = self.here().iter().flat_map(|ad| &ad.interfaces).collect();
        if named.is_empty() {
            (
                format!(
                    "no Ethernet interface here has a subnet with {} or a default route",
                    self.a
                ),
                "name an interface in the L2Advertisement's interfaces".into(),
            )
        } else {
            (
                format!("there is no Ethernet interface {} here", join(named)),
                "correct the L2Advertisement's interfaces".into(),
            )
        }
    }
}

const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

fn join<T: Display>(all: impl IntoIterator<Item = T>) -> String {
    all.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join(", ")
}
