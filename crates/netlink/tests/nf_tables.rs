//! nf_tables against this kernel and the nft program.

mod namespace;
mod sample;

use namespace::{in_new, nft_load, sh, try_sh};
use signpost_netlink::nf_tables::{CommitError, Session};
use signpost_nft::{Family, Table};

fn session_with_sample() -> (Session, Table, sample::Elements) {
    let (table, elements) = sample::table();
    let mut session = Session::open().unwrap();
    let changes = sample::changes(&table, &elements);
    session.commit(Family::Ip, "signpost", &changes).unwrap();
    (session, table, elements)
}

#[test]
fn what_is_committed_is_read_back_equal() {
    in_new(|| {
        let (mut session, table, elements) = session_with_sample();
        let (have, have_elements) = session.read(Family::Ip, "signpost").unwrap().unwrap();
        assert_eq!(have, table);
        assert_eq!(have_elements, elements);
        assert!(session.read(Family::Ip, "other").unwrap().is_none());
    });
}

#[test]
fn the_printed_table_is_what_nft_lists_and_loads() {
    in_new(|| {
        let (mut session, table, elements) = session_with_sample();
        let printed = signpost_nft::display::ruleset(&table, &elements);
        assert_eq!(printed, sh("nft list ruleset"));

        sh("nft flush ruleset");
        nft_load(&printed);
        let (have, mut have_elements) = session.read(Family::Ip, "signpost").unwrap().unwrap();
        assert_eq!(have, table);
        // nft marks the end of the gap before the first range.
        let gap_end = have_elements.get_mut("pods").unwrap().remove(0);
        assert!(gap_end.interval_end);
        assert_eq!(have_elements, elements);
    });
}
