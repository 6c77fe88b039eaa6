//! What a client and the other members see when an owner goes, comes, stands still or is told to.

mod segment;

use std::time::Duration;

use segment::{Segment, both, ms};
use signpost_speaker::{Command, Event, Gate, MemberState};

#[test]
fn one_of_three_answers_and_all_agree_who() {
    both(|vip| {
        let mut s = Segment::settled(vip, 3);
        let owner = s.owner();
        for node in &s.nodes {
            let last = node.events.iter().rev().find_map(|(_, e)| match e {
                Event::Owner(a, o) if *a == vip => o.clone(),
                Event::Owner(..)
                | Event::Member(..)
                | Event::CutOff(_)
                | Event::LeaseLapsed(_)
                | Event::WrongKey(_)
                | Event::Conflict { .. }
                | Event::Stalled(_) => None,
            });
            assert_eq!(last.unwrap(), (&*segment::name(owner)).into());
        }
    });
}

#[test]
fn alone_it_claims_after_it_has_listened() {
    both(|vip| {
        let mut s = Segment::new(vip, 1, None);
        assert_eq!(s.ask(), []);
        s.run(ms(399));
        assert_eq!(s.ask(), []);
        s.run(ms(1));
        assert_eq!(s.ask(), [0]);
    });
}

#[test]
fn a_pulled_cable_is_noticed_within_the_detection_time() {
    both(|vip| {
        let mut s = Segment::settled(vip, 3);
        let owner = s.owner();
        let (before, pulled) = (s.frames.len(), s.now);
        s.nodes[owner].cable = false;
        s.run(ms(301));
        let first = s.announced_since(before).into_iter().find(|(_, i)| *i != owner);
        assert!(first.unwrap().0 - pulled.0 <= ms(300));
        assert_ne!(s.owner(), owner);
        s.run(ms(100));
        s.nodes[owner].cable = true;
        assert_ne!(s.owner(), owner, "cut off from members and gateway, it stops by itself");
    });
}

#[test]
fn who_still_reaches_the_gateway_goes_on_alone() {
    both(|vip| {
        let mut s = Segment::settled(vip, 2);
        let owner = s.owner();
        s.nodes[1 - owner].cable = false;
        s.run(ms(5000));
        assert_eq!(s.owner(), owner);
        s.gateway = false;
        s.run(ms(600));
        assert_eq!(s.ask(), []);
        assert!(s.nodes[owner].events.iter().any(|(_, e)| *e == Event::CutOff(true)));
        s.gateway = true;
        s.run(ms(1000));
        assert_eq!(s.owner(), owner);
    });
}

#[test]
fn an_owner_that_stood_still_answers_nothing_when_it_runs_again() {
    both(|vip| {
        for asleep in [ms(350), ms(1500), ms(20_000)] {
            let mut s = Segment::settled(vip, 3);
            let owner = s.owner();
            s.nodes[owner].runs = false;
            let before = s.frames.len();
            // Questions wait in its socket meanwhile.
            for _ in 0..10 {
                s.run(asleep / 10);
                s.ask();
            }
            let moved = asleep > ms(1000);
            s.nodes[owner].runs = true;
            s.wake(owner);
            s.carry();
            s.ask();
            assert!(!s.answers_since(before).contains(&owner), "{asleep:?}");
            assert!(s.nodes[owner].events.iter().any(|(_, e)| matches!(e, Event::Stalled(_))));
            s.run(ms(1000));
            assert_eq!(s.owner() != owner, moved, "{asleep:?}");
            let announced = s.announced_since(before);
            assert_eq!(
                announced.iter().all(|(_, i)| *i != owner),
                moved,
                "{asleep:?}: {announced:?}"
            );
        }
    });
}

#[test]
fn a_hung_owner_whose_kernel_answers_keeps_its_address_for_the_grace() {
    both(|vip| {
        let mut s = Segment::settled(vip, 3);
        let owner = s.owner();
        s.nodes[owner].runs = false;
        s.run(ms(890));
        assert_eq!(s.ask(), [], "moved before the grace was over");
        s.run(ms(210));
        assert_ne!(s.owner(), owner);
    });
}

