//! The owner's agent is restarted under probes and long-lived connections.

use std::path::PathBuf;
use std::time::Duration;

use super::{Figure, two_of_three};
use crate::probe::{Fate, Pool};
use crate::stage::{CLIENT, VIP, Watch, settled};
use crate::{Error, Fault, LabName, probe};

/// So many restarts.
const RUNS: usize = 5;

/// Long-lived connections.
const CONNECTIONS: usize = 200;

const PATIENCE: Duration = Duration::from_secs(2);

/// Measures it; the baseline is a pulled cable, which resets what the other node never saw.
pub fn restart(name: &LabName, program: PathBuf) -> Result<Vec<Figure>, Error> {
    probe::lift_limits()?;
    let mut lab = two_of_three(name, program, &["--preempt-delay-ms", "600000"])?;
    let client = lab.namespace(CLIENT)?;
    let mut pool = Pool::open(&client, VIP, 80, CONNECTIONS, PATIENCE)?;
    let (mut lost, mut sent) = ([0, 0], [0, 0]);
    for _ in 0..RUNS {
        let owner = settled(&lab)?;
        let watch = Watch::start(&lab)?;
        lab.restart_agent(&owner, &[])?;
        let (udp, tcp) = watch.stop()?;
        lost = [lost[0] + udp.lost, lost[1] + tcp.lost];
        sent = [sent[0] + udp.sent, sent[1] + tcp.sent];
    }
    let broken =
        |pool: &mut Pool| pool.fates(PATIENCE).into_iter().filter(|f| *f != Fate::Alive).count();
    let reset = broken(&mut pool);
    let owner = settled(&lab)?;
    let mut watch = Watch::start(&lab)?;
    lab.fault(Fault::Link, &owner)?;
    watch.other_claims(&lab, &owner)?;
    watch.stop()?;
    let base = broken(&mut pool).max(1);
    Ok(vec![
        Figure::new(
            format!("long-lived connections reset in {RUNS} restarts"),
            format!("{reset} of {CONNECTIONS}"),
        )
        .against(reset as f64 / base as f64, "those that a pulled cable resets"),
        Figure::new("datagrams lost (1 kHz)", format!("{} of {}", lost[0], sent[0])),
        Figure::new("new connections lost (200/s)", format!("{} of {}", lost[1], sent[1])),
    ])
}
