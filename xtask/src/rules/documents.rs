//! What documents say of the code, and of each other.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

const REASONS: &str = "crates/plan/src/reason.rs";
const CURES: &str = "docs/how-it-decides.md";

/// What the documents of a workspace break.
pub(super) fn broken(root: &Path) -> Result<Vec<String>> {
    let read = |file: &str| {
        std::fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))
    };
    let mut broken = reasons(&read(REASONS)?, &read(CURES)?);
    for file in documents(root)? {
        let folder = Path::new(&file).parent().unwrap_or(Path::new(""));
        for link in links(&read(&file)?) {
            if !root.join(folder).join(&link).exists() {
                broken.push(format!("{file}: the link to {link} leads nowhere"));
            }
        }
    }
    Ok(broken)
}

fn documents(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for folder in ["", "docs", "tests/mutants"] {
        for entry in std::fs::read_dir(root.join(folder))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                files.push(path.strip_prefix(root)?.to_string_lossy().into_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Each reason has its row with a cure, and each row its reason.
fn reasons(code: &str, document: &str) -> Vec<String> {
    let variants: BTreeSet<&str> = code
        .split_once("pub enum Reason {")
        .and_then(|(_, rest)| rest.split_once("\n}"))
        .map_or("", |(body, _)| body)
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','))
        .filter(|word| !word.starts_with("//"))
        .collect();
    let rows: BTreeSet<&str> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
        .map(|(name, _)| name)
        .collect();
    let mut broken: Vec<String> =
        variants.difference(&rows).map(|name| format!("{CURES}: no row for `{name}`")).collect();
    broken.extend(rows.difference(&variants).map(|name| format!("{CURES}: `{name}` is no Reason")));
    broken
}

/// The targets of Markdown links into the repository.
fn links(text: &str) -> Vec<String> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{links, reasons};

    #[test]
    fn a_reason_without_a_cure_and_a_cure_without_a_reason_are_found() {
        let code = "pub enum Reason {\n    /// No endpoint.\n    NoEndpoints,\n    CutOff,\n}\n";
        let document = "| reason | it means |\n|---|---|\n| `CutOff` | nobody |\n| `Old` | gone |";
        assert_eq!(
            reasons(code, document),
            [
                "docs/how-it-decides.md: no row for `NoEndpoints`",
                "docs/how-it-decides.md: `Old` is no Reason"
            ]
        );
    }

    #[test]
    fn only_links_into_the_repository_count() {
        let text = "[a](docs/a.md#b) [c](https://example.org) [d](#e) [f](STYLE.md)";
        assert_eq!(links(text), ["docs/a.md", "STYLE.md"]);
    }
}
