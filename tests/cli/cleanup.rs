//! `signpost agent --cleanup`: ours goes, and nothing else.

use nix::sys::signal::Signal;

use crate::bed::Bed;

const FOREIGN: &str = "table ip other {
	chain signpost {
		counter packets 0 bytes 0
	}
}
table ip6 other {
}
";

#[test]
fn removes_ours_of_a_dead_agent_and_leaves_the_rest() {
    let bed = Bed::new();
    let node = bed.namespace("node-a").unwrap();
    node.command("nft", &["-f", "-"], FOREIGN).unwrap();
    let before = bed.rules("node-a");
    let socket = bed.socket("node-a").display().to_string();
    let cleanup = || bed.signpost("node-a", &["agent", "--cleanup", "--socket", &socket]);
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let agent = bed.owner("node-a", &[]);
        let running = bed.rules("node-a");
        let said = cleanup().refusal();
        assert!(said.contains("another agent"), "{said}");
        assert_eq!(bed.rules("node-a"), running);
        agent.end(signal);
        assert!(bed.rules("node-a").contains("table ip signpost"), "rules outlive their agent");
        assert!(cleanup().out().contains("removed 1"));
        assert_eq!(bed.rules("node-a"), before);
    }
    assert!(cleanup().out().contains("nothing of Signpost"));
}
