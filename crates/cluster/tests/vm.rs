//! One guest on this machine, in a network namespace of its own, and what this machine's kernel
//! lacks in it.
//!
//! Needs root, and fails without: a skipped test proves nothing. The first run downloads a kernel.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Trial};
use signpost_cluster::vm::{Error, Forward, Image, Options, Scoped, Server, Vm, serve};
use signpost_lab::Namespace;

/// What this program is in the guest. Spaces and signs must come through the kernel's line.
const VERB: &str = "serve \"commands\" $HOME\\n";

/// What it is there to answer one connection.
const ANSWER: &str = "answer";

const GUEST_PORT: u16 = 7777;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match words.split_first() {
        Some((verb, rest)) if verb == VERB => {
            serve(rest).unwrap();
            return ExitCode::SUCCESS;
        }
        Some((verb, _)) if verb == ANSWER => return answer(),
        _ => {}
    }
    let mut arguments = Arguments::from_args();
    // In this order: the last one ends the guest.
    arguments.test_threads = Some(1);
    let tests: [(&str, fn()); _] = [
        ("a_guest_that_does_not_come_up_says_why", a_guest_that_does_not_come_up_says_why),
        ("the_kernel_has_what_is_missing_here", the_kernel_has_what_is_missing_here),
        ("namespaces_are_made_and_wired_in_it", namespaces_are_made_and_wired_in_it),
        ("the_hosts_files_are_seen_and_stay_as_they_are", the_hosts_files_are_seen),
        ("many_commands_run_at_once", many_commands_run_at_once),
        ("guest_and_host_reach_each_other", guest_and_host_reach_each_other),
        ("it_is_found_again_and_a_second_is_refused", it_is_found_again),
        ("its_end_ends_its_commands_and_leaves_nothing", its_end_leaves_nothing),
    ];
    let trial = |(name, test): (&str, fn())| {
        Trial::test(name, move || {
            signpost_lab::root()?;
            test();
            Ok(())
        })
    };
    let conclusion = libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect());
    // When the last test was not chosen or failed.
    if let Some(bed) = BED.get() {
        bed.clear();
    }
    conclusion.exit_code()
}

/// The guest of all tests, and what surrounds it.
struct Bed {
    vm: Scoped,
    host_port: u16,
    mounts_before: String,
}

static BED: OnceLock<Bed> = OnceLock::new();

fn bed() -> &'static Bed {
    BED.get_or_init(|| {
        let mounts_before = mounts();
        let image = Image::prepare(&image_folder()).unwrap();
        std::fs::create_dir_all(directory()).unwrap();
        std::fs::write(directory().join("greeting"), "written before the boot").unwrap();
        // One that a killed run left.
        let _ = Command::new("ip").args(["netns", "delete", NAMESPACE]).output();
        ip(&["netns", "add", NAMESPACE]);
        ip(&["-n", NAMESPACE, "link", "set", "lo", "up"]);
        let namespace = Namespace::open(NAMESPACE).unwrap();
        let host_port = namespace.run(|| listener().local_addr().unwrap().port()).unwrap();
        let mut options = Options::new(directory(), Server::this_program(VERB).unwrap());
        options.forwards = vec![Forward { host_port, guest_port: GUEST_PORT }];
        options.namespace = Some(namespace);
        Bed { vm: Scoped::boot(&image, options).unwrap(), host_port, mounts_before }
    })
}

impl Bed {
    /// What a shell in the guest prints; it must succeed.
    fn sh(&self, script: &str) -> String {
        let output = self.vm.run(&["sh", "-ec", script], b"").unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.code, 0, "{script}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn clear(&self) {
        match Vm::attach(self.vm.directory()) {
            Ok(vm) => vm.end().unwrap(),
            Err(Error::Missing(_)) => {}
            Err(e) => panic!("{e}"),
        }
        let _ = Command::new("ip").args(["netns", "delete", NAMESPACE]).output();
        let _ = std::fs::remove_dir_all(directory());
    }
}

