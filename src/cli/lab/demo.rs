//! `signpost lab demo`.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;
use signpost_lab::demo::{Act, black_hole, picture, with_agents};
use signpost_lab::{LabName, Scoped, Topology};

#[derive(Args)]
pub(super) struct Demo {
    /// What its lab is called; it is up only while the demo runs
    #[arg(long, default_value = "demo", value_parser = super::lab_name)]
    name: LabName,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

pub(super) fn run(demo: &Demo, out: &mut impl Write) -> Result<ExitCode> {
    let start = Instant::now();
    let text = demo.output == Output::Text;
    // Nothing shall come home in the middle of another act.
    let patient = ["--preempt-delay-ms", "600000"].map(str::to_owned).to_vec();
    let options = super::options(false, patient)?;
    let mut lab = Scoped::up(&demo.name, Topology::default(), options)?;
    if text {
        writeln!(
            out,
            "Three machines, a switch, a Service and no cloud: network namespaces of this machine, \
             with\nreal kernels and real packets. Built in {} ms.\n",
            start.elapsed().as_millis()
        )?;
        write!(out, "{}", picture(lab.topology(), &["b1", "c1"]))?;
    }
    let mut acts: Vec<Act> = Vec::new();
    let mut show = |act: Act| -> Result<()> {
        if text {
            write!(out, "{}", act.text())?;
            out.flush()?;
        }
        acts.push(act);
        Ok(())
    };
    show(black_hole(&lab)?)?;
    with_agents(&mut lab, &mut show)?;
    let holds = acts.iter().all(Act::holds);
    let seconds = start.elapsed().as_secs_f64();
    if text {
        writeln!(out, "\n{} acts in {seconds:.1} s", acts.len())?;
    } else {
        let all = json!({
            "topology": lab.topology(), "acts": acts, "holds": holds, "seconds": seconds,
        });
        writeln!(out, "{all:#}")?;
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
