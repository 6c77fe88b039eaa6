//! The cells: who sends what by which node, and what came of it.

use std::net::IpAddr;
use std::time::Duration;

use super::expect::{Expectation, Expected, Served, Spread};
use super::judge::Fault;
use super::owner;
use super::pin::Pinned;
use super::plan::{Plan, Planner};
use super::report::{Cell, Wanted};
use super::row::Kind;
use super::scenario::Scenario;
use super::scope::Scope;
use super::second::Second;
use crate::probe::{self, Outcome, Target};
use crate::topology::Node;
use crate::{Error, Family, Lab};

/// Enough to reach each of three endpoints, and to see that it is done evenly.
const TRIES_OK: usize = 40;

/// Enough for "each of them" where no choice is involved.
const TRIES: usize = 12;

/// A cell that looks uneven is measured once more with so many times the tries: among hundreds of
/// cells, one of a thousand is uneven by chance.
const AGAIN: usize = 4;

/// A pod's socket holds so many datagrams at once, and not many more.
const AT_ONCE: usize = 160;

/// Longer than a second SYN needs: what is not answered by then is dropped.
const PATIENCE: Duration = Duration::from_millis(1500);

/// An address moves once when a better owner has been a member for long enough.
const MOVES_MAX: usize = 3;

pub(super) fn cells(
    lab: &Lab,
    scenarios: &[Scenario<'_>],
    expected: &Expected,
    scope: &Scope,
) -> Result<Vec<Cell>, Error> {
    probe::lift_limits()?;
    let t = lab.topology();
    let _second = Second::bind(lab, scope)?;
    let planner = || Planner { t, expected, scope, plans: Vec::new() };
    let mut cells = Vec::new();
    for node in &t.nodes {
        let mut plans = planner();
        for s in scenarios {
            for kind in Kind::ALL {
                plans.outsiders(s, kind, node);
            }
        }
        let pinned = Pinned::to(lab, scenarios, node)?;
        cells.extend(measure(lab, &plans.plans)?);
        drop(pinned);
    }
    let mut plans = planner();
    for s in scenarios {
        cells.extend(by_owner(lab, s, planner)?);
        for kind in Kind::ALL {
            plans.insiders(s, kind);
        }
        plans.elsewhere(s, Kind::NodePort);
    }
    cells.extend(measure(lab, &plans.plans)?);
    Ok(cells)
}

/// One Service, asked by insiders, and by outsiders through whoever answers for its addresses.
pub(super) fn one(
    lab: &Lab,
    s: &Scenario<'_>,
    expected: &Expected,
    scope: &Scope,
) -> Result<Vec<Cell>, Error> {
    probe::lift_limits()?;
    let planner = || Planner { t: lab.topology(), expected, scope, plans: Vec::new() };
    let mut cells = by_owner(lab, s, planner)?;
    // That one node answers goes without saying.
    cells.retain(|c| c.node.is_some() || c.differs.is_some());
    let mut plans = planner();
    for kind in Kind::ALL {
        plans.insiders(s, kind);
    }
    cells.extend(measure(lab, &plans.plans)?);
    Ok(cells)
}

/// Who answers for the announced addresses, and what outsiders get there; once more where another
/// answers meanwhile, as one may that has just come to be a member.
fn by_owner<'a>(
    lab: &'a Lab,
    s: &Scenario<'a>,
    planner: impl Fn() -> Planner<'a>,
) -> Result<Vec<Cell>, Error> {
    let mut owners = announced(lab, s, planner().scope)?;
    for _ in 0..MOVES_MAX {
        let mut plans = planner();
        let mut cells = Vec::new();
        for (kind, address, nodes) in &owners {
            cells.push(owner::judged(lab, s, *kind, *address, nodes));
            // All addresses of a kind in a family are one: none of the Services has two.
            if let [owner] = nodes[..] {
                plans.outsiders_of(s, *kind, owner, Family::of(*address));
            }
        }
        cells.extend(measure(lab, &plans.plans)?);
        let now = announced(lab, s, plans.scope)?;
        if now == owners {
            return Ok(cells);
        }
        owners = now;
    }
    Err(Error::Data(format!(
        "the addresses of {} moved {MOVES_MAX} times while they were measured: look at the agents' \
         logs",
        s.service.name
    )))
}

/// An address, what it is to its Service, and the nodes that answer for it.
type Announced<'a> = (Kind, IpAddr, Vec<&'a Node>);

