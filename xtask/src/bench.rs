//! `cargo xtask bench NAME`: a figure, and its ratio to a baseline of the same run.
//!
//! Each bench is a program of the workspace that prints its own lines; this task builds it as a
//! release build, runs it as root and shows where the figure belongs in `docs/performance.md`.

use anyhow::{Result, bail};

use crate::{machine, release, run, workspace};

/// A bench.
struct Bench {
    name: &'static str,
    what: &'static str,
    program: Program,
}

/// What measures it.
enum Program {
    /// An example of a crate.
    Example { package: &'static str, example: &'static str, arguments: &'static [&'static str] },
    /// The static binary itself.
    Signpost { arguments: &'static [&'static str] },
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "fullsync",
        what: "10,000 Services x 10 endpoints, world complete -> last acknowledgement; baseline nft -f",
        program: Program::Example {
            package: "signpost-forward",
            example: "fullsync",
            arguments: &[],
        },
    },
    Bench {
        name: "flips",
        what: "connections that fail while endpoints flip unthrottled, with and without guard rules",
        program: Program::Example { package: "signpost-forward", example: "flips", arguments: &[] },
    },
    Bench {
        name: "rss",
        what: "the agent's memory at 1,000 and 10,000 Services x 10 endpoints",
        program: Program::Signpost { arguments: &["lab", "bench", "rss"] },
    },
    Bench {
        name: "change",
        what: "one endpoint change at 10,000 Services, file written -> acknowledged, and in memory",
        program: Program::Signpost { arguments: &["lab", "bench", "change"] },
    },
    Bench {
        name: "cable",
        what: "the owner's cable pulled, 3 x 100 ms and 3 x 50 ms, 20 runs each",
        program: Program::Signpost { arguments: &["lab", "bench", "cable"] },
    },
    Bench {
        name: "drain",
        what: "datagrams and new connections lost while a node is drained",
        program: Program::Signpost { arguments: &["lab", "bench", "drain"] },
    },
    Bench {
        name: "restart",
        what: "long-lived connections reset while the agent restarts",
        program: Program::Signpost { arguments: &["lab", "bench", "restart"] },
    },
];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let Some((name, rest)) = arguments.split_first() else {
        for bench in BENCHES {
            println!("{:10} {}", bench.name, bench.what);
        }
        return Ok(());
    };
    let Some(bench) = BENCHES.iter().find(|bench| bench.name == name) else {
        let names: Vec<_> = BENCHES.iter().map(|bench| bench.name).collect();
        bail!("no bench `{name}`; there are {}", names.join(", "));
    };
    if !machine::is_root() {
        bail!("a bench makes network namespaces, which takes root");
    }
    machine::prepare()?;
    println!("{}: {}", bench.name, bench.what);
    measure(bench, rest)
}

fn measure(bench: &Bench, rest: &[String]) -> Result<()> {
    let mut command = match bench.program {
        Program::Example { package, example, arguments } => {
            let mut command = run::cargo(&workspace::root());
            command.args(["run", "--release", "--locked", "--quiet", "--package", package]);
            command.args(["--example", example, "--"]).args(arguments);
            command
        }
        Program::Signpost { arguments } => {
            let mut command = std::process::Command::new(release::build()?);
            command.args(arguments);
            command
        }
    };
    run::succeed(command.args(rest))
}
