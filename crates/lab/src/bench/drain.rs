//! Nodes are drained under probes.

use std::path::PathBuf;

use serde_json::json;

use super::{Figure, two_of_three};
use crate::stage::{Watch, settled};
use crate::{Error, Fault, LabName};

/// So many drains.
const RUNS: usize = 10;

/// Measures it; the baseline is a pulled cable.
pub fn drain(name: &LabName, program: PathBuf) -> Result<Vec<Figure>, Error> {
    let mut lab = two_of_three(name, program, &["--preempt-delay-ms", "600000"])?;
    let (mut lost, mut sent, mut cut) = ([0, 0], [0, 0], 0);
    for _ in 0..RUNS {
        let owner = settled(&lab)?;
        let mut watch = Watch::start(&lab)?;
        lab.ask(&owner, &json!({"request": "drain"}))?;
        watch.other_claims(&lab, &owner)?;
        let (udp, tcp) = watch.stop()?;
        lost = [lost[0] + udp.lost, lost[1] + tcp.lost];
        sent = [sent[0] + udp.sent, sent[1] + tcp.sent];
        cut += tcp.cut;
        lab.ask(&owner, &json!({"request": "undrain"}))?;
    }
    let owner = settled(&lab)?;
    let mut watch = Watch::start(&lab)?;
    lab.fault(Fault::Link, &owner)?;
    watch.other_claims(&lab, &owner)?;
    let (udp, tcp) = watch.stop()?;
    let share = |lost: usize, of: usize| lost as f64 / of.max(1) as f64;
    let kinds = [("datagrams (1 kHz)", udp), ("new connections (200/s)", tcp)];
    let figures = kinds.into_iter().enumerate().map(|(i, (what, pulled))| {
        let base = share(pulled.lost, pulled.sent);
        Figure::new(format!("{what} lost in {RUNS} drains"), format!("{} of {}", lost[i], sent[i]))
            .against(
                share(lost[i], sent[i]) / base.max(f64::MIN_POSITIVE),
                "a pulled cable's share",
            )
    });
    let what = "connections established at the instant of a move, and reset";
    let instant = Figure::new(what, format!("{cut} of {}", sent[1]));
    Ok(figures.chain([instant]).collect())
}