#[test]
fn without_its_lease_a_node_says_nothing_and_tells_the_others() {
    both(|vip| {
        let mut s = Segment::settled(vip, 3);
        let owner = s.owner();
        let until = s.now + ms(500);
        s.order(owner, Command::Lease(until));
        s.run(ms(499));
        assert_eq!(s.owner(), owner);
        let before = s.frames.len();
        s.run(ms(1));
        assert_ne!(s.owner(), owner);
        s.run(Duration::from_secs(120));
        assert!(s.announced_since(before).iter().all(|(_, i)| *i != owner));
        assert!(s.nodes[owner].events.iter().any(|(_, e)| *e == Event::LeaseLapsed(true)));
    });
}

#[test]
fn a_lapsed_lease_stops_answers_even_before_the_wake() {
    both(|vip| {
        let mut s = Segment::settled(vip, 1);
        assert_eq!(s.ask(), [0]);
        let until = s.now + ms(50);
        s.order(0, Command::Lease(until));
        s.now = until;
        assert_eq!(s.ask(), []);
    });
}

#[test]
fn a_shut_gate_moves_the_address_at_once() {
    both(|vip| {
        for gate in [|_| Gate::Shut, Gate::ShutAt] {
            let mut s = Segment::settled(vip, 3);
            let owner = s.owner();
            let at = s.now + ms(20);
            s.order(owner, Command::Gate(vip, gate(at)));
            s.run(ms(20));
            assert_ne!(s.owner(), owner);
        }
    });
}

#[test]
fn damage_upon_damage_gains_no_time() {
    both(|vip| {
        let mut s = Segment::settled(vip, 3);
        let owner = s.owner();
        for _ in 0..5 {
            let at = s.now + ms(20);
            s.order(owner, Command::Gate(vip, Gate::ShutAt(at)));
            s.run(ms(5));
        }
        assert_ne!(s.owner(), owner);
    });
}

#[test]
fn a_gate_opened_again_in_time_moves_nothing() {
    both(|vip| {
        let mut s = Segment::settled(vip, 3);
        let owner = s.owner();
        let at = s.now + ms(20);
        s.order(owner, Command::Gate(vip, Gate::ShutAt(at)));
        s.run(ms(19));
        s.open(owner, 1);
        s.run(ms(1000));
        assert_eq!(s.owner(), owner);
    });
}

#[test]
fn a_drained_owner_answers_until_another_has_claimed() {
    both(|vip| {
        let mut s = Segment::settled(vip, 3);
        let owner = s.owner();
        let now = s.now;
        let before = s.frames.len();
        // The order alone: its datagram is on the way.
        let node = &mut s.nodes[owner];
        let open = Gate::Open { links: vec![segment::ETH0], weight: 0 };
        let order = signpost_speaker::Input::Command(Command::Gate(vip, open));
        signpost_speaker::Machine::handle(&mut node.speaker, now, order);
        assert_eq!(node.speaker.answering(now).count(), 1);
        s.carry();
        assert_ne!(s.owner(), owner);
        assert_eq!(s.announced_since(before).first().unwrap().0, now.0, "announced at once");
    });
}

#[test]
fn if_all_are_drained_nothing_moves() {
    both(|vip| {
        let mut s = Segment::settled(vip, 3);
        let owner = s.owner();
        for i in 0..3 {
            s.open(i, 0);
        }
        s.run(ms(1000));
        let mut first = s.owner();
        s.run(ms(20_000));
        assert_eq!(s.owner(), first);
        // And back.
        s.open(owner, 1);
        s.run(ms(100));
        first = s.owner();
        assert_eq!(first, owner);
    });
}

#[test]
fn an_announced_restart_moves_nothing() {
    both(|vip| {
        let mut s = Segment::settled(vip, 3);
        let owner = s.owner();
        let before = s.frames.len();
        s.order(owner, Command::Leave(Some(ms(3000))));
        s.nodes[owner].runs = false;
        s.run(ms(2000));
        s.restart(owner, 2);
        s.run(ms(150));
        assert_eq!(s.owner(), owner);
        s.run(ms(30_000));
        assert_eq!(s.owner(), owner);
        assert!(s.announced_since(before).iter().all(|(_, i)| *i == owner));
    });
}

#[test]
fn an_announced_restart_that_takes_longer_moves_everything() {
    both(|vip| {
        let mut s = Segment::settled(vip, 3);
        let owner = s.owner();
        s.order(owner, Command::Leave(Some(ms(3000))));
        s.nodes[owner].runs = false;
        s.run(ms(2990));
        assert_eq!(s.ask(), []);
        s.run(ms(10));
        assert_ne!(s.owner(), owner);
    });
}

