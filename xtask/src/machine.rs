//! What this machine lacks for a task, and getting it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run;
use crate::workspace;

/// A program that a task runs and the Debian or Ubuntu package that brings it.
struct Tool {
    program: &'static str,
    package: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool { program: "cc", package: "gcc" },
    Tool { program: "git", package: "git" },
    Tool { program: "ip", package: "iproute2" },
    Tool { program: "nft", package: "nftables" },
    Tool { program: "iptables", package: "iptables" },
    Tool { program: "conntrack", package: "conntrack" },
    Tool { program: "tcpdump", package: "tcpdump" },
    Tool { program: "curl", package: "curl" },
    Tool { program: "ipset", package: "ipset" },
    Tool { program: "ping", package: "iputils-ping" },
    Tool { program: "arping", package: "iputils-arping" },
];

/// System folders that an ordinary user's PATH leaves out.
const SYSTEM_FOLDERS: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Installs what is missing: as root with apt-get, otherwise it says the one line to type.
pub(crate) fn prepare() -> Result<()> {
    install_packages(&missing_packages())?;
    install_components()
}

/// Whether this process may do what only root may.
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// Whether nothing may be skipped.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// The target triple of this machine's own compiler.
pub(crate) fn host() -> Result<String> {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let text = run::output_of(command.arg("-vV").current_dir(workspace::root()))?;
    text.lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("rustc -vV names no host")
}

fn missing_packages() -> Vec<&'static str> {
    let mut packages: Vec<_> =
        TOOLS.iter().filter(|tool| !is_installed(tool.program)).map(|tool| tool.package).collect();
    if !has_static_libc() {
        packages.push("libc6-dev");
    }
    packages
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
        || SYSTEM_FOLDERS.iter().any(|folder| Path::new(folder).join(program).is_file())
}

/// A static binary links `libc.a`, which comes with the headers.
fn has_static_libc() -> bool {
    let Ok(folders) = std::fs::read_dir("/usr/lib") else { return false };
    Path::new("/usr/lib/libc.a").is_file()
        || Path::new("/usr/lib64/libc.a").is_file()
        || folders.flatten().any(|folder| folder.path().join("libc.a").is_file())
}

fn install_packages(packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let line = format!("apt-get install -y --no-install-recommends {}", packages.join(" "));
    if !is_installed("apt-get") {
        bail!(
            "these Debian packages, or what brings the same here, are missing: {}",
            packages.join(" ")
        );
    }
    if !is_root() {
        bail!("packages are missing; install them and try again:\n  sudo {line}");
    }
    println!("Missing: {}", packages.join(" "));
    run::succeed(Command::new("apt-get").args(["update", "-qq"]))?;
    run::succeed(
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["install", "-y", "-qq", "--no-install-recommends"])
            .args(packages),
    )
}

fn install_components() -> Result<()> {
    let root = workspace::root();
    let missing: Vec<_> = [("fmt", "rustfmt"), ("clippy", "clippy")]
        .into_iter()
        .filter(|(verb, _)| !run::works(run::cargo(&root).args([verb, "--version"])))
        .map(|(_, component)| component)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    run::succeed(
        Command::new("rustup").current_dir(&root).args(["component", "add"]).args(&missing),
    )
    .with_context(|| format!("the Rust components {} are missing", missing.join(" and ")))
}
