//! Whole clusters in network namespaces of this machine, with the real binary in them.
//!
//! Needs root, and fails without: a skipped test proves nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod acts;
mod agents;
mod bare;
mod families;
mod verb;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

use libtest_mimic::{Arguments, Trial};
use signpost_lab::{LabName, Options, Scoped, Topology};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Labs measure milliseconds: they do not share the machine with each other.
    arguments.test_threads.get_or_insert(1);
    let tests: [(&str, fn()); _] = [
        ("down_leaves_nothing_also_after_a_crash", bare::down_leaves_nothing_also_after_a_crash),
        ("pods_come_and_go", bare::pods_come_and_go),
        ("a_failed_up_leaves_nothing", bare::a_failed_up_leaves_nothing),
        ("probes_tell_outcomes_apart", bare::probes_tell_outcomes_apart),
        ("streams_count_what_is_lost", bare::streams_count_what_is_lost),
        ("arp_is_heard_and_asked", bare::arp_is_heard_and_asked),
        ("ndp_is_heard_and_asked", families::ndp_is_heard_and_asked),
        ("ipv6_outcomes_are_told_apart", families::ipv6_outcomes_are_told_apart),
        ("sctp_finds_who_listens", families::sctp_finds_who_listens),
        ("a_second_pod_has_both_families", families::a_second_pod_has_both_families),
        ("the_verb_builds_shows_and_ends_a_lab", verb::builds_shows_and_ends_a_lab),
        ("a_killed_demo_does_not_hinder_the_next", verb::a_killed_demo_does_not_hinder_the_next),
        ("without_root_one_sentence_says_so", verb::without_root_one_sentence_says_so),
        ("the_black_hole_is_as_reported", acts::the_black_hole_is_as_reported),
        ("the_acts_with_agents_hold", acts::the_acts_with_agents_hold),
        ("every_cell_is_as_expected", agents::every_cell_is_as_expected),
        ("every_kind_is_as_expected", agents::every_kind_is_as_expected),
        ("held_writes_announce_nothing", agents::held_writes_announce_nothing),
        ("a_hung_control_loop_stops_the_wire", agents::a_hung_control_loop_stops_the_wire),
        ("a_stopped_agent_wakes_up_silent", agents::a_stopped_agent_wakes_up_silent),
        ("a_killed_agent_is_replaced", agents::a_killed_agent_is_replaced),
        ("a_living_agent_is_not_started_again", agents::a_living_agent_is_not_started_again),
        (
            "a_returning_node_leaves_the_address_where_it_is",
            agents::a_returning_node_leaves_the_address_where_it_is,
        ),
    ];
    let trials = tests
        .into_iter()
        .map(|(name, test)| {
            Trial::test(name, move || {
                signpost_lab::root()?;
                test();
                Ok(())
            })
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The binary under test.
fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_signpost"))
}

/// A name that no other lab has: tests of several checkouts may run at once.
fn fresh_name() -> LabName {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("t{}-{count}", std::process::id()).parse().expect("digits and a dash")
}

/// The built-in topology, without agents.
fn bare_lab() -> Scoped {
    lab(false, &[])
}

/// The same in both families; with agents, if there are arguments for them.
fn dual_lab(agents: Option<&[&str]>) -> Scoped {
    up(Topology::default().with_ipv6(), agents)
}

fn lab(agents: bool, agent_args: &[&str]) -> Scoped {
    up(Topology::default(), agents.then_some(agent_args))
}

fn up(topology: Topology, agents: Option<&[&str]>) -> Scoped {
    let agent_args = agents.unwrap_or_default().iter().map(|a| (*a).to_owned()).collect();
    let options = Options { program: program(), agents: agents.is_some(), agent_args };
    Scoped::up(&fresh_name(), topology, options).expect("the lab comes up")
}
