//! `cargo xtask cluster`: the real Kubernetes components on a lab, to try things by hand.

use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use signpost_cluster::truth::{self, Recording};
use signpost_cluster::{Cluster, Components, Mode, Options, snapshot};
use signpost_lab::{LabName, Topology};

use crate::{machine, release, workspace};

const USAGE: &str = "\
cargo xtask cluster up [--name NAME] [--mode nftables|iptables|ipvs|none] [--nodes 3]
                    down [--name NAME]
                    kubectl [--name NAME] ARGUMENTS...   (--name comes first)
                    exec [--name NAME] MEMBER COMMAND...
                    logs [--name NAME] [COMPONENT | NODE/NAMESPACE_POD_CONTAINER]
                    snapshot [--name NAME] FOLDER
                    matrix [--mode nftables|iptables|ipvs]";

/// Which cluster, if it is not said.
const NAME: &str = "cluster";

/// More nodes than this is no cluster for one machine: each runs a kube-proxy.
const NODES_MAX: u8 = 26;

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    name: LabName,
    verb: Verb,
}

#[derive(Debug, PartialEq, Eq)]
enum Verb {
    Up { mode: Mode, nodes: u8 },
    Down,
    Kubectl(Vec<String>),
    Exec(Vec<String>),
    Logs(Option<String>),
    Snapshot(PathBuf),
    Matrix(Mode),
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let help = |word: &String| matches!(word.as_str(), "help" | "--help" | "-h");
    if arguments.is_empty() || arguments.iter().take(2).any(help) {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    }
    let Asked { name, verb } = parse(arguments)?;
    match verb {
        Verb::Up { mode, nodes } => up(&name, mode, nodes)?,
        Verb::Down => {
            let was = signpost_cluster::down(&name)?;
            println!("cluster {name} {}", if was { "is down" } else { "was not up" });
        }
        Verb::Kubectl(arguments) => {
            return Ok(code(Cluster::attach(&name)?.kubectl_here(&arguments)?));
        }
        Verb::Exec(words) => {
            return Ok(code(Cluster::attach(&name)?.run_here(&words)?));
        }
        Verb::Logs(component) => logs(&Cluster::attach(&name)?, component.as_deref())?,
        Verb::Snapshot(folder) => {
            let count = snapshot::write(&Cluster::attach(&name)?, &folder)?;
            println!("{count} files in {}", folder.display());
        }
        Verb::Matrix(mode) => matrix(mode)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn parse(arguments: &[String]) -> Result<Asked> {
    let (verb, rest) = arguments.split_first().context(USAGE)?;
    let mut name = NAME.to_owned();
    let (mut mode, mut nodes) = (None, None);
    let mut words = Vec::new();
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value.to_owned())),
            Some(_) | None => (word.as_str(), None),
        };
        let mut value = || {
            let value = value.clone().or_else(|| rest.next().cloned());
            value.with_context(|| format!("{option} needs a value\n\n{USAGE}"))
        };
        match (verb.as_str(), option) {
            // What follows the first word is kubectl's, or the command's.
            ("kubectl" | "exec", _) if !words.is_empty() => words.push(word.clone()),
            (_, "--name") => name = value()?,
            ("up" | "matrix", "--mode") => {
                mode = Some(value()?.parse().map_err(anyhow::Error::msg)?)
            }
            ("up", "--nodes") => nodes = Some(value()?),
            ("kubectl" | "exec" | "logs" | "snapshot", _) => words.push(word.clone()),
            _ => bail!("`{word}` is no argument of cargo xtask cluster {verb}\n\n{USAGE}"),
        }
    }
    let nodes = nodes.map_or(Ok(3), |text| match text.parse() {
        Ok(count) if (1..=NODES_MAX).contains(&count) => Ok(count),
        Ok(_) | Err(_) => bail!("--nodes {text}: a cluster has 1 to {NODES_MAX} nodes"),
    })?;
    let verb = match verb.as_str() {
        "up" => Verb::Up { mode: mode.unwrap_or(Mode::Nftables), nodes },
        "down" => Verb::Down,
        "kubectl" if words.is_empty() => bail!("kubectl needs arguments, as `get nodes`"),
        "kubectl" => Verb::Kubectl(words),
        "exec" if words.len() < 2 => bail!("exec needs a member and a command\n\n{USAGE}"),
        "exec" => Verb::Exec(words),
        "matrix" => match mode.unwrap_or(Mode::Nftables) {
            Mode::None => bail!("--mode none: without kube-proxy there is nothing to measure"),
            mode @ (Mode::Nftables | Mode::Iptables | Mode::Ipvs) => Verb::Matrix(mode),
        },
        "logs" if words.len() > 1 => bail!("one component at a time\n\n{USAGE}"),
        "logs" => Verb::Logs(words.pop()),
        "snapshot" => match &words[..] {
            [folder] => Verb::Snapshot(folder.into()),
            _ => bail!("snapshot needs one folder, which it makes\n\n{USAGE}"),
        },
        unknown => bail!("no `cargo xtask cluster {unknown}`\n\n{USAGE}"),
    };
    Ok(Asked { name: name.parse()?, verb })
}

