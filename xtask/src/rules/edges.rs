//! Who may depend on whom.

use crate::workspace::Package;

/// A crate, the crates of ours below it, and what it may take from elsewhere.
struct Room {
    name: &'static str,
    below: &'static [&'static str],
    outside: Outside,
}

enum Outside {
    /// Only [`PURE`] ones.
    Pure,
    /// Any.
    Any,
}

/// Crates of others that hold no socket, clock, thread or lock, so that pure crates may take them.
const PURE: &[&str] = &["ipnet", "ring", "siphasher", "thiserror"];

const ROOMS: &[Room] = &[
    Room { name: "signpost-report", below: &[], outside: Outside::Pure },
    Room { name: "signpost-packet", below: &[], outside: Outside::Pure },
    Room { name: "signpost-nft", below: &[], outside: Outside::Pure },
    Room { name: "signpost-plan", below: &["signpost-report"], outside: Outside::Pure },
    Room {
        name: "signpost-speaker",
        below: &["signpost-packet", "signpost-plan"],
        outside: Outside::Pure,
    },
    Room { name: "signpost-netlink", below: &["signpost-nft"], outside: Outside::Any },
    Room {
        name: "signpost-api",
        below: &["signpost-plan", "signpost-report"],
        outside: Outside::Any,
    },
    Room {
        name: "signpost-forward",
        below: &["signpost-plan", "signpost-nft", "signpost-netlink"],
        outside: Outside::Any,
    },
    // Not on plan: what a lab expects is written by hand, never computed by the code under test.
    Room {
        name: "signpost-lab",
        below: &["signpost-netlink", "signpost-nft", "signpost-packet", "signpost-report"],
        outside: Outside::Any,
    },
    Room {
        name: "signpost",
        below: &[
            "signpost-api",
            "signpost-forward",
            "signpost-lab",
            "signpost-netlink",
            "signpost-nft",
            "signpost-packet",
            "signpost-plan",
            "signpost-report",
            "signpost-speaker",
        ],
        outside: Outside::Any,
    },
    Room { name: "signpost-cluster", below: &["signpost-lab"], outside: Outside::Any },
    Room { name: "xtask", below: &["signpost-cluster", "signpost-lab"], outside: Outside::Any },
];

/// What the manifests break. Dependencies of tests are free.
pub(super) fn broken(packages: &[Package]) -> Vec<String> {
    let mut broken = Vec::new();
    for package in packages {
        let Some(room) = ROOMS.iter().find(|room| room.name == package.name) else {
            broken.push(format!(
                "{}: not in the list of rooms of xtask/src/rules/edges.rs",
                package.name
            ));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.dev) {
            let name = dependency.name.as_str();
            let allowed = if is_ours(name) {
                room.below.contains(&name)
            } else {
                match room.outside {
                    Outside::Pure => PURE.contains(&name),
                    Outside::Any => true,
                }
            };
            if !allowed {
                broken.push(format!("{} must not depend on {name}", package.name));
            }
        }
        broken.extend(lints_of(package));
    }
    broken
}

fn is_ours(name: &str) -> bool {
    name == "signpost" || name.starts_with("signpost-")
}

/// Without `[lints] workspace = true` a crate escapes the ban of `unsafe`, `unwrap` and printing.
fn lints_of(package: &Package) -> Option<String> {
    let manifest = std::fs::read_to_string(package.folder.join("Cargo.toml")).unwrap_or_default();
    let inherits = manifest.contains("[lints]\nworkspace = true");
    (!inherits).then(|| format!("{} does not inherit the workspace's lints", package.name))
}

#[cfg(test)]
mod tests {
    use super::broken;
    use crate::workspace::{Dependency, Package, root};

    fn check(name: &str, folder: &str, dependency: &str, dev: bool) -> Vec<String> {
        broken(&[Package {
            name: name.into(),
            version: String::new(),
            licence: None,
            folder: root().join(folder),
            tests: Vec::new(),
            dependencies: vec![Dependency { name: dependency.into(), dev }],
        }])
    }

    #[test]
    fn an_edge_upwards_is_found() {
        assert_eq!(
            check("signpost-plan", "crates/plan", "signpost-api", false),
            ["signpost-plan must not depend on signpost-api"]
        );
        assert_eq!(check("signpost-plan", "crates/plan", "signpost-report", false), [""; 0]);
    }

    #[test]
    fn a_pure_crate_takes_no_runtime_but_its_tests_may() {
        assert_eq!(
            check("signpost-speaker", "crates/speaker", "tokio", false),
            ["signpost-speaker must not depend on tokio"]
        );
        assert_eq!(check("signpost-speaker", "crates/speaker", "proptest", true), [""; 0]);
    }

    #[test]
    fn an_unknown_crate_is_found() {
        assert_eq!(check("signpost-bgp", "crates/plan", "anyhow", false).len(), 1);
    }

    #[test]
    fn a_crate_that_escapes_the_lints_is_found() {
        assert_eq!(
            check("signpost-plan", "crates", "signpost-report", false),
            ["signpost-plan does not inherit the workspace's lints"]
        );
    }
}
