//! A recording's text, as cells: who sends what, under which circumstances, and what must come of
//! it.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use signpost_lab::Topology;
use signpost_lab::probe::{Protocol, Target};

use super::outcome::Expectation;
use super::place::Places;
use super::service::Services;

/// Cells that are measured under the same circumstances.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) stage: Stage,
    /// How long a try may take.
    pub(super) patience: Duration,
    pub(super) cells: Vec<Cell>,
}

/// The circumstances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) kind: Kind,
    /// The node that the addresses of Services lead to.
    pub(super) node: String,
}

/// What is special about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing.
    Announced,
    /// The node has the addresses.
    Bound,
    /// The nodes limit their ICMP errors and send redirects.
    Limited,
}

/// One cell.
#[derive(Debug)]
pub(super) struct Cell {
    /// Service, sender, target and protocol, as the recording has them.
    pub(super) key: String,
    /// The member that sends.
    pub(super) sender: String,
    pub(super) question: Question,
    pub(super) expected: Expectation,
    /// `expected`, as the recording says it.
    pub(super) recorded: String,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// A probe.
    Probe(Target),
    /// A request to a health check.
    Health(SocketAddrV4),
}

impl Cell {
    /// The address that it asks.
    pub(super) fn address(&self) -> Ipv4Addr {
        match self.question {
            Question::Probe(target) => target.address,
            Question::Health(to) => *to.ip(),
        }
    }
}

/// Reads a recording; a fault names its line.
pub(super) fn parse(text: &str, services: &Services, t: &Topology) -> Result<Vec<Section>, String> {
    let places = Places::of(t);
    let mut sections: Vec<Section> = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let fault = |m: String| format!("line {}: {m}", n + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(head) = line.strip_prefix("== ") {
            sections.push(section(head, t).map_err(fault)?);
        } else {
            let section = sections.last_mut();
            let section = section.ok_or_else(|| fault("a cell before any section".to_owned()))?;
            section.cells.extend(cells(line, services, &places, t).map_err(fault)?);
        }
    }
    Ok(sections)
}

/// `announced by NODE, patience SECONDS s`.
fn section(head: &str, t: &Topology) -> Result<Section, String> {
    let fault = || format!("{head:?} is no section");
    let (stage, patience) = head.rsplit_once(", patience ").ok_or_else(fault)?;
    let (kind, node) = if let Some(node) = stage.strip_prefix("limited, announced by ") {
        (Kind::Limited, node)
    } else if let Some(node) = stage.strip_prefix("announced by ") {
        (Kind::Announced, node)
    } else {
        (Kind::Bound, stage.strip_prefix("bound on ").ok_or_else(fault)?)
    };
    let seconds = patience.strip_suffix(" s").and_then(|s| s.parse().ok()).ok_or_else(fault)?;
    let patience = Duration::try_from_secs_f64(seconds).map_err(|_| fault())?;
    let node = t.node(node).ok_or_else(|| format!("{node:?} is no node"))?.name.clone();
    Ok(Section { stage: Stage { kind, node }, patience, cells: Vec::new() })
}

/// A line: Service, sender, target, protocols, what came of it.
fn cells(
    line: &str,
    services: &Services,
    places: &Places,
    t: &Topology,
) -> Result<Vec<Cell>, String> {
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let [service, sender, target, protocols, recorded] = columns[..] else {
        return Err(format!("{} columns, and not 5", columns.len()));
    };
    if !t.members().contains(&sender) {
        return Err(format!("{sender:?} is no member"));
    }
    let to = Aim::parse(target, service, services, places)?;
    let expected = Expectation::parse(recorded, places, to.address)?;
    let cell = |word: &str| {
        Ok(Cell {
            key: format!("{service} | {sender} | {target} | {word}"),
            sender: sender.to_owned(),
            question: to.question(word)?,
            expected: expected.clone(),
            recorded: recorded.to_owned(),
        })
    };
    protocols.split(' ').map(cell).collect()
}