fn a_guest_that_does_not_come_up_says_why() {
    let image = Image::prepare(&image_folder()).unwrap();
    let directory = directory().with_extension("broken");
    let mut left = interrupted(&directory);
    let server = Server { program: "/no/such program".into(), arguments: vec![] };
    let error = Vm::boot(&image, Options::new(directory.clone(), server)).unwrap_err().to_string();
    assert!(error.contains("says `failed: /no/such program ended with code 127`"), "{error}");
    assert!(error.contains("can't execute '/no/such program'"), "no log in: {error}");
    let end = left.wait().unwrap();
    assert_eq!(end.signal(), Some(9), "what an interrupted boot left was not ended");
    assert_eq!(names(&directory), ["kernel.log"]);
    assert_eq!(processes(&directory), [0; 0]);
    let long = Server { program: "/x".repeat(1000).into(), arguments: vec![] };
    let error = Vm::boot(&image, Options::new(directory.clone(), long)).unwrap_err().to_string();
    assert!(error.contains("bytes of 2047: take a shorter path"), "{error}");
    std::fs::remove_dir_all(&directory).unwrap();
}

/// What remains when the process that boots a guest is killed before the guest is up.
fn interrupted(directory: &Path) -> Child {
    std::fs::create_dir_all(directory).unwrap();
    let pid_file = directory.join("pid");
    let mut emulator = Command::new("sh")
        .args(["-c", "echo; read line", "-pidfile"])
        .arg(&pid_file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // A process that has only just been started shows no command line.
    emulator.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    std::fs::write(pid_file, emulator.id().to_string()).unwrap();
    emulator
}

fn the_kernel_has_what_is_missing_here() {
    let bed = bed();
    bed.sh("modprobe ip_vs");
    bed.sh("ipvsadm -A -t 192.0.2.100:80 -s rr
         ipvsadm -a -t 192.0.2.100:80 -r 198.51.100.5:8080 -m");
    assert_eq!(
        bed.sh("ipvsadm -Sn"),
        "-A -t 192.0.2.100:80 -s rr\n\
         -a -t 192.0.2.100:80 -r 198.51.100.5:8080 -m -w 1\n"
    );
    // The kernel loads these itself.
    bed.sh("ip link add d0 type dummy; ip link add d0.7 link d0 type vlan id 7
         ip link add v0 type vrf table 10; ip link add b0 type bond
         tc qdisc add dev d0 root netem delay 1ms");
    bed.sh("modprobe -a sctp br_netfilter nf_conntrack nft_flow_offload ip_set ipip geneve vxlan");
    bed.sh("iptables -t nat -A OUTPUT -d 192.0.2.9 -j REDIRECT; ipset create s hash:ip,port");
}

fn namespaces_are_made_and_wired_in_it() {
    let bed = bed();
    let printed = bed.sh("ip netns add a; ip netns add b
         ip -n a link add eth0 type veth peer name eth0 netns b
         ip -n a address add 192.0.2.1/24 dev eth0; ip -n a link set eth0 up
         ip -n b address add 192.0.2.2/24 dev eth0; ip -n b link set eth0 up
         ip netns exec a ping -c 1 -W 5 192.0.2.2
         ip netns exec b nft add table ip t
         ip netns exec b nft list tables
         ip netns exec a nft list tables");
    assert!(printed.contains("1 received"), "{printed}");
    assert!(printed.ends_with("ms\ntable ip t\n"), "{printed}");
    // The guest has a /run of its own.
    assert!(!Path::new("/run/netns/a").exists());
    assert_eq!(bed.sh("ls /run/netns"), "a\nb\n");
}

fn the_hosts_files_are_seen() {
    let (bed, file) = (bed(), directory().join("greeting"));
    let path = file.display();
    assert_eq!(bed.sh(&format!("cat \"{path}\"")), "written before the boot");
    assert_eq!(bed.sh(&format!("echo changed >\"{path}\"; cat \"{path}\"")), "changed\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "written before the boot");
    let new = directory().join("new");
    bed.sh(&format!("echo x >\"{}\"", new.display()));
    assert!(!new.exists());
    assert_eq!(bed.sh("uname -r; ls /lib/modules/$(uname -r)/modules.dep").lines().count(), 2);
}

fn many_commands_run_at_once() {
    const COMMANDS: usize = 16;
    let bed = bed();
    // None ends before the last of them has begun.
    let script = format!(
        "read line; echo $line >>/run/here
         until [ $(wc -l </run/here) = {COMMANDS} ]; do sleep 0.1; done; echo $line"
    );
    let run = &|number: usize| {
        bed.vm.run(&["sh", "-c", &script], format!("{number}\n").as_bytes()).unwrap()
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..COMMANDS).map(|number| scope.spawn(move || run(number))).collect();
        for (number, command) in all.into_iter().enumerate() {
            let output = command.join().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{number}\n"));
        }
    });
}

fn guest_and_host_reach_each_other() {
    let bed = bed();
    let namespace = Namespace::open(NAMESPACE).unwrap();
    let listener = namespace.run(listener).unwrap();
    let port = listener.local_addr().unwrap().port();
    let greets = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"from the host").unwrap();
    });
    let script = format!("exec 3<>/dev/tcp/10.0.2.2/{port}; cat <&3");
    let output = bed.vm.run(&["bash", "-c", &script], b"").unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "from the host", "{output:?}");
    greets.join().unwrap();

    let program = std::env::current_exe().unwrap();
    let line = format!(
        "mkfifo /run/listens; {} {ANSWER} >/run/listens & read line </run/listens; echo $line",
        program.display()
    );
    assert_eq!(bed.sh(&line), "listening\n");
    let mut answer = String::new();
    let connect = || TcpStream::connect(("127.0.0.1", bed.host_port)).unwrap();
    namespace.run(connect).unwrap().read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "from the guest");
}

