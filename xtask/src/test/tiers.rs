//! The tiers, cheapest first.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use signpost_cluster::Components;

use super::tally::Tally;
use crate::{fuzz, licences, machine, mutants, release, rules, run, workspace};

/// A kind of checks.
pub(super) struct Tier {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) run: fn() -> Result<Tally>,
}

/// Tests that need the real components, or a guest.
const CLUSTER: &[&str] = &["kubernetes", "vm"];

pub(super) const TIERS: &[Tier] = &[
    Tier { name: "lints", what: "formatting, clippy, rules of the house, licences", run: lints },
    Tier { name: "docs", what: "the API documentation builds without a warning", run: docs },
    Tier {
        name: "unit",
        what: "libraries, programs and their examples in documentation",
        run: unit,
    },
    Tier { name: "kernel", what: "crates against this kernel, in namespaces", run: kernel },
    Tier {
        name: "binary",
        what: "one small static file that starts in an empty root",
        run: binary,
    },
    Tier { name: "lab", what: "whole clusters in namespaces, with the real agent", run: lab },
    Tier {
        name: "cluster",
        what: "the real Kubernetes components, beside what was recorded of them",
        run: cluster,
    },
    Tier { name: "fuzz", what: "hostile bytes against every parser", run: fuzzing },
    Tier { name: "mutants", what: "each promise broken on purpose", run: broken_promises },
];

fn lints() -> Result<Tally> {
    let root = workspace::root();
    let mut tally = Tally::default();
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let mut fmt = run::cargo(&root);
        fmt.args(["fmt", "--all", "--check", "--manifest-path", manifest]);
        tally.check("formatting", run::succeed(&mut fmt));
    }
    tally.check(
        "clippy",
        run::succeed(run::cargo(&root).args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ])),
    );
    tally.check("rules", rules::run());
    tally.check("licences", licences::run());
    Ok(tally)
}

fn docs() -> Result<Tally> {
    let mut command = run::cargo(&workspace::root());
    command.env("RUSTDOCFLAGS", "-D warnings").args([
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--locked",
    ]);
    let mut tally = Tally::default();
    tally.check("documentation", run::succeed(&mut command));
    Ok(tally)
}

fn unit() -> Result<Tally> {
    let mut tally = cargo_test(&["--workspace", "--lib", "--bins"])?;
    tally += cargo_test(&["--workspace", "--doc"])?;
    Ok(tally)
}

fn kernel() -> Result<Tally> {
    if !machine::is_root() {
        return Ok(Tally::skipped("network namespaces take root"));
    }
    integration_tests(|test| test.package != "signpost" && !CLUSTER.contains(&test.name))
}

fn binary() -> Result<Tally> {
    let binary = release::build()?;
    let mut tally = Tally::default();
    tally.check("size", release::is_small(&binary));
    tally.check("static", release::is_static(&binary));
    for (arguments, expect) in [
        (&["--version"][..], concat!("signpost ", env!("CARGO_PKG_VERSION"))),
        (&["agent", "--help"][..], "--source"),
    ] {
        tally.check(expect, release::starts_alone(&binary, arguments, expect));
    }
    Ok(tally)
}

fn lab() -> Result<Tally> {
    if !machine::is_root() {
        return Ok(Tally::skipped("a lab takes root"));
    }
    integration_tests(|test| test.package == "signpost" && !CLUSTER.contains(&test.name))
}

fn cluster() -> Result<Tally> {
    if !machine::is_root() {
        return Ok(Tally::skipped("a cluster takes root"));
    }
    let mut tally = Tally::default();
    tally.check("components", components());
    if tally.failed == 0 {
        tally.check("the components' own tests", module_tests());
        // Pods of ours are containers without a library in them.
        let binary = release::build()?;
        tally += integration_tests_with(&[("SIGNPOST_STATIC", &binary)], |test| {
            CLUSTER.contains(&test.name)
        })?;
    }
    Ok(tally)
}

/// Those of the Go module, with the flags that it was built with: all else would be built again.
fn module_tests() -> Result<()> {
    let mut command = Command::new("go");
    command.current_dir(workspace::root().join("tests/cluster"));
    run::succeed(command.args(["test", "-trimpath", "-vet=off", "-count=1", "./..."]))
}

/// Apart from the tests, which stay silent while they wait for it.
fn components() -> Result<()> {
    Components::build(&workspace::root(), |what| println!("{what}"))?;
    Ok(())
}

fn fuzzing() -> Result<Tally> {
    let (passed, failed) = fuzz::smoke()?;
    Ok(Tally { passed, failed, ..Tally::default() })
}

fn broken_promises() -> Result<Tally> {
    if !machine::is_root() {
        return Ok(Tally::skipped("some of the tests that must notice a mutant take root"));
    }
    let (passed, failed) = mutants::all(&[])?;
    Ok(Tally { passed, failed, ..Tally::default() })
}

/// An integration test of a package.
struct IntegrationTest<'a> {
    package: &'a str,
    name: &'a str,
}

/// Some of them. Cargo is told of all packages: of fewer, it would build what they depend on
/// once more, with fewer features.
fn integration_tests(wanted: fn(&IntegrationTest<'_>) -> bool) -> Result<Tally> {
    integration_tests_with(&[], wanted)
}

fn integration_tests_with(
    environment: &[(&str, &Path)],
    wanted: fn(&IntegrationTest<'_>) -> bool,
) -> Result<Tally> {
    let packages = workspace::members()?;
    let tests = packages.iter().flat_map(|package| {
        package.tests.iter().map(|name| IntegrationTest { package: &package.name, name })
    });
    let named = tests.filter(wanted).flat_map(|test| ["--test", test.name]);
    cargo_test_with(environment, &["--workspace"].into_iter().chain(named).collect::<Vec<_>>())
}

/// `cargo test`, all of it even if something fails, with its results counted.
fn cargo_test(arguments: &[&str]) -> Result<Tally> {
    cargo_test_with(&[], arguments)
}

fn cargo_test_with(environment: &[(&str, &Path)], arguments: &[&str]) -> Result<Tally> {
    let mut command: Command = run::cargo(&workspace::root());
    command.envs(environment.iter().copied());
    command.args(["test", "--locked", "--no-fail-fast"]).args(arguments);
    let mut tally = Tally::default();
    let status = run::streamed(&mut command, |line| tally.read(line))?;
    if !status.success() && tally.failed == 0 {
        bail!("`{}` failed without a failed test: {status}", run::shown(&command));
    }
    Ok(tally)
}
