//! `signpost status`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

#[derive(clap::Args)]
pub(super) struct Status {
    #[command(flatten)]
    agent: super::AgentSocket,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Table,
    Json,
    Yaml,
}

pub(super) fn run(status: &Status) -> Result<ExitCode> {
    let reply = super::socket::ask(&status.agent.socket, &json!({ "request": "status" }))?;
    let text = match status.output {
        Format::Table => table(&reply),
        Format::Json => format!("{reply:#}\n"),
        Format::Yaml => yaml(&reply),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn table(s: &Value) -> String {
    let mut out = String::new();
    let drained = if s["drained"] == true { ", drained" } else { "" };
    out += &format!("node {}{drained}\n\n", text(&s["node"]));
    let rows = list(&s["addresses"]).map(|a| {
        vec![
            text(&a["address"]),
            text(&a["owner"]),
            text(&a["verdict"]),
            if a["acknowledged"] == true { "yes".into() } else { "no".into() },
            text(&a["since"]),
            list(&a["services"]).map(text).collect::<Vec<_>>().join(","),
            text(&a["detail"]),
        ]
    });
    let heads = ["ADDRESS", "OWNER", "HERE", "RULES", "SINCE", "SERVICES", "WHY"];
    out += &columns(&heads, rows);
    out += "\n";
    let rows = list(&s["members"]).map(|m| {
        vec![text(&m["name"]), text(&m["state"]), text(&m["address"]), text(&m["detail"])]
    });
    out += &columns(&["MEMBER", "STATE", "AT", "NOTE"], rows);
    let refused: Vec<_> = list(&s["rules"]["refused"]).collect();
    if !refused.is_empty() {
        out += "\n";
        let rows = refused.iter().map(|r| vec![text(&r["service"]), text(&r["error"])]);
        out += &columns(&["REFUSED SERVICE", "BECAUSE"], rows);
    }
    for n in list(&s["notices"]) {
        out += &format!("\nnotice: {}\n", text(n));
    }
    for d in list(&s["diagnostics"]) {
        out += &format!("\n{}\n", text(&d["text"]));
    }
    out
}

/// Columns padded to their widest cell; the last one is not padded.
fn columns(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let heads = heads.iter().map(ToString::to_string).collect();
    let rows: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|i| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in rows {
        let line: Vec<_> = row.iter().zip(&widths).map(|(cell, w)| format!("{cell:<w$}")).collect();
        out += line.join("  ").trim_end();
        out.push('\n');
    }
    out
}

fn list(v: &Value) -> impl Iterator<Item = &Value> {
    v.as_array().into_iter().flatten()
}

fn text(v: &Value) -> String {
    match v {
        Value::Null => "-".into(),
        Value::String(s) => s.clone(),
        v => v.to_string(),
    }
}

/// JSON's tree as YAML: every string quoted, so that none is taken for something else.
fn yaml(v: &Value) -> String {
    fn node(v: &Value, indent: usize, out: &mut String) {
        let pad = "  ".repeat(indent);
        match v {
            Value::Object(o) if !o.is_empty() => {
                for (k, v) in o {
                    out.push_str(&format!("\n{pad}{k}:"));
                    node(v, indent + 1, out);
                }
            }
            Value::Array(a) if !a.is_empty() => {
                for v in a {
                    out.push_str(&format!("\n{pad}-"));
                    node(v, indent + 1, out);
                }
            }
            scalar => out.push_str(&format!(" {scalar}")),
        }
    }
    let mut out = String::new();
    node(v, 0, &mut out);
    out.trim_start().to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_end_without_blanks() {
        let rows =
            vec![vec!["192.0.2.100".to_string(), "-".into()], vec!["x".into(), "own".into()]];
        let got = columns(&["ADDRESS", "HERE"], rows.into_iter());
        assert_eq!(got, "ADDRESS      HERE\n192.0.2.100  -\nx            own\n");
    }

    #[test]
    fn yaml_reads_back_as_the_same_tree() {
        let tree = json!({"node": "no", "list": [{"a": 1}, "x: y"], "empty": [], "none": null});
        assert_eq!(
            yaml(&tree),
            "empty: []\nlist:\n  -\n    a: 1\n  - \"x: y\"\nnode: \"no\"\nnone: null\n"
        );
    }
}
