//! A lab without agents, and the wire thread of one on a node of it.

use std::io::IoSliceMut;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{LinkAddr, MsgFlags, recvmsg, sendto};
use signpost_lab::{LabName, Namespace, Options, Scoped, Topology};
use signpost_netlink::route;
use signpost_packet::{EtherType, Ethernet, Mac, Ndp, NdpKind};
use signpost_plan::LinkIndex;
use signpost_speaker::{Command, Config, Event, Gate, Link, Speaker};
use socket2::{Domain, Protocol, Socket, Type};

use crate::agent::clock;
use crate::agent::inbox::{Inbox, inbox};
use crate::agent::wire::socket::Mesh;
use crate::agent::wire::{Parts, Wire, start};

/// Longer than this nothing takes that works.
pub(crate) const SOON: Duration = Duration::from_secs(5);
/// Longer than this no answer takes that comes.
const PATIENCE: Duration = Duration::from_millis(300);

pub(crate) const NODE: &str = "node-a";
const CLIENT: &str = "client";
const CLIENT_ADDRESS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 0x100);

pub(crate) fn vip(n: u32) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0x64, 0)) + u128::from(n))
}

pub(crate) struct Bed {
    pub(crate) lab: Scoped,
    pub(crate) node: Namespace,
    pub(crate) client: Namespace,
    wire: Wire,
    news: Inbox<Event>,
}

impl Bed {
    /// A node whose wire thread knows of no interface yet, and a client on the same segment.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name: LabName = format!("w{}-{count}", std::process::id()).parse().unwrap();
        let program = env!("CARGO_BIN_EXE_signpost").into();
        let options = Options { program, agents: false, agent_args: vec![] };
        let topology = Topology::of_nodes(1);
        let lab = Scoped::up(&name, topology, options).unwrap();
        let (node, client) = (lab.namespace(NODE).unwrap(), lab.namespace(CLIENT).unwrap());
        node.sysctl("ipv6/conf/all/forwarding", "1").unwrap();
        node.ip("addr add 2001:db8:5::11/64 dev eth0 nodad\n").unwrap();
        client.ip(&format!("addr add {CLIENT_ADDRESS}/64 dev eth0 nodad\n")).unwrap();
        let (news_in, news) = inbox().unwrap();
        let wire = node
            .run(|| {
                let speaker = Speaker::new(Config::new(NODE.into(), 1, None, 1));
                let mesh = Mesh::open(7946).unwrap();
                start(Parts { speaker, mesh }, news_in, |event| event).unwrap()
            })
            .unwrap();
        let mut bed = Self { lab, node, client, wire, news };
        bed.say(Command::Peers(Vec::new()));
        bed.renew();
        bed
    }

    /// Control's word, said on the node.
    pub(crate) fn say(&mut self, command: Command) {
        let Self { node, wire, .. } = self;
        node.run(|| wire.send(command)).unwrap();
    }

    pub(crate) fn renew(&mut self) {
        self.say(Command::Lease(clock::now() + Duration::from_secs(600)));
    }

    pub(crate) fn links(&mut self, links: &[&Link]) {
        self.say(Command::Links(links.iter().map(|l| (*l).clone()).collect()));
    }

    pub(crate) fn open(&mut self, address: Ipv6Addr, link: &Link) {
        let gate = Gate::Open { links: vec![link.index], weight: 1 };
        self.say(Command::Gate(address.into(), gate));
    }

    pub(crate) fn shut(&mut self, address: Ipv6Addr) {
        self.say(Command::Gate(address.into(), Gate::Shut));
    }

    /// Waits until an address is the node's, or nobody's again.
    pub(crate) fn until_owned(&self, address: Ipv6Addr, owned: bool) {
        let owner = owned.then(|| NODE.into());
        let told = Event::Owner(address.into(), owner);
        self.until("the address changes hands", || {
            std::iter::from_fn(|| self.news.next()).any(|event| event == told)
        });
    }

    pub(crate) fn until(&self, what: &str, seen: impl FnMut() -> bool) {
        self.lab.wait_until(what, SOON, seen).unwrap();
    }

    /// The node's cable to the segment.
    pub(crate) fn eth0(&self) -> Link {
        self.node.run(|| link_of("eth0")).unwrap().unwrap()
    }

    /// Asks the segment from the client, and returns the answers that came.
    pub(crate) fn ask(&self, from: &str, ask: Question) -> Vec<Ndp> {
        let link = self.client.run(|| link_of(from)).unwrap().unwrap();
        self.client.run(|| answers(from, Mac(link.mac), ask)).unwrap()
    }

    pub(crate) fn solicit(&self, address: Ipv6Addr) -> Vec<Ndp> {
        self.ask("eth0", Question { target: address, source: CLIENT_ADDRESS, to: None })
    }

    /// The client's neighbour entry for an address.
    pub(crate) fn neighbour(&self, address: Ipv6Addr) -> String {
        let address = address.to_string();
        self.client.command("ip", &["-6", "neigh", "show", &address], "").unwrap()
    }

    /// The groups that a namespace's kernel receives on an interface.
    pub(crate) fn is_joined(&self, link: &str, group: Ipv6Addr) -> bool {
        let group = group.to_string();
        let all = self.node.command("ip", &["-6", "maddr", "show", "dev", link], "").unwrap();
        all.split_whitespace().any(|word| word == group)
    }
}

