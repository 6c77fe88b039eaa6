//! What the kernel must have and let this process do, asked before anything else is tried.

use std::io::ErrorKind;

use anyhow::{Context, Result, bail};
use signpost_forward::{self as forward, Error};

use super::wire::packet::probe_raw;

/// For the agent: nf_tables and packet sockets.
pub(crate) fn check() -> Result<()> {
    let raw = probe_raw();
    let denied = raw.as_ref().is_err_and(|e| e.kind() == ErrorKind::PermissionDenied);
    match (denied, forward::probe()) {
        (true, Err(Error::NotPermitted)) => bail!("{}", lacks("CAP_NET_ADMIN and CAP_NET_RAW")),
        (true, _) => bail!("{}", lacks("CAP_NET_RAW")),
        (false, Err(Error::NotPermitted)) => bail!("{}", lacks("CAP_NET_ADMIN")),
        (false, done) => done?,
    }
    raw.context("packet sockets: this kernel may lack CONFIG_PACKET")
}

/// For what only changes rules.
pub(crate) fn check_nf_tables() -> Result<()> {
    match forward::probe() {
        Err(Error::NotPermitted) => bail!("{}", lacks("CAP_NET_ADMIN")),
        done => Ok(done?),
    }
}

fn lacks(capability: &str) -> String {
    format!(
        "the agent lacks {capability}: run it as root, or grant it (AmbientCapabilities= in \
         systemd, securityContext.capabilities.add in Kubernetes)"
    )
}
