//! What this node's agent was told to forward.

use ipnet::IpNet;

use super::{Touched, World};

/// What of the Services is forwarded here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// What outsiders ask by an address: LoadBalancer Services and external IPs. The rest is
    /// another proxy's.
    #[default]
    Vip,
    /// ClusterIPs and NodePorts as well: no other proxy is needed.
    All,
}

/// On which of the node's addresses NodePorts answer. Never on loopback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// On every one, whoever adds it.
    #[default]
    Every,
    /// On the Node object's InternalIPs.
    Primary,
    /// On those in these networks; a family without a network: on every one of it, as kube-proxy
    /// has it.
    Within(Vec<IpNet>),
}

impl World {
    /// What is forwarded here.
    pub fn forwarding(&self) -> Forwarding {
        self.forwarding
    }

    /// Says what is forwarded here (`--forward`).
    pub fn set_forwarding(&mut self, forwarding: Forwarding) -> Touched {
        if std::mem::replace(&mut self.forwarding, forwarding) == forwarding {
            return Touched::default();
        }
        Touched::everything()
    }

    /// Where NodePorts answer.
    pub(crate) fn node_port_addresses(&self) -> &NodePortAddresses {
        &self.node_port_addresses
    }

    /// Says where NodePorts answer (`--nodeport-addresses`).
    pub fn set_node_port_addresses(&mut self, addresses: NodePortAddresses) -> Touched {
        self.node_port_addresses = addresses;
        Touched { scope: true, ..Touched::default() }
    }
}
