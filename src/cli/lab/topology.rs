//! Which topology a lab is built from.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use signpost_lab::Topology;

#[derive(Args)]
pub(super) struct Which {
    /// `ipv4`, `dual-stack`, or a file of YAML or JSON with nodes, pods and clients
    #[arg(long, value_name = "NAME|FILE", default_value = "dual-stack")]
    topology: String,
}

impl Which {
    pub(super) fn read(&self) -> Result<Topology> {
        Ok(match self.topology.as_str() {
            "ipv4" => Topology::default(),
            "dual-stack" => Topology::default().with_ipv6(),
            file => Topology::from_file(Path::new(file))?,
        })
    }
}
