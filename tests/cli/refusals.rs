//! What keeps an agent from starting, each in one sentence that names the cure.

use std::net::UdpSocket;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::bed::{Bed, key, program};

fn holds(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "{word:?} in {said:?}");
    }
}

#[test]
fn a_source_that_cannot_be_followed() {
    let bed = Bed::new();
    let place = |name: &str| bed.directory().join(name);
    std::fs::create_dir(place("an empty folder")).unwrap();
    std::fs::write(place("a file"), "").unwrap();
    let refused = |name: &str| {
        let source = format!("dir:{}", place(name).display());
        bed.run(
            "node-a",
            Command::new(program()).args(["agent", "--source", &source, "--insecure-mesh"]),
        )
        .refusal()
    };
    holds(&refused("an empty folder"), &["no manifests", "an empty folder", ".yaml", "write"]);
    holds(&refused("nowhere"), &["nowhere", "make it", "No such file"]);
    holds(&refused("a file"), &["a file", "not a directory"]);
}

#[test]
fn flags_that_are_wrong() {
    let bed = Bed::new();
    let said = |args: &[&str]| bed.signpost("node-a", args).err();
    holds(&said(&["agent"]), &["--source <dir:PATH>"]);
    holds(&said(&["agent", "--source", "/etc/signpost"]), &["a source is `dir:PATH`"]);
    holds(&said(&["agent", "--source", "dir:"]), &["`dir:` needs a path"]);
    holds(&said(&["agent", "--source", "dir:.", "--sauce"]), &["--sauce", "--source"]);
    holds(&said(&["agent", "--source", "dir:.", "--mesh-port", "0"]), &["1..=65535"]);
    holds(&said(&["agent", "--source", "dir:."]), &["--mesh-key FILE", "--insecure-mesh"]);
    holds(&said(&["status", "-o", "xml"]), &["table, json, yaml"]);
}

#[test]
fn a_name_that_no_node_bears() {
    let bed = Bed::new();
    for name in ["node-q", "node a", ""] {
        let mut args = bed.arguments("node-a");
        args[2] = name.to_owned();
        let said = bed.run("node-a", Command::new(program()).args(&args)).refusal();
        holds(&said, &[&format!("`{name}`"), "--node is one of node-a, node-b, node-c"]);
    }
    bed.remove_manifest("nodes.yaml").unwrap();
    holds(&bed.refused("node-a", &[]), &["no Node object", "write one for `node-a`"]);
}

#[test]
fn a_key_that_is_none() {
    let bed = Bed::new();
    let place = |name: &str| bed.directory().join(name);
    let refused = |file: &str| {
        let mut args = bed.arguments("node-a");
        *args.last_mut().unwrap() = file.to_owned();
        bed.run("node-a", Command::new(program()).args(&args)).refusal()
    };
    let long = "0123456789abcdef0123456789abcdef";
    holds(&refused(&key(&place("short"), "short", 0o600)), &["short", "at least 16 bytes"]);
    holds(&refused(&key(&place("open"), long, 0o644)), &["open", "chmod 600"]);
    holds(&refused(&place("nowhere").display().to_string()), &["nowhere", "No such file"]);
    holds(&refused("/dev/urandom"), &["/dev/urandom", "at most 4096 bytes"]);
}

#[test]
fn a_missing_capability() {
    let bed = Bed::new();
    let without = |capabilities: &str, args: &[String]| {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", capabilities, "--inh-caps", capabilities]);
        bed.run("node-a", command.arg(program()).args(args))
    };
    let agent = bed.arguments("node-a");
    for (capabilities, named) in [
        ("-net_admin", "lacks CAP_NET_ADMIN:"),
        ("-net_raw", "lacks CAP_NET_RAW:"),
        ("-net_admin,-net_raw", "lacks CAP_NET_ADMIN and CAP_NET_RAW:"),
    ] {
        holds(&without(capabilities, &agent).refusal(), &[named, "root"]);
    }
    // Before anything else: no lock, no socket, no rule.
    assert!(!bed.socket("node-a").exists());
    // Rules are removed without packet sockets.
    let cleanup = ["agent", "--cleanup", "--socket", &agent[6]].map(str::to_owned);
    holds(&without("-net_admin", &cleanup).refusal(), &["lacks CAP_NET_ADMIN:"]);
    assert!(without("-net_raw", &cleanup).0.status.success());
}

#[test]
fn a_second_agent() {
    let bed = Bed::new();
    let agent = bed.owner("node-a", &[]);
    holds(&bed.refused("node-a", &[]), &["another agent (pid", "agent.sock", "--takeover"]);
    // Elsewhere in the file system, in the same kernel.
    let socket = bed.directory().join("other.sock").display().to_string();
    let mut args = bed.arguments("node-a");
    args[6] = socket;
    args.extend(["--mesh-port", "7999"].map(str::to_owned));
    let said = bed.run("node-a", Command::new(program()).args(&args)).refusal();
    holds(&said, &["table signpost belongs to another process", "stop it", "--takeover"]);
    // In another namespace it is no second one.
    let _other = bed.agent("node-b", &[]);
    bed.until("node-b", "it runs", |s| s["node"] == "node-b");
    agent.end(Signal::SIGTERM);
}

#[test]
fn a_port_that_another_program_has() {
    let bed = Bed::new();
    let taken = bed.namespace("node-a").unwrap().run(|| UdpSocket::bind("0.0.0.0:7948"));
    holds(&bed.refused("node-a", &[]), &["UDP port 7948 is taken", "--mesh-port"]);
    drop(taken.unwrap().unwrap());
    let _agent = bed.owner("node-a", &[]);
}

#[test]
fn nobody_answers() {
    let bed = Bed::new();
    let socket = bed.socket("node-a").display().to_string();
    for verb in ["status", "drain", "undrain"] {
        let said = bed.signpost("node-a", &[verb, "--socket", &socket]).refusal();
        holds(&said, &["no agent answers at", &socket, "is it running?"]);
    }
}

#[test]
fn a_reader_that_leaves_early() {
    let bed = Bed::new();
    let _agent = bed.owner("node-a", &[]);
    let script = "\"$0\" status --socket \"$1\" -o json | true; exit ${PIPESTATUS[0]}";
    let socket = bed.socket("node-a");
    let said =
        bed.run("node-a", Command::new("bash").args(["-c", script]).arg(program()).arg(socket));
    assert!(said.0.status.success() && said.err().is_empty(), "{}", said.err());
}
