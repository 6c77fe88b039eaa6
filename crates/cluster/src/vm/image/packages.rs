//! What this machine lacks for guests, and getting it.

use std::path::Path;

use super::program::{command, find, output};
use crate::vm::Error;
use crate::vm::qemu;

/// A program and the Debian or Ubuntu package that brings it.
struct Tool {
    program: &'static str,
    package: &'static str,
}

/// For the host, then for what runs in the guest.
const TOOLS: &[Tool] = &[
    Tool { program: qemu::PROGRAM, package: "qemu-system-x86" },
    Tool { program: "dpkg-deb", package: "dpkg" },
    Tool { program: "depmod", package: "kmod" },
    Tool { program: "xz", package: "xz-utils" },
    Tool { program: "ip", package: "iproute2" },
    Tool { program: "nft", package: "nftables" },
    Tool { program: "iptables", package: "iptables" },
    Tool { program: "ipset", package: "ipset" },
    Tool { program: "ipvsadm", package: "ipvsadm" },
    Tool { program: "conntrack", package: "conntrack" },
];

/// Installs what is missing: as root with apt-get, otherwise it says the one line to type.
pub(super) fn install() -> Result<(), Error> {
    let missing: Vec<_> =
        TOOLS.iter().filter(|tool| find(tool.program).is_none()).map(|t| t.package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let arguments =
        [&["install", "-y", "-qq", "--no-install-recommends"], missing.as_slice()].concat();
    if find("apt-get").is_none() {
        return Err(Error::NoApt(missing.join(" ")));
    }
    if !nix::unistd::geteuid().is_root() {
        return Err(Error::NotInstalled(format!("apt-get {}", arguments.join(" "))));
    }
    update()?;
    let mut install = command("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
    output(&mut install, b"").map(|_| ())
}

/// Has apt fetch its lists, if it may: older ones name files that are gone.
pub(super) fn update() -> Result<(), Error> {
    if !nix::unistd::geteuid().is_root() || find("apt-get").is_none() {
        return Ok(());
    }
    output(command("apt-get").args(["update", "-qq"]), b"").map(|_| ())
}

/// Downloads a package into a folder, without installing it.
pub(super) fn download(name: &str, folder: &Path) -> Result<(), Error> {
    if find("apt-get").is_none() {
        return Err(Error::NoApt(name.to_owned()));
    }
    let mut get = command("apt-get");
    output(get.current_dir(folder).args(["download", "-qq", name]), b"").map(|_| ())
}

/// What a package depends on, by the lists that apt has.
pub(super) fn dependencies(name: &str) -> Result<Vec<String>, Error> {
    let mut cache = command("apt-cache");
    let text = output(cache.args(["depends", name]), b"")?;
    Ok(depends(&String::from_utf8_lossy(&text)))
}

fn depends(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::depends;

    #[test]
    fn dependencies_are_read_and_nothing_else() {
        let text = "linux-image-amd64\n  Depends: linux-image-6.1.0-57-amd64\n  Suggests: grub\n";
        assert_eq!(depends(text), ["linux-image-6.1.0-57-amd64"]);
        assert_eq!(depends(""), [""; 0]);
    }
}
