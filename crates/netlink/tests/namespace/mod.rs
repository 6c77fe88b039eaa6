//! Runs a test in a network namespace of its own.

#![allow(dead_code)] // Not every test needs every one.

use std::io::Write;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};

/// Runs `test` in a thread with a new, empty network namespace, which goes away with it.
pub(crate) fn in_new(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("tests of the kernel run as root");
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs a shell line in this thread's namespace; its output, or a panic with its errors.
pub(crate) fn sh(line: &str) -> String {
    let (ok, out, err) = try_sh(line);
    assert!(ok, "{line}: {err}");
    out
}

/// Runs a shell line in this thread's namespace: success, output, errors.
pub(crate) fn try_sh(line: &str) -> (bool, String, String) {
    let output = Command::new("sh").args(["-ec", line]).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// Loads rules with the nft program.
pub(crate) fn nft_load(rules: &str) {
    let mut nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    nft.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
    assert!(nft.wait().unwrap().success());
}
