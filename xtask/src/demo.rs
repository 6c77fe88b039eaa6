//! `cargo xtask demo`: from a clone to the picture.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{machine, release, run};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    machine::prepare()?;
    let binary = release::build()?;
    if !machine::is_root() {
        bail!(
            "the demo makes network namespaces, which takes root; the binary is built, so run\n  \
             sudo {} lab demo",
            binary.display()
        );
    }
    run::succeed(Command::new(binary).args(["lab", "demo"]).args(arguments))
}
