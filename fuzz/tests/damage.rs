//! The seeds, and damaged copies of them, on any compiler.

use std::panic::catch_unwind;
use std::path::Path;

/// Each seed is flipped and cut at so many places at most, evenly spread.
const PLACES: usize = 512;

#[test]
fn arp() {
    check("arp", signpost_fuzz::arp);
}

#[test]
fn mesh() {
    check("mesh", signpost_fuzz::mesh::mesh);
}

/// Otherwise they are of another version: `cargo run --example record` makes them anew.
#[test]
fn the_recorded_member_is_heard() {
    let talk = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds/mesh/talk");
    assert!(signpost_fuzz::mesh::heard(&std::fs::read(talk).unwrap()) > 0);
}

#[test]
fn ndp() {
    check("ndp", signpost_fuzz::ndp);
}

#[test]
fn netlink() {
    check("netlink", signpost_fuzz::netlink);
}

#[test]
fn yaml() {
    check("yaml", signpost_fuzz::yaml);
}

fn check(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let mut seeds = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let seed = std::fs::read(&path).unwrap();
        seeds += 1;
        for bytes in damaged(&seed) {
            let outcome = catch_unwind(|| run(&bytes));
            assert!(outcome.is_ok(), "{}, damaged: {bytes:02x?}", path.display());
        }
    }
    assert!(seeds > 0, "no seeds in {}", folder.display());
}

/// The seed itself, cut short, with a byte changed, and with bytes doubled or missing.
fn damaged(seed: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let step = seed.len().div_ceil(PLACES).max(1);
    let at = move || (0..seed.len()).step_by(step);
    let cut = at().map(|i| seed[..i].to_vec());
    let changed = at().flat_map(move |i| {
        [0x00, 0x01, 0x7f, 0x80, 0xff, seed[i] ^ 0x20].map(|byte| {
            let mut bytes = seed.to_vec();
            bytes[i] = byte;
            bytes
        })
    });
    let doubled = at().map(|i| [&seed[..i], &seed[i / 2..]].concat());
    let missing = at().map(|i| [&seed[..i / 2], &seed[i..]].concat());
    std::iter::once(seed.to_vec()).chain(cut).chain(changed).chain(doubled).chain(missing)
}