fn up(name: &LabName, mode: Mode, nodes: u8) -> Result<()> {
    // Before minutes of building.
    if name.directory().exists() {
        return Err(signpost_cluster::Error::Exists(name.to_string()).into());
    }
    let options = options(mode, Topology::of_nodes(nodes))?;
    let began = Instant::now();
    let cluster = Cluster::up(name, options)?;
    let option = if name.to_string() == NAME { String::new() } else { format!(" --name {name}") };
    println!("cluster {name} is up after {:.1} s", began.elapsed().as_secs_f64());
    println!("kubeconfig, for programs on its nodes: {}", cluster.kubeconfig().display());
    println!("try: cargo xtask cluster kubectl{option} get nodes");
    println!("end: cargo xtask cluster down{option}");
    Ok(())
}

fn options(mode: Mode, topology: Topology) -> Result<Options> {
    signpost_lab::root()?;
    machine::prepare()?;
    let components = Components::build(&workspace::root(), |what| println!("{what}"))?;
    let signpost = release::build()?;
    let image = workspace::root().join("target/cluster/vm");
    Ok(Options { mode, topology, signpost, components, image })
}

/// Measures on a cluster of its own, and ends it.
fn matrix(mode: Mode) -> Result<()> {
    let options = options(mode, truth::topology())?;
    let name: LabName = format!("matrix-{mode}").parse()?;
    signpost_cluster::down(&name)?;
    let cluster = Cluster::up(&name, options)?;
    let mut differ = Vec::new();
    for recording in Recording::ALL.into_iter().filter(|r| r.mode() == mode) {
        let (text, holds) = cluster.matrix(recording)?;
        println!("{text}");
        differ.extend((!holds).then(|| recording.name()));
    }
    cluster.down()?;
    if differ.is_empty() { Ok(()) } else { bail!("not as recorded: {}", differ.join(", ")) }
}

fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

fn logs(cluster: &Cluster, component: Option<&str>) -> Result<()> {
    let known = cluster.logs()?;
    match component {
        None => println!("{}", known.join("\n")),
        Some(component) if known.iter().any(|name| name == component) => {
            print!("{}", cluster.log(component)?);
        }
        Some(unknown) => bail!("no log of `{unknown}`; there are {}", known.join(", ")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Asked, Mode, Verb, parse};

    fn asked(line: &str) -> anyhow::Result<Asked> {
        parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_may_stand_before_kubectls_words_only() {
        let Asked { name, verb } = asked("kubectl --name=x get pods --name y -o wide").unwrap();
        assert_eq!(name.to_string(), "x");
        let words = ["get", "pods", "--name", "y", "-o", "wide"].map(str::to_owned);
        assert_eq!(verb, Verb::Kubectl(words.to_vec()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let up = asked("up --mode iptables --nodes 2").unwrap().verb;
        assert_eq!(up, Verb::Up { mode: Mode::Iptables, nodes: 2 });
        for (line, why) in [
            ("up --mode userspace", "userspace"),
            ("up --nodes 0", "1 to 26"),
            ("up --nodes", "needs a value"),
            ("down now", "`now`"),
            ("rise", "`cargo xtask cluster rise`"),
            ("up --name A_b", "A_b"),
            ("kubectl", "needs arguments"),
            ("exec client", "a member and a command"),
            ("matrix --mode none", "nothing to measure"),
            ("snapshot", "one folder"),
        ] {
            let said = asked(line).unwrap_err().to_string();
            assert!(said.contains(why), "{line}: {said}");
        }
    }
}
