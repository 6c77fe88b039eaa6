//! What a source file must not contain.

use std::path::Path;

/// Crates that know no clock, no socket, no thread and no lock.
const PURE: &[&str] = &["packet", "speaker", "plan", "nft", "host", "explain"];

/// What of the standard library pure crates leave alone, with everything below it.
const IMPURE: &[&str] = &[
    "std::env",
    "std::fs",
    "std::io",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::ToSocketAddrs",
    "std::net::UdpSocket",
    "std::os",
    "std::process",
    "std::sync",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// Values among them: an errno's words.
const HARMLESS: &[&str] = &["std::io::Error", "std::io::ErrorKind"];

/// Where `unsafe` may stand: at the kernel's door and nowhere else.
const UNSAFE: &[&str] =
    &["crates/netlink/src/", "crates/lab/src/", "src/agent/process.rs", "src/agent/wire/"];

/// A file holds one idea; this many lines hold more than one.
const MAX_LINES: usize = 500;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["util", "utils", "helper", "helpers", "common", "manager", "misc"];

/// What this file breaks.
pub(super) fn broken(file: &Path, text: &str) -> Vec<String> {
    let path = file.to_string_lossy();
    let mut broken = Vec::new();
    if is_pure(&path) {
        for used in std_paths(&code_of(text)) {
            if HARMLESS.iter().any(|harmless| is_below(&used, harmless)) {
                continue;
            }
            if let Some(impure) = IMPURE.iter().find(|impure| is_below(&used, impure)) {
                broken.push(format!("{path}: a pure crate uses {impure}"));
            }
        }
    }
    let permits =
        ["allow(unsafe_code", "expect(unsafe_code"].iter().any(|word| text.contains(word));
    let may = path.starts_with("xtask/") || UNSAFE.iter().any(|folder| path.starts_with(folder));
    if permits && !may {
        broken.push(format!("{path}: unsafe has no place here"));
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        broken.push(format!("{path}: {lines} lines; split it into ideas of at most {MAX_LINES}"));
    }
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    if EMPTY_NAMES.contains(&&*stem) {
        broken.push(format!("{path}: name it by what is inside"));
    }
    broken
}

/// In the library of a pure crate; what only tests compile is free.
fn is_pure(path: &str) -> bool {
    let Some((name, inside)) = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'))
    else {
        return false;
    };
    PURE.contains(&name)
        && inside.starts_with("src/")
        && !inside.contains("/tests/")
        && !inside.ends_with("/tests.rs")
}

/// Without comments, and without the tests at the end.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_end() == "#[cfg(test)]" {
            // An inline module is the end of the file; anything else is the one item.
            if lines.next().is_some_and(|item| item.starts_with("mod ") && item.ends_with('{')) {
                break;
            }
            continue;
        }
        code.push_str(line.split("//").next().unwrap_or_default());
        code.push('\n');
    }
    code
}

fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Every path into the standard library, with the braces of `use` multiplied out.
fn std_paths(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for root in ["std::", "core::", "alloc::"] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            if before.is_none_or(|c| !c.is_alphanumeric() && c != '_') {
                expand("std", &code[at + root.len()..], &mut paths);
            }
        }
    }
    paths
}

/// Reads one path or one `{...}` after `prefix::`; returns what follows it.
fn expand<'a>(prefix: &str, rest: &'a str, paths: &mut Vec<String>) -> &'a str {
    let rest = rest.trim_start();
    if let Some(mut rest) = rest.strip_prefix('{') {
        loop {
            rest = rest.trim_start();
            if rest.is_empty() || rest.starts_with('}') {
                return rest.strip_prefix('}').unwrap_or(rest);
            }
            rest = expand(prefix, rest, paths);
            let next = rest.find([',', '}']).unwrap_or(rest.len());
            rest = rest[next..].strip_prefix(',').unwrap_or(&rest[next..]);
        }
    }
    let end =
        rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '*').unwrap_or(rest.len());
    // A character that starts no name: step over it, or the loop above would stand still.
    let end = if end == 0 { rest.chars().next().map_or(0, char::len_utf8) } else { end };
    let path = format!("{prefix}::{}", &rest[..end]);
    match rest[end..].strip_prefix("::") {
        Some(deeper) => expand(&path, deeper, paths),
        None => {
            paths.push(path);
            &rest[end..]
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::broken;

    fn check(file: &str, text: &str, expect: &[&str]) {
        assert_eq!(broken(Path::new(file), text), expect, "{text}");
    }

    #[test]
    fn a_pure_crate_reads_no_clock_in_any_spelling() {
        let expect = ["crates/plan/src/a.rs: a pure crate uses std::time::Instant"];
        for text in [
            "use std::time::Instant;",
            "use std::time::{Duration, Instant};",
            "use std::{collections::BTreeMap, time::{Duration, Instant as Now}};",
            "fn f() { std::time::Instant::now(); }",
            "#[cfg(test)]\nmod tests;\nuse std::time::Instant;",
        ] {
            check("crates/plan/src/a.rs", text, &expect);
        }
    }

    #[test]
    fn a_pure_crate_opens_nothing_and_locks_nothing() {
        for (text, what) in [
            ("use std::{fs, fmt};", "std::fs"),
            ("use std::net::{IpAddr, UdpSocket};", "std::net::UdpSocket"),
            ("use alloc::sync::Arc;", "std::sync"),
            ("use std::sync::*;", "std::sync"),
            ("std::thread::spawn(f);", "std::thread"),
        ] {
            let expect = format!("crates/nft/src/a.rs: a pure crate uses {what}");
            check("crates/nft/src/a.rs", text, &[&expect]);
        }
    }

    #[test]
    fn what_is_harmless_passes() {
        for text in [
            "use std::time::Duration;\nuse std::net::{IpAddr, Ipv4Addr};",
            "std::io::Error::from_raw_os_error(1)",
            "// std::fs is not for us",
            "pub struct Instant(pub Duration);",
            "#[cfg(test)]\nmod tests {\n    use std::fs;\n}",
            "#[cfg(test)]\nuse std::fs;",
        ] {
            check("crates/speaker/src/a.rs", text, &[]);
        }
        check("crates/forward/src/a.rs", "use std::sync::Arc;", &[]);
        check("crates/plan/tests/a.rs", "use std::fs;", &[]);
    }

    #[test]
    fn unsafe_stands_at_the_door_only() {
        let text = "#![allow(unsafe_code)]";
        check("crates/netlink/src/socket.rs", text, &[]);
        check("src/agent/wire/socket.rs", text, &[]);
        check("src/agent/control.rs", text, &["src/agent/control.rs: unsafe has no place here"]);
    }

    #[test]
    fn long_files_and_empty_names_are_found() {
        let long = "//\n".repeat(501);
        check("src/a.rs", &long, &["src/a.rs: 501 lines; split it into ideas of at most 500"]);
        check("src/utils.rs", "", &["src/utils.rs: name it by what is inside"]);
    }
}
