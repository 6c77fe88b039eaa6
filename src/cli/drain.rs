//! `signpost drain`, `signpost undrain`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

/// So many names fit into a sentence that is read.
const LISTED_MAX: usize = 8;

#[derive(clap::Args)]
pub(super) struct Drain {
    #[command(flatten)]
    agent: super::AgentSocket,
}

#[derive(Clone, Copy)]
pub(super) enum Direction {
    Off,
    Back,
}

pub(super) fn run(drain: &Drain, direction: Direction) -> Result<ExitCode> {
    let ask = |request| super::socket::ask(&drain.agent.socket, &json!({ "request": request }));
    let done = match direction {
        Direction::Off => {
            // Before: what moves at once is not in a later one.
            let status = ask("status")?;
            ask("drain")?;
            drained(&status)
        }
        Direction::Back => {
            ask("undrain")?;
            "undrained: this node may own addresses again".to_owned()
        }
    };
    writeln!(std::io::stdout(), "{done}")?;
    Ok(ExitCode::SUCCESS)
}

/// What follows from a drain for a node that said this of itself. Whether another member can serve
/// an address only that one knows, so nothing is promised.
fn drained(status: &Value) -> String {
    let named = |list: &str, key: &str, value: &str, name: &str| -> Vec<String> {
        let all = status[list].as_array().into_iter().flatten().filter(|one| one[key] == value);
        all.filter_map(|one| one[name].as_str()).map(str::to_owned).collect()
    };
    let owned = named("addresses", "verdict", "own", "address");
    let alive = named("members", "state", "alive", "name");
    if owned.is_empty() {
        "drained: this node owns no address, and takes one only if no other member can serve it"
            .to_owned()
    } else if alive.is_empty() {
        format!(
            "drained, but no other member is heard: this node goes on answering for {}",
            listed(&owned)
        )
    } else {
        format!(
            "drained: of {} other members ({}) take over what they can serve, the rest stays here: \
             see `signpost status`",
            listed(&owned),
            listed(&alive)
        )
    }
}

fn listed(names: &[String]) -> String {
    let shown = names.iter().take(LISTED_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_promises_no_more_than_the_node_knows() {
        let check = |owned: &[&str], alive: &[&str], expect: &str| {
            let own = owned.iter().map(|a| json!({"address": a, "verdict": "own"}));
            let other = json!({"address": "192.0.2.9", "verdict": "standby"});
            let members = alive.iter().map(|m| json!({"name": m, "state": "alive"}));
            let dead = json!({"name": "gone", "state": "dead"});
            let status = json!({
                "addresses": own.chain([other]).collect::<Vec<_>>(),
                "members": members.chain([dead]).collect::<Vec<_>>(),
            });
            assert_eq!(drained(&status), expect);
        };
        check(
            &[],
            &["b"],
            "drained: this node owns no address, and takes one only if no other member can serve it",
        );
        check(
            &["192.0.2.100"],
            &[],
            "drained, but no other member is heard: this node goes on answering for 192.0.2.100",
        );
        check(
            &["192.0.2.100", "192.0.2.101"],
            &["b", "c"],
            "drained: of 192.0.2.100, 192.0.2.101 other members (b, c) take over what they can \
             serve, the rest stays here: see `signpost status`",
        );
    }

    #[test]
    fn a_long_list_is_cut() {
        let names: Vec<_> = (0..LISTED_MAX + 2).map(|n| n.to_string()).collect();
        assert_eq!(listed(&names), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
    }
}
