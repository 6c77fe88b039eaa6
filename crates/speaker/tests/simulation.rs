//! Crowds of speakers under faults: never two owners that hear each other, nor none, for long.

mod sim;

use std::time::Duration;

use sim::{Size, run};

fn size(members: usize, addresses: usize) -> Size {
    Size { members, addresses, length: Duration::from_secs(65), faults: 8, log: false }
}

#[test]
fn two_hundred_seeds() {
    for seed in 0..200 {
        let outcome = run(seed, size(3 + seed as usize % 8, 20));
        assert_eq!(
            outcome.violations, [""; 0],
            "replay: cargo run -p signpost-speaker --example simulate -- --seed {seed}"
        );
        assert!(outcome.faults >= 5 && outcome.moves >= 20, "{outcome:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let logged = |seed| run(seed, Size { log: true, ..size(5, 20) }).log;
    assert_eq!(logged(7), logged(7));
    assert_ne!(logged(7), logged(8));
}
