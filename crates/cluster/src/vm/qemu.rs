//! The emulator: its command line, its process.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::channel::{self, Key};
use super::{Error, Image, Options, ready};

/// The program.
pub(super) const PROGRAM: &str = "qemu-system-x86_64";

/// What a kernel on x86 reads of its command line, without the zero at its end.
const APPEND_MAX: usize = 2047;

/// SIGKILL takes effect in milliseconds; the memory of a big guest takes some to give back.
const END: Duration = Duration::from_secs(10);

/// No reset: a guest whose kernel panics ends. Warnings go to the log, the rest costs time.
const KERNEL: &str = "console=ttyS0 panic=-1 loglevel=5 mitigations=off random.trust_cpu=on \
                      tsc=reliable nokaslr";

/// What a guest's emulator is told.
pub(super) struct CommandLine<'a> {
    pub(super) image: &'a Image,
    pub(super) options: &'a Options,
    pub(super) directory: &'a Path,
    /// Of 127.0.0.1: leads to the command server.
    pub(super) port: u16,
}

/// Starts it in the background and returns its process.
pub(super) fn start(line: &CommandLine<'_>) -> Result<Pid, Error> {
    let mut command = line.command()?;
    let output = match &line.options.namespace {
        Some(namespace) => namespace.run(|| command.output())?,
        None => command.output(),
    };
    let fault = |message| Error::Command { command: PROGRAM.to_owned(), message };
    let output = output.map_err(|e| fault(e.to_string()))?;
    if !output.status.success() {
        return Err(fault(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    running(line.directory).ok_or_else(|| fault("it ended at once".to_owned()))
}

/// The emulator of this directory's guest.
pub(super) fn running(directory: &Path) -> Option<Pid> {
    let text = std::fs::read_to_string(pid_file(directory)).ok()?;
    let pid = Pid::from_raw(text.trim().parse().ok()?);
    is_ours(pid, directory).then_some(pid)
}

/// Whether this process is the emulator of this directory's guest, and not one that came later and
/// has its number.
fn is_ours(pid: Pid, directory: &Path) -> bool {
    // Empty of one that has ended.
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    words.any(|word| word == b"-pidfile")
        && words.next() == Some(pid_file(directory).as_os_str().as_bytes())
}

/// Ends it and waits until it is gone.
pub(super) fn end(pid: Pid, directory: &Path) -> Result<(), Error> {
    let deadline = Instant::now() + END;
    while is_ours(pid, directory) {
        if Instant::now() > deadline {
            return Err(Error::Command {
                command: PROGRAM.to_owned(),
                message: format!("process {pid} is still there {} s after SIGKILL", END.as_secs()),
            });
        }
        // It may have ended on its own meanwhile.
        let _ = kill(pid, Signal::SIGKILL);
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Where the kernel's messages go.
pub(super) fn log(directory: &Path) -> PathBuf {
    directory.join("kernel.log")
}

/// Where it writes its number.
pub(super) fn pid_file(directory: &Path) -> PathBuf {
    directory.join("pid")
}

impl CommandLine<'_> {
    fn command(&self) -> Result<Command, Error> {
        let Self { image, options, directory, .. } = self;
        let mut command = Command::new(PROGRAM);
        command
            .args(["-daemonize", "-nodefaults", "-no-reboot", "-display", "none"])
            // One thread for each processor; -cpu max brings RDRAND, so that the guest need not wait.
            .args(["-accel", "tcg,thread=multi", "-cpu", "max"])
            .args(["-m", &options.memory_mib.to_string(), "-smp", &options.cpus.to_string()])
            .arg("-pidfile")
            .arg(pid_file(directory))
            .args(["-serial", &format!("file:{}", log(directory).display())])
            .args(["-serial", &ready::argument(directory)])
            .arg("-kernel")
            .arg(image.kernel())
            .arg("-initrd")
            .arg(image.initramfs())
            .args([
                "-virtfs",
                "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
            ])
            .args(["-netdev", &self.network()])
            .args(["-device", "virtio-net-pci,netdev=net"])
            .args(["-append", &self.append()?]);
        Ok(command)
    }

    /// User-mode networking: no interface on the host, and only 127.0.0.1 leads in.
    fn network(&self) -> String {
        let forwards = self.options.forwards.iter().map(|f| (f.host_port, f.guest_port));
        let mut network = "user,id=net,ipv6=off".to_owned();
        for (host, guest) in forwards.chain([(self.port, channel::PORT)]) {
            network.push_str(&format!(",hostfwd=tcp:127.0.0.1:{host}-:{guest}"));
        }
        network
    }

    /// The kernel's command line: `data/vm/init` reads it.
    fn append(&self) -> Result<String, Error> {
        let mut line =
            format!("{KERNEL} signpost.modules={}", escaped(self.image.modules().as_os_str()));
        let server = &self.options.server;
        let arguments = channel::arguments(&Key::path(self.directory));
        let words = [server.program.as_os_str()]
            .into_iter()
            .chain(server.arguments.iter().map(|a| a.as_os_str()))
            .chain(arguments.iter().map(|a| a.as_os_str()));
        for word in words {
            line.push_str(" signpost.run=");
            line.push_str(&escaped(word));
        }
        if line.len() > APPEND_MAX {
            let what = [self.image.modules(), &server.program, self.directory];
            let what = what.map(|path| path.display().to_string()).join(" or ");
            return Err(Error::CommandLine { length: line.len(), max: APPEND_MAX, what });
        }
        Ok(line)
    }
}

/// As printf's %b takes it: without what would end or quote a word.
fn escaped(word: &OsStr) -> String {
    let mut text = String::new();
    for byte in word.as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b':' => {
                text.push(char::from(*byte));
            }
            other => text.push_str(&format!("\\0{other:03o}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn an_escaped_word_is_one_word_and_comes_out_as_it_went_in() {
        for word in ["/usr/bin/x", "a b", "\"q\" 'r'", "back\\slash", "$HOME=%s*?", "später", ""] {
            let line = escaped(OsStr::new(word));
            assert!(!line.contains([' ', '"', '\'', '*', '$']), "{line}");
            let output = Command::new("sh")
                .args(["-c", "for w in $LINE; do printf %b \"${w#*=}\"; done"])
                .env("LINE", format!("signpost.run={line}"))
                .output()
                .unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), word);
        }
    }

    #[test]
    fn another_process_is_not_ours() {
        assert!(!is_ours(Pid::this(), Path::new("/nowhere")));
    }

    #[test]
    fn a_process_is_ours_by_the_file_it_writes_its_number_to() {
        let mut child = Command::new("sh")
            .args(["-c", "echo; read line", "-pidfile", "/some/where/pid"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // A process that has only just been started shows no command line.
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let pid = Pid::from_raw(child.id().try_into().unwrap());
        assert!(is_ours(pid, Path::new("/some/where")));
        assert!(!is_ours(pid, Path::new("/some/where/else")));
        end(pid, Path::new("/some/where/else")).unwrap();
        assert!(child.try_wait().unwrap().is_none(), "a stranger was ended");
        end(pid, Path::new("/some/where")).unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