#[test]
fn who_leaves_for_good_is_followed_at_once_and_answers_until_then() {
    both(|vip| {
        let mut s = Segment::settled(vip, 3);
        let owner = s.owner();
        let now = s.now;
        let bye = signpost_speaker::Input::Command(Command::Leave(None));
        signpost_speaker::Machine::handle(&mut s.nodes[owner].speaker, now, bye);
        assert_eq!(s.nodes[owner].speaker.answering(now).count(), 1);
        s.carry();
        assert_ne!(s.owner(), owner);
    });
}

#[test]
fn a_returning_member_waits_then_takes_what_hashing_gives_it_without_a_gap() {
    both(|vip| {
        let mut s = Segment::settled(vip, 3);
        let owner = s.owner();
        s.nodes[owner].runs = false;
        s.nodes[owner].cable = false;
        s.run(ms(5000));
        let second = s.owner();
        s.nodes[owner].cable = true;
        s.restart(owner, 2);
        s.run(ms(9900));
        assert_eq!(s.owner(), second);
        s.run(ms(600));
        assert_eq!(s.owner(), owner);
    });
}

#[test]
fn two_that_meet_again_agree_at_once_and_the_winner_has_the_last_word() {
    both(|vip| {
        let mut s = Segment::settled(vip, 2);
        let owner = s.owner();
        // No gateway is known to either, so that both go on.
        for i in 0..2 {
            let link = signpost_speaker::Link { gateway: None, ..s.link(i, true) };
            s.order(i, Command::Links(vec![link]));
        }
        s.nodes[1 - owner].cable = false;
        s.run(ms(1000));
        s.nodes[1 - owner].cable = true;
        assert_eq!(s.ask().len(), 2);
        let before = s.frames.len();
        s.run(ms(110));
        assert_eq!(s.owner(), owner);
        assert_eq!(s.announced_since(before).last().unwrap().1, owner);
    });
}

#[test]
fn where_only_the_mesh_is_broken_the_answering_owner_is_left_alone() {
    both(|vip| {
        let mut s = Segment::settled(vip, 2);
        let owner = s.owner();
        for i in 0..2 {
            s.nodes[i].hears_mesh = false;
        }
        s.run(ms(10_000));
        assert_eq!(s.owner(), owner);
        let suspect = Event::Member((&*segment::name(owner)).into(), MemberState::Suspect);
        assert!(s.nodes[1 - owner].events.iter().any(|(_, e)| *e == suspect));
        s.order(owner, Command::Gate(vip, Gate::Shut));
        s.run(ms(1200));
        assert_ne!(s.owner(), owner);
    });
}

#[test]
fn a_member_that_was_never_heard_is_named_once() {
    both(|vip| {
        let mut s = Segment::settled(vip, 1);
        let peers = vec![("n1".into(), segment::node_address(1).into())];
        for _ in 0..2 {
            s.order(0, Command::Peers(peers.clone()));
            s.run(ms(1000));
        }
        let members = s.nodes[0].events.iter().filter(|(_, e)| matches!(e, Event::Member(..)));
        let members: Vec<_> = members.map(|(_, e)| e.clone()).collect();
        assert_eq!(members, [Event::Member("n1".into(), MemberState::NeverHeard)]);
    });
}

#[test]
fn a_thousand_gates_opened_in_one_turn_are_told_in_few_datagrams() {
    both(|vip| {
        let mut s = Segment::settled(vip, 2);
        let before = s.datagrams.len();
        let (now, speaker) = (s.now, &mut s.nodes[0].speaker);
        for i in 0..1000u32 {
            let address = std::net::Ipv4Addr::from(0x0a01_0000 + i);
            let gate = Gate::Open { links: vec![segment::ETH0], weight: 1 };
            let order = Command::Gate(address.into(), gate);
            signpost_speaker::Machine::handle(
                speaker,
                now,
                signpost_speaker::Input::Command(order),
            );
        }
        s.carry();
        let told = s.datagrams.len() - before;
        assert!(told < 40, "{told}");
        s.run(ms(300));
        let known = s.nodes[1].events.iter().filter(|(_, e)| matches!(e, Event::Owner(_, Some(_))));
        assert_eq!(known.count(), 1001);
    });
}