/// The announced addresses of a Service that the scope asks for, each with who answers for it.
fn announced<'a>(
    lab: &'a Lab,
    s: &Scenario<'_>,
    scope: &Scope,
) -> Result<Vec<Announced<'a>>, Error> {
    let mut found = Vec::new();
    let asked = |kind: &Kind| kind.is_announced() && scope.rows.contains(&s.row(*kind));
    for kind in Kind::ALL.into_iter().filter(asked) {
        for address in s.announced_of(kind) {
            found.push((kind, address, owner::of(lab, address, s.cluster().is_empty())?));
        }
    }
    Ok(found)
}

/// Measures all plans, two senders at a time: more would overflow a pod's socket.
fn measure(lab: &Lab, plans: &[Plan<'_>]) -> Result<Vec<Cell>, Error> {
    let mut senders: Vec<&str> = Vec::new();
    for plan in plans {
        if !senders.contains(&plan.member) {
            senders.push(plan.member);
        }
    }
    let mut cells = Vec::new();
    for pair in senders.chunks(2) {
        let measured = std::thread::scope(|s| {
            let started: Vec<_> =
                pair.iter().map(|m| s.spawn(|| of_sender(lab, m, plans))).collect();
            started
                .into_iter()
                .map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Result<Vec<_>, _>>()
        })?;
        cells.extend(measured.into_iter().flatten());
    }
    Ok(cells)
}

fn of_sender(lab: &Lab, sender: &str, plans: &[Plan<'_>]) -> Result<Vec<Cell>, Error> {
    let own: Vec<&Plan<'_>> = plans.iter().filter(|p| p.member == sender).collect();
    own.iter().zip(probe_all(lab, sender, &own)?).map(|(p, o)| judged(lab, p, o)).collect()
}

fn tries(plan: &Plan<'_>) -> usize {
    match plan.case.expectation {
        Expectation::Served(Served { spread: Spread::Even, .. }) => TRIES_OK,
        Expectation::Served(Served { spread: Spread::One, .. })
        | Expectation::Echo
        | Expectation::Refused
        | Expectation::Timeout => TRIES,
    }
}

/// The outcomes of each plan. What should be silent goes first and together: it costs a wait.
fn probe_all(lab: &Lab, sender: &str, plans: &[&Plan<'_>]) -> Result<Vec<Vec<Outcome>>, Error> {
    let silent = |p: &Plan<'_>| p.case.expectation == Expectation::Timeout;
    let mut rounds: Vec<Vec<usize>> =
        vec![(0..plans.len()).filter(|i| silent(plans[*i])).collect()];
    let mut size = AT_ONCE;
    for i in (0..plans.len()).filter(|i| !silent(plans[*i])) {
        size += tries(plans[i]);
        if size > AT_ONCE {
            rounds.push(Vec::new());
            size = tries(plans[i]);
        }
        rounds.last_mut().expect("the silent round at least").push(i);
    }
    let ns = lab.namespace(sender)?;
    let mut all = vec![Vec::new(); plans.len()];
    for round in rounds {
        let targets: Vec<Target> = round
            .iter()
            .flat_map(|i| std::iter::repeat_n(plans[*i].target, tries(plans[*i])))
            .collect();
        let mut outcomes = probe::run(&ns, &targets, PATIENCE)?.into_iter();
        for i in round {
            all[i] = outcomes.by_ref().take(tries(plans[i])).collect();
        }
    }
    Ok(all)
}

fn judged(lab: &Lab, plan: &Plan<'_>, mut outcomes: Vec<Outcome>) -> Result<Cell, Error> {
    let mut judgement = plan.case.judge(&outcomes);
    if let Err(Fault::Uneven(_)) = judgement {
        outcomes.clear();
        let ns = lab.namespace(plan.member)?;
        for _ in 0..AGAIN {
            outcomes.extend(probe::run(&ns, &vec![plan.target; TRIES_OK], PATIENCE)?);
        }
        judgement = plan.case.judge(&outcomes);
    }
    let seen = probe::summary(&outcomes);
    Ok(Cell {
        from: plan.from.clone(),
        to: plan.target.to_string(),
        node: Some(plan.case.node.name.clone()),
        result: seen.verdict,
        forks: if seen.forks.len() > 1 { seen.forks } else { [].into() },
        client_seen: seen.seen,
        pods: seen.pods,
        service: plan.service.to_owned(),
        row: plan.row,
        family: Family::of(plan.target.address),
        column: plan.column.label(),
        expected: Wanted {
            result: plan.case.expectation.to_string(),
            pods: plan.case.set.iter().map(|(pod, _)| (*pod).to_owned()).collect(),
            client_seen: plan.case.seen(),
        },
        differs: match judgement {
            Ok(()) => None,
            Err(Fault::Differs(what) | Fault::Uneven(what)) => Some(what),
        },
    })
}
