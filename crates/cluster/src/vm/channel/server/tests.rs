use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::*;
use crate::vm::channel::{Caller, run};

/// A server on this machine, as many running already as it is told, and its directory.
struct Bed {
    caller: Caller,
    key: Key,
}

impl Bed {
    fn new(others: usize) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("signpost-vm-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        Key::make(&directory).unwrap();
        let key = Key::read(&File::open(Key::path(&directory)).unwrap()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let servers = key.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let key = servers.clone();
                std::thread::spawn(move || answer(stream.unwrap(), &key, others));
            }
        });
        Self { caller: Caller { directory, port, namespace: None }, key }
    }

    fn run(&self, argv: &[&str], stdin: &[u8]) -> Result<Output, String> {
        run(&self.caller, argv, stdin).map_err(|e| e.to_string())
    }

    /// A caller who has been greeted.
    fn connect(&self) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.caller.port)).unwrap();
        assert_eq!(frame::read(&mut stream, GREETING.len()).unwrap(), GREETING);
        stream
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.caller.directory).unwrap();
    }
}

/// What a shell says of a line: standard output, standard error, code.
fn check(line: &str, stdin: &str, expect: (&str, &str, i32)) {
    let output = Bed::new(0).run(&["sh", "-c", line], stdin.as_bytes()).unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!((&*stdout, &*stderr, output.code), expect, "{line}");
}

#[test]
fn a_program_gets_its_input_and_gives_its_output_and_code() {
    check("cat; echo e >&2; exit 3", "in\n", ("in\n", "e\n", 3));
    check("exec >&- 2>&-; exit 4", "", ("", "", 4));
    check("kill -TERM $$", "", ("", "", 143));
    check("echo a; echo b >/dev/stdout", "", ("a\nb\n", "", 0));
    check("true", &"unread".repeat(100_000), ("", "", 0));
}

#[test]
fn a_process_left_in_the_background_holds_up_no_answer_and_lives_on() {
    let line = "sleep 1000 & echo $!";
    let output = Bed::new(0).run(&["sh", "-c", line], b"").unwrap();
    let pid = String::from_utf8(output.stdout).unwrap();
    // Fails if there is no such process.
    check(&format!("kill {pid}"), "", ("", "", 0));
}

#[test]
fn big_output_comes_whole_and_endless_output_ends() {
    let output = Bed::new(0).run(&["head", "-c", "20000000", "/dev/zero"], b"").unwrap();
    assert_eq!((output.stdout.len(), output.code), (20_000_000, 0));
    let error = Bed::new(0).run(&["cat", "/dev/zero"], b"").unwrap_err();
    assert!(error.contains("cat /dev/zero") && error.contains("write to a file"), "{error}");
}

#[test]
fn programs_run_side_by_side() {
    let bed = Bed::new(0);
    let fifo = bed.caller.directory.join("fifo");
    let fifo = fifo.to_str().unwrap();
    bed.run(&["mkfifo", fifo], b"").unwrap();
    std::thread::scope(|scope| {
        // Neither end of a pipe opens before the other does.
        let reads = scope.spawn(|| bed.run(&["cat", fifo], b"").unwrap());
        bed.run(&["cp", "/dev/stdin", fifo], b"through").unwrap();
        assert_eq!(reads.join().unwrap().stdout, b"through");
    });
}

#[test]
fn a_caller_who_goes_away_ends_the_command_with_its_children() {
    let bed = Bed::new(0);
    let mut stream = bed.connect();
    let (mut told, tell) = std::io::pipe().unwrap();
    // The children hold the writing end; nothing else does once this process has closed its own.
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&tell);
    let line = format!("exec 9>/proc/{}/fd/{descriptor}; echo x >&9; sleep 1000 & sleep 1000", {
        std::process::id()
    });
    let argv = vec!["sh".to_owned(), "-c".to_owned(), line];
    let request = Request { key: bed.key.clone(), argv };
    frame::write(&mut stream, &serde_json::to_vec(&request).unwrap()).unwrap();
    frame::write(&mut stream, b"").unwrap();
    let mut byte = [0; 2];
    told.read_exact(&mut byte).unwrap();
    drop((stream, tell));
    assert_eq!(told.read_to_end(&mut Vec::new()).unwrap(), 0, "returns when all have ended");
}

#[test]
fn without_the_key_nothing_is_run_and_nothing_said() {
    let bed = Bed::new(0);
    std::fs::write(Key::path(&bed.caller.directory), "wrong").unwrap();
    let error = bed.run(&["true"], b"").unwrap_err();
    assert!(error.contains("went away"), "{error}");
    let mut stream = bed.connect();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // The end may come as a reset, since the rest of the request is not read.
    let _ = stream.read_to_end(&mut answer);
    assert_eq!(answer, b"");
}

#[test]
fn callers_come_one_by_one_until_they_are_greeted() {
    let bed = Bed::new(0);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let silent = Caller { port, directory: bed.caller.directory.clone(), namespace: None };
    std::thread::scope(|scope| {
        let calls = [(), ()].map(|()| scope.spawn(|| run(&silent, &["true"], b"")));
        let (first, _) = listener.accept().unwrap();
        let mut next = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        let came = poll(&mut next, PollTimeout::from(100u8)).unwrap();
        assert_eq!(came, 0, "the second caller did not wait");
        drop(first);
        drop(listener.accept().unwrap());
        for call in calls {
            let error = call.join().unwrap().unwrap_err().to_string();
            assert!(error.contains("went away"), "{error}");
        }
    });
}

#[test]
fn what_cannot_be_run_is_said() {
    let check = |bed: Bed, argv: &[&str], expect: &str| {
        let error = bed.run(argv, b"").unwrap_err();
        assert!(error.contains(expect), "{error}");
    };
    check(Bed::new(0), &["no-such-program"], "no-such-program does not start: No such file");
    check(Bed::new(0), &[], "there is no program to run");
    check(Bed::new(AT_ONCE_MAX), &["true"], "256 programs run here already");
}

#[test]
fn the_server_takes_what_boot_gives_it_and_says_so_otherwise() {
    let arguments = crate::vm::channel::arguments(Path::new("/some/key"));
    let parsed = Arguments::parse(&arguments).unwrap();
    assert_eq!(parsed.listen.port(), crate::vm::channel::PORT);
    assert_eq!(parsed.key, Path::new("/some/key"));
    for wrong in [&[][..], &["0.0.0.0".into(), "k".into(), "r".into()]] {
        let error = Arguments::parse(wrong).err().unwrap().to_string();
        assert!(error.contains("ADDRESS:PORT"), "{error}");
    }
}
