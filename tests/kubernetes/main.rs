//! The real Kubernetes components on labs: what an API server, its controllers and kube-proxy do.
//!
//! Needs root and Go, and fails without: a skipped test proves nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "people want to see how many cells there were"
)]

mod bed;
mod deployments;
mod ends;
mod matrices;
mod pods_of_ours;
mod snapshots;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use signpost_cluster::{Mode, guest, truth::Recording};

use bed::Bed;

type Test = fn(&Bed);

const TESTS: &[(&str, Test)] = &[
    ("a_cluster_ends_without_a_trace", ends::a_cluster_ends_without_a_trace),
    ("nftables_reaches_a_deployment", |bed| deployments::is_reached(bed, Mode::Nftables)),
    ("iptables_reaches_a_deployment", |bed| deployments::is_reached(bed, Mode::Iptables)),
    ("controllers_roll_pods_over", deployments::rolls_over),
    ("pods_of_ours_are_the_real_agent", pods_of_ours::are_the_real_agent),
    ("a_snapshot_has_what_a_case_has", snapshots::has_what_a_case_has),
    ("nftables_does_as_recorded", |bed| matrices::holds(bed, Recording::Nftables)),
    ("iptables_does_as_recorded", |bed| matrices::holds(bed, Recording::Iptables)),
    ("ipvs_does_as_recorded_with_one_pod", |bed| matrices::holds(bed, Recording::IpvsOnePod)),
    ("ipvs_does_as_recorded_behind_keepalived", |bed| {
        matrices::holds(bed, Recording::IpvsKeepalived);
    }),
];

fn main() -> ExitCode {
    let own: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(asked) = guest::run(&own) {
        return asked.unwrap_or_else(|error| {
            // The cluster outside reads it.
            eprintln!("{error}");
            ExitCode::FAILURE
        });
    }
    let mut arguments = Arguments::from_args();
    // Clusters share two processors at best: one test at a time.
    arguments.test_threads.get_or_insert(1);
    let bed: &'static Bed = Box::leak(Box::default());
    let trials = TESTS.iter().map(|(name, test)| {
        Trial::test(*name, move || {
            signpost_lab::root()?;
            test(bed);
            Ok(())
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    bed.end();
    conclusion.exit_code()
}
