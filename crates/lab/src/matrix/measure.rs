//! The cells: who sends what by which node, and what came of it.

use std::time::Duration;

use super::expect::{Expectation, Expected};
use super::judge::Fault;
use super::plan::{self, Plan, Question};
use super::scenario::Scenario;
use super::{Cell, Wanted};
use crate::probe::{self, Outcome, Target};
use crate::topology::{Node, ROUTER};
use crate::{Error, Lab, arp};

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

/// What answers ARP answers at once, and all who do within this.
const ARP_PATIENCE: Duration = Duration::from_millis(30);

/// On a busy machine an answer may take longer: silence is asked so often.
const ARP_TRIES: usize = 20;

pub(super) fn cells(
    lab: &Lab,
    scenarios: &[Scenario<'_>],
    expected: &Expected,
) -> Result<Vec<Cell>, Error> {
    probe::lift_limits()?;
    let t = lab.topology();
    let mut cells = Vec::new();
    for node in &t.nodes {
        let mut plans = Vec::new();
        for s in scenarios {
            plan::outsiders(t, s, node, &[Question::Service], expected, &mut plans);
        }
        pin(lab, scenarios, Some(node))?;
        let measured = measure(lab, &plans);
        pin(lab, scenarios, None)?;
        cells.extend(measured?);
    }
    for s in scenarios {
        let questions: &[Question] =
            if s.cluster.is_empty() { &[Question::Service] } else { &Question::ALL };
        cells.extend(by_arp(lab, s, questions, expected)?);
    }
    Ok(cells)
}

/// One Service, asked by insiders, and by outsiders through whoever answers ARP for it.
pub(super) fn one(lab: &Lab, s: &Scenario<'_>, expected: &Expected) -> Result<Vec<Cell>, Error> {
    probe::lift_limits()?;
    by_arp(lab, s, &[Question::Service, Question::Ping], expected)
}

fn by_arp(
    lab: &Lab,
    s: &Scenario<'_>,
    questions: &[Question],
    expected: &Expected,
) -> Result<Vec<Cell>, Error> {
    let t = lab.topology();
    let mut plans = Vec::new();
    let mut cells = Vec::new();
    if !s.cluster.is_empty() {
        match &owners(lab, s)?[..] {
            [owner] => plan::outsiders(t, s, owner, questions, expected, &mut plans),
            several => cells.push(without_one_owner(lab, s, several)),
        }
    }
    plan::insiders(t, s, questions, expected, &mut plans);
    cells.extend(measure(lab, &plans)?);
    Ok(cells)
}

/// Makes the segment's client and the router send the Services' packets to one node; or, with
/// none, to whoever answers ARP.
fn pin(lab: &Lab, scenarios: &[Scenario<'_>], node: Option<&Node>) -> Result<(), Error> {
    let lines: String = scenarios
        .iter()
        .map(|s| match node {
            Some(n) => format!(
                "neigh replace {} lladdr {} dev eth0 nud permanent\n",
                s.service.address,
                n.mac()
            ),
            None => format!("neigh del {} dev eth0\n", s.service.address),
        })
        .collect();
    let clients = lab.topology().clients.iter().map(|c| c.name.as_str());
    for member in clients.chain([ROUTER]) {
        lab.namespace(member)?.ip(&lines)?;
    }
    Ok(())
}

/// The nodes that answer a client's ARP for a Service's address.
fn owners<'a>(lab: &'a Lab, s: &Scenario<'_>) -> Result<Vec<&'a Node>, Error> {
    let t = lab.topology();
    let client = &t.clients[0];
    let ns = lab.namespace(&client.name)?;
    let mut macs = Vec::new();
    for _ in 0..ARP_TRIES {
        macs = arp::who_has(&ns, client.address, s.service.address, ARP_PATIENCE)?;
        if !macs.is_empty() {
            break;
        }
    }
    Ok(t.nodes.iter().filter(|n| macs.iter().any(|m| m.to_string() == n.mac())).collect())
}

fn without_one_owner(lab: &Lab, s: &Scenario<'_>, owners: &[&Node]) -> Cell {
    let names: Vec<&str> = owners.iter().map(|n| n.name.as_str()).collect();
    Cell {
        from: format!("external {}", lab.topology().clients[0].address),
        to: s.service.address.to_string(),
        node: None,
        result: if owners.is_empty() { probe::Verdict::NoAddress } else { probe::Verdict::Mixed },
        forks: [].into(),
        client_seen: [].into(),
        pods: [].into(),
        service: s.service.name.to_owned(),
        row: s.row.label(),
        column: "outsider, by ARP",
        expected: Wanted { result: "OK".to_owned(), pods: vec![], client_seen: vec![] },
        differs: Some(format!("the nodes that answer ARP are {names:?}, and not one")),
    }
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
        Expectation::Ok(..) => TRIES_OK,
        Expectation::Echo | Expectation::Refused | Expectation::Timeout => TRIES,
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
        row: plan.row.label(),
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
