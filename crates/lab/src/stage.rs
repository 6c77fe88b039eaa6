//! One Service with endpoints on two nodes, watched by a client: what the demo and the benches
//! play on.

use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};

use crate::arp::{Sniffer, who_has};
use crate::manifest::{Policy, Service, State};
use crate::probe::{Report, Stream};
use crate::{Error, Lab};

/// The address of the Service.
pub(crate) const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 100);

/// Whatever the agents do, they do it within this.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// What answers ARP answers at once.
const ARP: Duration = Duration::from_millis(20);

/// How long the probes run before and after something happens.
const AROUND: Duration = Duration::from_millis(300);

/// One datagram a millisecond, and 200 new connections a second.
const UDP_EVERY: Duration = Duration::from_millis(1);
const TCP_EVERY: Duration = Duration::from_millis(5);

/// The client that all acts look from.
pub(crate) const CLIENT: &str = "client";

/// The act's Service, with these endpoints.
pub(crate) fn web(endpoints: &[&'static str]) -> Service<'static> {
    let endpoints = endpoints.iter().map(|pod| (*pod, State::Ready)).collect();
    Service::balanced("web", VIP, Policy::Local, endpoints)
}

pub(crate) fn publish(lab: &Lab, endpoints: &[&'static str]) -> Result<(), Error> {
    let service = web(endpoints);
    lab.write_manifest(&service.file(), &service.yaml(lab.topology()))
}

/// Who answers the client's ARP for the address now.
pub(crate) fn owners(lab: &Lab) -> Result<Vec<String>, Error> {
    let own = lab.topology().clients[0].address;
    let macs = who_has(&lab.namespace(CLIENT)?, own, VIP, ARP)?;
    let nodes = lab.topology().nodes.iter();
    let answering = nodes.filter(|n| macs.iter().any(|m| m.to_string() == n.mac()));
    Ok(answering.map(|n| n.name.clone()).collect())
}

/// Waits until exactly one node answers, and it is as wished.
pub(crate) fn one_owner(lab: &Lab, wished: impl Fn(&str) -> bool) -> Result<String, Error> {
    let mut found = None;
    lab.wait_until(&format!("one node answers for {VIP}"), SOON, || {
        found = match owners(lab).as_deref() {
            Ok([one]) if wished(one) => Some(one.clone()),
            Ok(_) | Err(_) => None,
        };
        found.is_some()
    })?;
    Ok(found.expect("it was awaited"))
}

/// Waits until the members hear each other, one owns the address, and another could.
pub(crate) fn settled(lab: &Lab) -> Result<String, Error> {
    lab.wait_until(&format!("the members agree about {VIP}"), SOON, || {
        let mut verdicts: Vec<String> = Vec::new();
        for node in &lab.topology().nodes {
            let Ok(status) = lab.status(&node.name) else { return false };
            let list = |key: &str| status[key].as_array().cloned().unwrap_or_default();
            if list("members").iter().any(|m| m["state"] != "alive") {
                return false;
            }
            let ours = list("addresses").into_iter().find(|a| a["address"] == VIP.to_string());
            verdicts.extend(ours.and_then(|a| Some(a["verdict"].as_str()?.to_owned())));
        }
        let count = |word| verdicts.iter().filter(|v| *v == word).count();
        (count("own"), count("standby")) == (1, 1)
    })?;
    one_owner(lab, |_| true)
}

/// Probes that run while something happens, with a sniffer beside them.
pub(crate) struct Watch {
    udp: Stream,
    tcp: Stream,
    sniffer: Sniffer,
    begun: SystemTime,
}

impl Watch {
    /// Starts, and waits until the probes run.
    pub(crate) fn start(lab: &Lab) -> Result<Self, Error> {
        let ns = lab.namespace(CLIENT)?;
        let watch = Self {
            udp: Stream::udp(&ns, VIP, 80, UDP_EVERY)?,
            tcp: Stream::tcp(&ns, VIP, 80, TCP_EVERY)?,
            sniffer: Sniffer::start(&ns)?,
            begun: SystemTime::now(),
        };
        std::thread::sleep(AROUND);
        Ok(Self { begun: SystemTime::now(), ..watch })
    }

    /// Waits until another node claims the address, and says who it is and when it did.
    pub(crate) fn other_claims(
        &mut self,
        lab: &Lab,
        old: &str,
    ) -> Result<(String, Duration), Error> {
        let old = lab.node(old)?.mac();
        let mut found = None;
        lab.wait_until(&format!("another node claims {VIP}"), SOON, || {
            let claims = self.sniffer.claims(VIP);
            found = claims.into_iter().find(|f| f.at >= self.begun && f.from.to_string() != old);
            found.is_some()
        })?;
        let frame = found.expect("it was awaited");
        let mut nodes = lab.topology().nodes.iter();
        let node = nodes.find(|n| n.mac() == frame.from.to_string());
        let name = node.map_or_else(|| frame.from.to_string(), |n| n.name.clone());
        Ok((name, frame.at.duration_since(self.begun).unwrap_or_default()))
    }

    /// Goes on for a while, and counts.
    pub(crate) fn stop(self) -> Result<(Report, Report), Error> {
        std::thread::sleep(AROUND);
        Ok((self.udp.stop()?, self.tcp.stop()?))
    }
}

pub(crate) fn ms(d: Duration) -> String {
    format!("{:.1} ms", d.as_secs_f64() * 1000.0)
}