/// What a target stands for.
struct Aim {
    address: Ipv4Addr,
    port: u16,
    health: bool,
}

impl Aim {
    /// `ADDRESS:PORT`, each a word of the Service or of the lab, or itself.
    fn parse(
        text: &str,
        service: &str,
        services: &Services,
        places: &Places,
    ) -> Result<Self, String> {
        let fault = || format!("{text:?} is no target of Service {service:?}");
        let (address, port) = text.rsplit_once(':').ok_or_else(fault)?;
        let of = services.get(service);
        Ok(Self {
            address: of
                .and_then(|s| s.address(address))
                .or_else(|| places.address(address))
                .ok_or_else(fault)?,
            port: of.and_then(|s| s.port(port)).or_else(|| port.parse().ok()).ok_or_else(fault)?,
            health: port == "healthCheckNodePort",
        })
    }

    fn question(&self, protocol: &str) -> Result<Question, String> {
        let protocol = match protocol {
            "tcp" if self.health => {
                return Ok(Question::Health(SocketAddrV4::new(self.address, self.port)));
            }
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            _ => return Err(format!("{protocol:?} is no protocol")),
        };
        Ok(Question::Probe(Target { address: self.address, port: self.port, protocol }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::topology;

    const SERVICES: &str = "
kind: Service
metadata: {name: web}
spec:
  clusterIP: 10.233.0.10
  ports: [{nodePort: 30080}]
status: {loadBalancer: {ingress: [{ip: 192.0.2.100}]}}
";

    fn parse(text: &str) -> Result<Vec<Section>, String> {
        super::parse(text, &Services::parse(SERVICES).unwrap(), &topology())
    }

    #[test]
    fn a_line_has_a_cell_for_each_protocol() {
        let text = "# why\n\n== bound on node-c, patience 1.5 s\nweb | c1 | clusterIP:80 | tcp udp | \
                    TIMEOUT\nweb | client | node-b:nodePort | tcp | RESET\n";
        let sections = parse(text).unwrap();
        let [section] = &sections[..] else { panic!("{sections:?}") };
        assert_eq!(section.stage, Stage { kind: Kind::Bound, node: "node-c".to_owned() });
        assert_eq!(section.patience, Duration::from_millis(1500));
        let asked: Vec<String> = section
            .cells
            .iter()
            .map(|c| match c.question {
                Question::Probe(target) => format!("{} {target}", c.sender),
                Question::Health(to) => format!("{} {to}", c.sender),
            })
            .collect();
        assert_eq!(
            asked,
            ["c1 10.233.0.10:80/tcp", "c1 10.233.0.10:80/udp", "client 192.0.2.12:30080/tcp"]
        );
    }

    #[test]
    fn a_fault_names_its_line() {
        let check = |line: &str, expect: &str| {
            let text = format!("== announced by node-a, patience 1.5 s\n{line}\n");
            let said = parse(&text).unwrap_err();
            assert!(said.contains("line 2") && said.contains(expect), "{said}");
        };
        check("web | c1 | clusterIP:80 | tcp", "4 columns");
        check("web | c9 | clusterIP:80 | tcp | TIMEOUT", "\"c9\" is no member");
        check("web | c1 | externalIP:80 | tcp | TIMEOUT", "\"externalIP:80\" is no target");
        check("web | c1 | clusterIP:healthCheckNodePort | tcp | TIMEOUT", "no target");
        check("other | c1 | clusterIP:80 | tcp | TIMEOUT", "Service \"other\"");
        check("web | c1 | clusterIP:80 | sctp | TIMEOUT", "\"sctp\" is no protocol");
        check("web | c1 | clusterIP:80 | tcp | SILENCE", "\"SILENCE\" is no outcome");
        check("== announced by node-z, patience 1.5 s", "\"node-z\" is no node");
        check("== announced by node-a, patience long", "is no section");
        assert!(parse("web | c1 | clusterIP:80 | tcp | TIMEOUT").unwrap_err().contains("line 1"));
    }
}
