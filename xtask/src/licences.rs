//! The licences of everything that is linked. `deny.toml` says the same to cargo-deny.

use anyhow::{Result, bail};

use crate::{machine, workspace};

const ALLOWED: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

pub(crate) fn run() -> Result<()> {
    let packages = workspace::everything(&machine::host()?)?;
    let mut refused = Vec::new();
    for package in &packages {
        let licence = package.licence.as_deref().unwrap_or("none");
        if !is_allowed(licence) {
            refused.push(format!("  {} {}: {licence}", package.name, package.version));
        }
    }
    if !refused.is_empty() {
        bail!("licences that are not on the list of deny.toml:\n{}", refused.join("\n"));
    }
    println!("{} packages, all under licences of the list", packages.len());
    Ok(())
}

/// Whether an SPDX expression can be met with allowed licences alone.
fn is_allowed(expression: &str) -> bool {
    // "MIT/Apache-2.0" is how old manifests write OR.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any_of(&mut rest) == Some(true) && rest.is_empty()
}

fn any_of(words: &mut &[&str]) -> Option<bool> {
    let mut allowed = all_of(words)?;
    while skip(words, "OR") {
        allowed |= all_of(words)?;
    }
    Some(allowed)
}

fn all_of(words: &mut &[&str]) -> Option<bool> {
    let mut allowed = one(words)?;
    while skip(words, "AND") {
        allowed &= one(words)?;
    }
    Some(allowed)
}

fn one(words: &mut &[&str]) -> Option<bool> {
    if skip(words, "(") {
        let allowed = any_of(words)?;
        return skip(words, ")").then_some(allowed);
    }
    let (name, rest) = words.split_first()?;
    *words = rest;
    if !skip(words, "WITH") {
        return Some(ALLOWED.contains(name));
    }
    let (exception, rest) = words.split_first()?;
    *words = rest;
    Some(ALLOWED.contains(&format!("{name} WITH {exception}").as_str()))
}

fn skip(words: &mut &[&str], word: &str) -> bool {
    if words.first() != Some(&word) {
        return false;
    }
    *words = &words[1..];
    true
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn expressions() {
        for (expression, allowed) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0-only", false),
            ("GPL-2.0-only OR MIT", true),
            ("GPL-2.0-only AND MIT", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("Apache-2.0 WITH LLVM-exception OR MPL-2.0", true),
            ("GPL-2.0-only WITH Linux-syscall-note", false),
            ("MIT OR", false),
            ("none", false),
        ] {
            assert_eq!(is_allowed(expression), allowed, "{expression}");
        }
    }

    #[test]
    fn deny_toml_allows_the_same() {
        let text = std::fs::read_to_string(crate::workspace::root().join("deny.toml")).unwrap();
        let list = text.split_once("allow = [").unwrap().1.split_once(']').unwrap().0;
        let names: Vec<&str> = list
            .split(',')
            .map(|name| name.trim().trim_matches('"'))
            .filter(|n| !n.is_empty())
            .collect();
        assert_eq!(names, super::ALLOWED);
    }
}
