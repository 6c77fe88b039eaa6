//! `signpost lab` as people type it.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use crate::{fresh_name, program};

fn lab(args: &[&str]) -> Output {
    Command::new(program()).arg("lab").args(args).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn builds_shows_and_ends_a_lab() {
    let name = fresh_name().to_string();
    let up = lab(&["up", "--no-agents", "--name", &name]);
    assert!(up.status.success(), "{}", text(&up.stderr));
    let status = text(&lab(&["status", "--name", &name]).stdout);
    for member in ["router", "node-c", "198.19.3.6", "client", "198.51.100.77"] {
        assert!(status.contains(member), "{member} in {status}");
    }
    let inside = lab(&["exec", "--name", &name, "a1", "ip", "-o", "addr"]);
    assert!(text(&inside.stdout).contains("198.19.1.5"), "{}", text(&inside.stdout));
    assert_eq!(lab(&["exec", "--name", &name, "a1", "sh", "-c", "exit 7"]).status.code(), Some(7));
    let wrong = lab(&["exec", "--name", &name, "a9", "true"]);
    assert!(text(&wrong.stderr).contains("it has") && text(&wrong.stderr).contains("a1"));
    assert!(lab(&["probe", "--name", &name, "client", "198.19.1.5:8080/tcp"]).status.success());
    assert!(!lab(&["probe", "--name", &name, "client", "198.19.1.5:81/tcp"]).status.success());
    assert!(text(&lab(&["up", "--name", &name]).stderr).contains("lab down"), "the cure is named");
    assert!(lab(&["down", "--name", &name]).status.success());
    let gone = lab(&["status", "--name", &name]);
    assert!(!gone.status.success() && text(&gone.stderr).contains("lab up"));
}

pub(crate) fn without_root_one_sentence_says_so() {
    // The checkout may be where nobody else can read it.
    let copy = std::env::temp_dir().join(fresh_name().to_string());
    std::fs::copy(program(), &copy).unwrap();
    let nobody = Command::new(&copy).args(["lab", "up"]).uid(65534).gid(65534).output();
    std::fs::remove_file(&copy).unwrap();
    let output = nobody.unwrap();
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("root") && said.contains("sudo"), "{said}");
}

pub(crate) fn a_killed_demo_does_not_hinder_the_next() {
    let name = fresh_name().to_string();
    let demo = || {
        let mut command = Command::new(program());
        command.args(["lab", "demo", "--output", "json", "--name", &name]);
        command.stdout(std::process::Stdio::null());
        command
    };
    let state = std::path::Path::new("/run/signpost-lab").join(&name).join("scope.lock");
    let mut first = demo().spawn().unwrap();
    while !state.exists() && first.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let second = text(&lab(&["demo", "--name", &name]).stderr);
    assert!(second.contains("up already"), "one that runs is not ended: {second}");
    first.kill().unwrap();
    first.wait().unwrap();
    // Open, so that no other file gets its number.
    let lock = std::fs::File::open(&state).unwrap();
    let before = lock.metadata().unwrap().ino();
    let mut third = demo().spawn().unwrap();
    // It built its own: the lock is another file.
    while std::fs::metadata(&state).map_or(before, |m| m.ino()) == before
        && third.try_wait().unwrap().is_none()
    {
        std::thread::yield_now();
    }
    assert!(third.try_wait().unwrap().is_none(), "it goes on where the killed one left off");
    third.kill().unwrap();
    third.wait().unwrap();
    assert!(lab(&["down", "--name", &name]).status.success());
}
