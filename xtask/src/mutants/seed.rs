//! Crates of others that an earlier build made already: a mutant changes none of them.

use std::io;
use std::path::Path;

use anyhow::Result;

/// Links them from one target folder into another that has none yet. Ours stay out: cargo would take
/// those of one tree for those of the other.
pub(super) fn link(from: &Path, to: &Path) -> Result<()> {
    let (from, to) = (from.join("debug"), to.join("debug"));
    if to.exists() || !from.exists() {
        return Ok(());
    }
    // Where files cannot be linked, cargo builds them once more.
    match others(&from, &to) {
        Err(error) if error.kind() != io::ErrorKind::CrossesDevices => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn others(from: &Path, to: &Path) -> io::Result<()> {
    for folder in [".fingerprint", "build"] {
        tree(&from.join(folder), &to.join(folder), &|name| !is_ours(name))?;
    }
    let library = |name: &str| {
        !is_ours(name) && [".rlib", ".rmeta", ".so"].iter().any(|end| name.ends_with(end))
    };
    tree(&from.join("deps"), &to.join("deps"), &library)
}

fn tree(from: &Path, to: &Path, wanted: &dyn Fn(&str) -> bool) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let copy = to.join(entry.file_name());
        if !wanted(&entry.file_name().to_string_lossy()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            tree(&entry.path(), &copy, &|_| true)?;
        } else {
            std::fs::hard_link(entry.path(), copy)?;
        }
    }
    Ok(())
}

fn is_ours(name: &str) -> bool {
    let name = name.strip_prefix("lib").unwrap_or(name);
    name.starts_with("signpost") || name.starts_with("xtask")
}
