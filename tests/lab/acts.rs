//! The demo's acts come out as they should.

use signpost_lab::demo::{Act, black_hole, with_agents};

use crate::{bare_lab, lab};

fn holds(act: &Act) {
    assert!(act.holds(), "{}", act.text());
}

pub(crate) fn the_black_hole_is_as_reported() {
    holds(&black_hole(&bare_lab()).unwrap());
}

pub(crate) fn the_acts_with_agents_hold() {
    let mut lab = lab(false, &["--preempt-delay-ms", "600000"]);
    with_agents(&mut lab, |act| {
        holds(&act);
        Ok::<_, signpost_lab::Error>(())
    })
    .unwrap();
}
