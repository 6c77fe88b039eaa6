//! The tasks that cargo has no word for.
fn main() {}
