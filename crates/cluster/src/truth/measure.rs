//! The tries of a section's cells.

use std::collections::BTreeMap;
use std::time::Duration;

use signpost_lab::Lab;
use signpost_lab::probe::{self, Target};

use super::Error;
use super::cell::{Cell, Kind, Question, Section};
use super::health;
use super::outcome::Outcome;

/// As the recording had it.
const TRIES: usize = 12;

/// Where one of two is chosen by chance: one in 10^12 misses the other.
const TRIES_BY_CHANCE: usize = 40;

/// A pod's socket holds so many datagrams at once, and not many more.
const AT_ONCE: usize = 160;

/// For a try that must bring news: up to a third SYN. On a busy machine one gets lost.
const NEWS: Duration = Duration::from_secs(4);

/// The outcomes of each cell's tries, in the cells' order.
pub(super) fn section(lab: &Lab, section: &Section) -> Result<Vec<Vec<Outcome>>, Error> {
    let mut outcomes: Outcomes = vec![Vec::new(); section.cells.len()];
    match section.stage.kind {
        // What a limit lets through depends on what else is sent.
        Kind::Limited => {
            for cell in 0..section.cells.len() {
                take(&mut outcomes, of_sender(lab, section, &[vec![cell]])?);
            }
        }
        Kind::Announced | Kind::Bound => {
            let cells = || section.cells.iter().enumerate();
            let waits = cells().filter(|(_, c)| c.expected.waits()).map(|(n, _)| n);
            let quick = cells().filter(|(_, c)| !c.expected.waits()).map(|(n, _)| n);
            // What is silent costs a wait, and nobody's socket.
            let all: Vec<Rounds> =
                by_sender(section, waits).into_values().map(|cells| vec![cells]).collect();
            take(&mut outcomes, side_by_side(lab, section, &all)?);
            let rounds: Vec<Rounds> = by_sender(section, quick)
                .into_values()
                .map(|cells| rounds(section, &cells))
                .collect();
            // More than two senders at a time would overflow a pod's socket.
            for pair in rounds.chunks(2) {
                take(&mut outcomes, side_by_side(lab, section, pair)?);
            }
        }
    }
    Ok(outcomes)
}

/// By the cells' places in the section.
type Outcomes = Vec<Vec<Outcome>>;

/// Cells of one sender, by their places in the section: each list is tried at once.
type Rounds = Vec<Vec<usize>>;

/// Cells, each with its outcomes.
type Measured = Vec<(usize, Vec<Outcome>)>;

fn take(outcomes: &mut Outcomes, measured: Measured) {
    for (cell, of) in measured {
        outcomes[cell] = of;
    }
}

fn by_sender(section: &Section, cells: impl Iterator<Item = usize>) -> BTreeMap<&str, Vec<usize>> {
    let mut senders: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for cell in cells {
        senders.entry(&section.cells[cell].sender).or_default().push(cell);
    }
    senders
}

fn tries(cell: &Cell, kind: Kind) -> usize {
    if cell.expected.depends() && kind != Kind::Limited { TRIES_BY_CHANCE } else { TRIES }
}

fn rounds(section: &Section, cells: &[usize]) -> Rounds {
    let mut rounds = Rounds::new();
    let mut size = AT_ONCE;
    for cell in cells {
        let tries = tries(&section.cells[*cell], section.stage.kind);
        size += tries;
        if size > AT_ONCE {
            rounds.push(Vec::new());
            size = tries;
        }
        rounds.last_mut().expect("the first cell begins a round").push(*cell);
    }
    rounds
}

fn side_by_side(lab: &Lab, section: &Section, senders: &[Rounds]) -> Result<Measured, Error> {
    let measured = std::thread::scope(|s| {
        let started: Vec<_> =
            senders.iter().map(|rounds| s.spawn(|| of_sender(lab, section, rounds))).collect();
        started
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<_>, _>>()
    })?;
    Ok(measured.into_iter().flatten().collect())
}

fn of_sender(lab: &Lab, section: &Section, rounds: &[Vec<usize>]) -> Result<Measured, Error> {
    let mut measured = Measured::new();
    for round in rounds {
        let Some(sender) = round.first().map(|cell| &section.cells[*cell].sender) else { continue };
        let ns = lab.namespace(sender)?;
        let mut targets: Vec<Target> = Vec::new();
        for cell in round.iter().map(|n| &section.cells[*n]) {
            if let Question::Probe(target) = cell.question {
                targets.extend(std::iter::repeat_n(target, tries(cell, section.stage.kind)));
            }
        }
        let waits = round.iter().any(|n| section.cells[*n].expected.waits());
        let patience = if waits { section.patience } else { section.patience.max(NEWS) };
        let mut probed = probe::run(&ns, &targets, patience)?.into_iter();
        for n in round {
            let cell = &section.cells[*n];
            let tries = tries(cell, section.stage.kind);
            let outcomes = match cell.question {
                Question::Probe(_) => probed.by_ref().take(tries).map(Outcome::from).collect(),
                Question::Health(to) => {
                    ns.run(|| (0..tries).map(|_| health::ask(to, patience)).collect())?
                }
            };
            measured.push((*n, outcomes));
        }
    }
    Ok(measured)
}
