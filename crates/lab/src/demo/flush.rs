//! Act 5: somebody flushes all rules.

use std::time::{Duration, Instant};

use super::act::{Act, losses};
use crate::stage::{SOON, VIP, Watch, ms, one_owner, settled};
use crate::{Error, Fault, Lab};

/// How long the agent goes on announcing while rules are repaired.
const REPAIR: Duration = Duration::from_millis(20);

/// Plays it.
pub fn flushed(lab: &mut Lab) -> Result<Act, Error> {
    let mut act =
        Act::new(5, "Somebody flushes all rules of the owner", &["what", "measured", "to reach"]);
    let owner = settled(lab)?;
    act.tell(format!(
        "`nft flush ruleset` on {owner}, which owns {VIP}. Since Linux 6.9 a table can belong to a \
         process and\noutlive it: the kernel lets nobody else touch it. With `--table-owner off`, as \
         on older kernels, the rules\nare gone, and the agent puts them back."
    ));
    let flags = lab.status(&owner)?["rules"]["table_flags"].as_str().unwrap_or_default().to_owned();
    if !flags.is_empty() {
        let watch = Watch::start(lab)?;
        lab.fault(Fault::Flush, &owner)?;
        let left = tables(lab, &owner)?;
        let (udp, tcp) = watch.stop()?;
        act.row(
            [
                format!("rules after the flush (flags {flags})"),
                if left.is_empty() { "gone" } else { "all there" }.to_owned(),
                "all there".to_owned(),
            ],
            !left.is_empty(),
        );
        for table in &left {
            let words: Vec<&str> = ["delete"].into_iter().chain(table.split_whitespace()).collect();
            let refused = lab.namespace(&owner)?.command("nft", &words, "").err();
            let said = refused.as_ref().map(ToString::to_string).unwrap_or_default();
            let denied = said.contains("Operation not permitted");
            act.row(
                [
                    format!("nft delete {table}"),
                    if denied { "Operation not permitted" } else { "done" }.to_owned(),
                    "Operation not permitted".to_owned(),
                ],
                denied,
            );
        }
        losses(&mut act, &udp, &tcp, true);
    }
    lab.restart_agent(&owner, &["--table-owner".to_owned(), "off".to_owned()])?;
    one_owner(lab, |o| o == owner)?;
    let watch = Watch::start(lab)?;
    let before = Instant::now();
    lab.fault(Fault::Flush, &owner)?;
    let flushed = Instant::now();
    let mut back = Duration::ZERO;
    lab.wait_until("the rules are back", SOON, || {
        let there = tables(lab, &owner).is_ok_and(|t| !t.is_empty());
        back = flushed.elapsed();
        there
    })?;
    let at_most = before.elapsed();
    let (udp, tcp) = watch.stop()?;
    act.row(
        [
            "with --table-owner off: rules are back after".to_owned(),
            ms(back),
            "<= 20 ms, or it moves".to_owned(),
        ],
        true,
    );
    act.row(
        ["longest gap in the datagrams".to_owned(), format!("{} ms", udp.outage_ms), String::new()],
        true,
    );
    losses(&mut act, &udp, &tcp, false);
    // Within its patience the address stays; after it another node serves it meanwhile.
    // What the agent itself saw lies between; half of it leaves room for a busy machine.
    let in_time = at_most <= REPAIR / 2;
    let still = one_owner(lab, |_| true)?;
    let allowed = if in_time { owner.clone() } else { format!("{owner}, or any that serves") };
    act.row(
        ["who announces the address afterwards".to_owned(), still.clone(), allowed],
        still == owner || !in_time,
    );
    lab.restart_agent(&owner, &[])?;
    one_owner(lab, |o| o == still)?;
    Ok(act)
}

/// The tables of a node's kernel, as `table FAMILY NAME`.
fn tables(lab: &Lab, node: &str) -> Result<Vec<String>, Error> {
    let printed = lab.namespace(node)?.command("nft", &["list", "tables"], "")?;
    Ok(printed.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty()).collect())
}
