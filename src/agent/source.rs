//! Whether a source can be served from, asked before a running agent ends for it.

use std::path::Path;

use anyhow::{Error, Result, anyhow, bail};
use signpost_plan::NodeName;
use signpost_plan::world::Change;

use crate::watch::SourceEvent;
use crate::watch::dir::Dir;

/// Reads the source once, for its Nodes.
pub(crate) fn check(source: &Path, node: &NodeName) -> Result<()> {
    let mut dir = Dir::open(source)?;
    let mut nodes = Vec::new();
    dir.scan(&mut |event| {
        let SourceEvent::Changes(changes) = event else { return };
        for change in changes {
            if let Change::Node(node) = change {
                nodes.push(node.name);
            }
        }
    });
    if let Some(why) = dir.emptiness() {
        bail!("{why}");
    }
    if nodes.contains(node) { Ok(()) } else { Err(unknown(node, nodes.iter())) }
}

/// A name that no Node bears would make every endpoint a remote one.
pub(crate) fn unknown<'a>(node: &NodeName, known: impl Iterator<Item = &'a NodeName>) -> Error {
    let known: Vec<_> = known.map(ToString::to_string).collect();
    if known.is_empty() {
        return anyhow!(
            "no Node object is in the source: write one for `{node}`, with its InternalIP"
        );
    }
    anyhow!("no Node is named `{node}`: --node is one of {}", known.join(", "))
}
