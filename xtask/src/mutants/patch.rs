//! A mutant as a file: three lines of header, then a patch as `git diff` prints it.
//!
//! ```text
//! promise: 8
//! what: an acknowledgement is what send() returned
//! test: --test paper refused
//! ```

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// One mutant.
#[derive(Debug)]
pub(super) struct Patch {
    /// The file's name without `.patch`.
    pub(super) name: String,
    pub(super) file: PathBuf,
    /// The number of the promise in ARCHITECTURE.md.
    pub(super) promise: u8,
    /// What it breaks, in a few words.
    pub(super) what: String,
    /// The arguments of `cargo test --workspace`.
    pub(super) test: String,
}

impl Patch {
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.test.split_whitespace()
    }
}

/// Those of a folder, by test: those that break one crate follow each other, which builds less.
pub(super) fn all(folder: &Path) -> Result<Vec<Patch>> {
    let mut patches = Vec::new();
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "patch") {
            let text = std::fs::read_to_string(&file)?;
            patches.push(parse(&file, &text).with_context(|| file.display().to_string())?);
        }
    }
    patches.sort_by(|a, b| (&a.test, &a.name).cmp(&(&b.test, &b.name)));
    Ok(patches)
}

fn parse(file: &Path, text: &str) -> Result<Patch> {
    let field = |name: &str| {
        text.lines()
            .take_while(|line| !line.starts_with("diff ") && !line.starts_with("--- "))
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            .with_context(|| format!("the header has no line `{name}: ...`"))
    };
    let test = field("test")?;
    if test.contains("cargo") {
        bail!("`test:` holds the arguments of `cargo test`, without the command");
    }
    Ok(Patch {
        name: file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        file: file.to_path_buf(),
        promise: field("promise")?.parse().context("`promise:` is no number")?,
        what: field("what")?.to_owned(),
        test: test.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::parse;

    #[test]
    fn a_header() {
        let text =
            "promise: 3\nwhat: two owners\ntest: --test verdict owner\n\ndiff --git a/x b/x\n";
        let patch = parse(Path::new("two-owners.patch"), text).unwrap();
        assert_eq!((patch.name.as_str(), patch.promise), ("two-owners", 3));
        assert_eq!(patch.arguments().collect::<Vec<_>>(), ["--test", "verdict", "owner"]);
    }

    #[test]
    fn a_header_that_lacks_a_line_is_refused() {
        let text = "promise: 3\nwhat: two owners\ndiff --git a/x b/x\ntest: not of the header\n";
        let error = parse(Path::new("x.patch"), text).unwrap_err();
        assert_eq!(error.to_string(), "the header has no line `test: ...`");
    }

    /// Those of ARCHITECTURE.md that code can break.
    const COVERED: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8, 9];

    #[test]
    fn the_committed_ones_parse_and_cover_the_promises() {
        let folder = crate::workspace::root().join("tests/mutants");
        let promises: Vec<u8> =
            super::all(&folder).unwrap().iter().map(|patch| patch.promise).collect();
        for promise in COVERED {
            assert!(promises.contains(promise), "no mutant breaks promise {promise}");
        }
    }
}
