//! The rules of the house that `Cargo.toml` and the lints cannot hold on their own.

mod documents;
mod edges;
mod source;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::workspace;

pub(crate) fn run() -> Result<()> {
    let broken = broken()?;
    if broken.is_empty() {
        println!("the rules of the house hold");
        return Ok(());
    }
    bail!("rules of the house broken:\n  {}", broken.join("\n  "));
}

/// Each broken rule, as a sentence.
pub(crate) fn broken() -> Result<Vec<String>> {
    let root = workspace::root();
    let mut broken = edges::broken(&workspace::members()?);
    for file in rust_files(&root)? {
        let text = std::fs::read_to_string(root.join(&file))?;
        broken.extend(source::broken(&file, &text));
    }
    broken.extend(documents::broken(&root)?);
    Ok(broken)
}

/// Every Rust file of ours, relative to the root.
fn rust_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = ["crates", "src", "tests", "xtask", "fuzz"]
        .iter()
        .map(|folder| root.join(folder))
        .collect();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path.strip_prefix(root)?.to_path_buf());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_workspace_keeps_the_rules() {
        assert_eq!(super::broken().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn the_scan_sees_the_whole_workspace() {
        let files = super::rust_files(&crate::workspace::root()).unwrap();
        for file in ["crates/plan/src/lib.rs", "src/main.rs", "xtask/src/rules.rs"] {
            assert!(files.contains(&file.into()), "{file} is missing");
        }
    }
}
