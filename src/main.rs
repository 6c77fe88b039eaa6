//! Signpost.
fn main() {}
