//! Act 2: the same Service under Signpost.

use super::act::Act;
use crate::matrix::{self, Expected};
use crate::stage::{VIP, one_owner, publish, web};
use crate::{Error, Lab};

/// Plays it: from here on, the lab has agents.
pub fn served(lab: &mut Lab) -> Result<Act, Error> {
    let mut act = Act::new(
        2,
        "The same Service under Signpost: everybody is served, the client's address is kept",
        &["from", "what", "result", "answered by", "who saw", "expected"],
    );
    publish(lab, &["b1", "c1"])?;
    let nodes: Vec<String> = lab.topology().nodes.iter().map(|n| n.name.clone()).collect();
    lab.start_agents(&nodes)?;
    let owner = one_owner(lab, |_| true)?;
    act.tell(format!(
        "The same endpoints and policy, now type LoadBalancer with the address {VIP}. One `signpost \
         agent` runs\non each node. Of the nodes that can serve, {owner} announces the address."
    ));
    for cell in matrix::of_service(lab, web(&["b1", "c1"]), &Expected::built_in())? {
        let list = |l: Vec<String>| l.join(" ");
        let expected = match &cell.differs {
            None => cell.expected.result.clone(),
            Some(what) => format!("{} {:?}: {what}", cell.expected.result, cell.expected.pods),
        };
        act.row(
            [
                cell.from.clone(),
                cell.to.clone(),
                cell.result.to_string(),
                list(cell.pods.iter().map(|(pod, n)| format!("{pod}:{n}")).collect()),
                list(cell.client_seen.iter().map(ToString::to_string).collect()),
                expected,
            ],
            cell.differs.is_none(),
        );
    }
    Ok(act)
}