/// An interface of this thread's namespace.
pub(crate) fn link_of(name: &str) -> Option<Link> {
    let links = route::read_links().unwrap();
    let link = links.into_iter().find(|l| &*l.name == name)?;
    let (index, mac) = (LinkIndex(link.index), link.mac?);
    Some(Link { index, mac, up: true, address: None, address_v6: None, gateway: None })
}

/// Who has the target?
#[derive(Clone, Copy)]
pub(crate) struct Question {
    pub(crate) target: Ipv6Addr,
    pub(crate) source: Ipv6Addr,
    /// The one interface that it goes to, without an option, as a kernel asks that is about to
    /// forget an entry.
    pub(crate) to: Option<Mac>,
}

fn answers(device: &str, mac: Mac, question: Question) -> Vec<Ndp> {
    let Question { target, source, to } = question;
    let protocol = Protocol::from(i32::from(EtherType::IPV6.0.to_be()));
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol)).unwrap();
    let asked = match to {
        _ if source.is_unspecified() => Ndp::probe(target),
        None => Ndp::solicitation(mac, source, target),
        Some(_) => Ndp { destination: target, mac: None, ..Ndp::solicitation(mac, source, target) },
    };
    let to = to.unwrap_or(Mac::of_group(asked.destination));
    sendto(socket.as_raw_fd(), &asked.frame(mac, to), &link_address(device), MsgFlags::empty())
        .unwrap();
    let (deadline, mut all) = (Instant::now() + PATIENCE, Vec::new());
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return all;
        }
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::try_from(left).unwrap()).unwrap();
        let mut bytes = [0; 256];
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let Ok(message) = recvmsg::<()>(socket.as_raw_fd(), &mut parts, None, flags) else {
            continue;
        };
        let length = message.bytes;
        if let Some((Ethernet { source: from, .. }, ndp)) = Ndp::parse_frame(&bytes[..length])
            && from != mac
            // The node's kernel may ask too.
            && matches!(ndp.kind, NdpKind::Advertisement { .. })
            && ndp.target == target
        {
            all.push(ndp);
        }
    }
}

fn link_address(device: &str) -> LinkAddr {
    let all = nix::ifaddrs::getifaddrs().unwrap();
    let mut named = all.filter(|a| a.interface_name == device);
    named.find_map(|a| a.address?.as_link_addr().copied()).unwrap()
}
