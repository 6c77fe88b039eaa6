//! A copy of the working tree to break, beside its own build.
//!
//! Only files whose content differs are written, so that cargo builds again what a mutant touches
//! and nothing else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::patch::Patch;
use crate::run;

/// The copy.
pub(super) struct Tree {
    pub(super) folder: PathBuf,
    pub(super) target: PathBuf,
}

/// A patch that is in the copy until this is dropped.
pub(super) struct Applied<'a> {
    tree: &'a Tree,
    patch: &'a Patch,
}

impl Tree {
    /// Brings the copy up to date with what git knows of `root`, and what it would add.
    pub(super) fn copy(root: &Path) -> Result<Self> {
        let base = root.join("target/mutants");
        let tree = Self { folder: base.join("tree"), target: base.join("target") };
        std::fs::create_dir_all(&tree.folder)?;
        let listed = run::output_of(Command::new("git").current_dir(root).args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
        ]))?;
        let files: BTreeSet<&str> =
            listed.split('\0').filter(|file| root.join(file).is_file()).collect();
        for file in &files {
            let content = std::fs::read(root.join(file))?;
            let copy = tree.folder.join(file);
            if std::fs::read(&copy).is_ok_and(|old| old == content) {
                continue;
            }
            if let Some(folder) = copy.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(copy, content)?;
        }
        tree.forget_others(&tree.folder, &files)?;
        Ok(tree)
    }

    /// Whether a patch still fits.
    pub(super) fn applies(&self, patch: &Patch) -> Result<bool> {
        Ok(run::works(self.git_apply(patch).arg("--check")))
    }

    pub(super) fn apply<'a>(&'a self, patch: &'a Patch) -> Result<Applied<'a>> {
        run::output_of(&mut self.git_apply(patch))?;
        Ok(Applied { tree: self, patch })
    }

    fn git_apply(&self, patch: &Patch) -> Command {
        let mut command = Command::new("git");
        // The copy lies in an ignored folder of a repository; git must not look for that one.
        command
            .current_dir(&self.folder)
            .env("GIT_CEILING_DIRECTORIES", self.folder.parent().unwrap_or(&self.folder))
            .arg("apply")
            .arg(&patch.file);
        command
    }

    fn forget_others(&self, folder: &Path, files: &BTreeSet<&str>) -> Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                self.forget_others(&path, files)?;
            } else if let Ok(inside) = path.strip_prefix(&self.folder)
                && !files.contains(&*inside.to_string_lossy())
            {
                std::fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

impl Drop for Applied<'_> {
    fn drop(&mut self) {
        if let Err(error) = run::output_of(self.tree.git_apply(self.patch).arg("--reverse")) {
            println!("cannot take {} out again: {error:#}", self.patch.name);
        }
    }
}