/// In the guest: says when it listens, then greets whoever comes.
fn answer() -> ExitCode {
    let listener = TcpListener::bind(("0.0.0.0", GUEST_PORT)).unwrap();
    std::io::stdout().write_all(b"listening\n").unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"from the guest").unwrap();
    ExitCode::SUCCESS
}

fn it_is_found_again() {
    let bed = bed();
    bed.sh("echo kept >/run/kept");
    let again = Vm::attach(&directory()).unwrap();
    assert_eq!(again.run(&["cat", "/run/kept"], b"").unwrap().stdout, b"kept\n");
    let image = Image::prepare(&image_folder()).unwrap();
    let options = Options::new(directory(), Server::this_program(VERB).unwrap());
    assert!(matches!(Vm::boot(&image, options), Err(Error::Exists(_))));
    assert_eq!(again.run(&["cat", "/run/kept"], b"").unwrap().stdout, b"kept\n");
    // As after an interrupted boot.
    let state = directory().join("state.json");
    let text = std::fs::read(&state).unwrap();
    std::fs::remove_file(&state).unwrap();
    assert!(matches!(Vm::attach(&directory()), Err(Error::Missing(_))));
    std::fs::write(&state, text).unwrap();
    assert!(matches!(Vm::attach(Path::new("/no/such/folder")), Err(Error::Missing(_))));
    assert!(matches!(Vm::attach(&image_folder()), Err(Error::Missing(_))));
}

fn its_end_leaves_nothing() {
    let bed = bed();
    assert_eq!(processes(&directory()).len(), 1, "this test can see an emulator");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| bed.vm.run(&["sleep", "1000"], b""));
        bed.sh("until pidof sleep; do sleep 0.05; done");
        Vm::attach(&directory()).unwrap().end().unwrap();
        let error = waits.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("sleep 1000") && error.contains("the guest went away"), "{error}");
    });
    assert!(matches!(Vm::attach(&directory()), Err(Error::Missing(_))));
    assert!(matches!(bed.vm.run(&["true"], b""), Err(Error::Missing(_))));
    assert_eq!(processes(&directory()), [0; 0]);
    assert_eq!(mounts(), bed.mounts_before);
    assert_eq!(names(&directory()), ["greeting", "kernel.log"]);
}

const NAMESPACE: &str = "signpost-vm-test";

fn image_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("cluster").join("vm")
}

/// Of the guest. People's paths have spaces, commas and quotes in them.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("vm, the guest's")
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn ip(words: &[&str]) {
    assert!(Command::new("ip").args(words).status().unwrap().success(), "ip {words:?}");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|e| e.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Those whose command line names a file in this folder.
fn processes(folder: &Path) -> Vec<u32> {
    let folder = folder.to_str().unwrap();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|e| e.file_name().to_str()?.parse().ok());
    numbers
        .filter(|number| {
            let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(folder)
        })
        .collect()
}

/// Without those of named namespaces, which other programs make meanwhile.
fn mounts() -> String {
    let text = std::fs::read_to_string("/proc/self/mounts").unwrap();
    text.lines().filter(|line| !line.contains("/netns")).collect::<Vec<_>>().join("\n")
}
