//! The static binary: one file without an interpreter, small, that starts in an empty root.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{machine, run, workspace};

/// It goes onto small machines and into a `scratch` image.
const MAX_BYTES: u64 = 15_000_000;

pub(crate) fn run() -> Result<()> {
    machine::prepare()?;
    println!("{}", build()?.display());
    Ok(())
}

/// Builds it and returns its path.
pub(crate) fn build() -> Result<PathBuf> {
    let root = workspace::root();
    let host = machine::host()?;
    // Naming the target keeps the flag away from build scripts and procedural macros.
    let mut command = run::cargo(&root);
    command.env("RUSTFLAGS", "-C target-feature=+crt-static").args([
        "build",
        "--release",
        "--locked",
        "--package",
        "signpost",
        "--target",
        &host,
    ]);
    run::succeed(&mut command)?;
    Ok(workspace::target().join(host).join("release/signpost"))
}

/// Its size is below the limit.
pub(crate) fn is_small(binary: &Path) -> Result<()> {
    let bytes = std::fs::metadata(binary)?.len();
    println!("{} is {:.1} MB", binary.display(), bytes as f64 / 1e6);
    if bytes >= MAX_BYTES {
        bail!("the binary has {bytes} bytes; the limit is {MAX_BYTES}");
    }
    Ok(())
}

/// No program header asks for an interpreter: the kernel alone can start it.
pub(crate) fn is_static(binary: &Path) -> Result<()> {
    let bytes = std::fs::read(binary)?;
    if interpreter_wanted(&bytes).context("not a 64-bit little-endian ELF file")? {
        bail!("the binary asks for a dynamic linker");
    }
    Ok(())
}

/// It starts from a root folder that holds nothing else, and says `expect`.
pub(crate) fn starts_alone(binary: &Path, arguments: &[&str], expect: &str) -> Result<()> {
    let empty = workspace::root().join("target/empty-root");
    if empty.exists() {
        std::fs::remove_dir_all(&empty)?;
    }
    std::fs::create_dir_all(&empty)?;
    std::fs::copy(binary, empty.join("signpost"))?;
    let mut command = if machine::is_root() {
        Command::new("chroot")
    } else {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "chroot"]);
        command
    };
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let text = run::output_of(command.arg(&empty).arg("/signpost").args(arguments))?;
    std::fs::remove_dir_all(&empty)?;
    if !text.contains(expect) {
        bail!("`signpost {}` says no `{expect}`:\n{text}", arguments.join(" "));
    }
    Ok(())
}

/// Whether a PT_INTERP header is there; `None` for what is not such a file (gABI, chapter 5).
fn interpreter_wanted(elf: &[u8]) -> Option<bool> {
    const PT_INTERP: u32 = 3;
    if elf.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let half = |at: usize| Some(u16::from_le_bytes(elf.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_le_bytes(elf.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(elf.get(at..at + 8)?.try_into().ok()?));
    let offset = usize::try_from(long(32)?).ok()?;
    let (size, count) = (usize::from(half(54)?), usize::from(half(56)?));
    for index in 0..count {
        if word(offset.checked_add(index * size)?)? == PT_INTERP {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::interpreter_wanted;

    #[test]
    fn a_dynamic_binary_is_told_from_none() {
        let shell = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(interpreter_wanted(&shell), Some(true));
        assert_eq!(interpreter_wanted(b"#!/bin/sh"), None);
        assert_eq!(interpreter_wanted(&shell[..60]), None);
    }
}
