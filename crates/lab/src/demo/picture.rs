//! The topology, drawn.

use std::fmt::Write;

use crate::Topology;

/// The clients above the segment, the nodes below it.
pub fn picture(t: &Topology, serving: &[&str]) -> String {
    const COLUMN: usize = 24;
    let mut text = String::new();
    let row = |text: &mut String, cells: Vec<String>| {
        let line: String = cells.iter().map(|c| format!("{c:<COLUMN$}")).collect();
        let _ = writeln!(text, "  {}", line.trim_end());
    };
    let mut names = Vec::new();
    let mut addresses = Vec::new();
    for client in &t.clients {
        names.push(client.name.clone());
        addresses.push(client.address.to_string());
    }
    for client in &t.behind.clients {
        names.push(client.name.clone());
        addresses.push(format!("{} --+", client.address));
    }
    names.push("router".to_owned());
    addresses.push(format!("{}", t.router));
    row(&mut text, names);
    row(&mut text, addresses);
    let drops = (0..t.clients.len()).map(|_| "|".to_owned());
    let gap = (0..t.behind.clients.len()).map(|_| String::new());
    row(&mut text, drops.chain(gap).chain(["|".to_owned()]).collect());
    let width = COLUMN * t.nodes.len().max(t.outsiders().count() + 1);
    let _ = writeln!(text, "  {:=<width$}", format!("== one switch, {} ", t.segment));
    row(&mut text, t.nodes.iter().map(|_| "|".to_owned()).collect());
    row(&mut text, t.nodes.iter().map(|n| n.name.clone()).collect());
    row(&mut text, t.nodes.iter().map(|n| n.address.to_string()).collect());
    let pods = t.nodes.iter().map(|n| {
        let pods = n.pods.iter().map(|p| {
            let mark = if serving.contains(&p.name.as_str()) { "*" } else { "" };
            format!("{}{mark}", p.name)
        });
        format!("pods {}", pods.collect::<Vec<_>>().join(" "))
    });
    row(&mut text, pods.collect());
    let _ = writeln!(text, "\n  * an endpoint of the Service demo/web");
    text
}
