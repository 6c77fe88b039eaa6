//! What is done with hostile bytes: each function must return, whatever it is given.
//!
//! libFuzzer calls them with what it makes up (`fuzz_targets/`), the test `damage` with the seeds and
//! damaged copies of them.

mod arp;
pub mod mesh;
mod ndp;
mod netlink;
mod yaml;

pub use arp::arp;
pub use ndp::ndp;
pub use netlink::netlink;
pub use yaml::yaml;
