//! The Go module of `tests/cluster`, built once for its sources.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;
use crate::error::At;

/// Names another release than that of `go.mod`, as `1.34.4`.
const RELEASE: &str = "SIGNPOST_KUBERNETES";

/// A folder in which a process builds, before its number.
const BUILDING: &str = "building-";

/// The built program: every component, by its first argument.
#[derive(Clone, Debug)]
pub struct Components {
    program: PathBuf,
}

impl Components {
    /// Builds them, unless these very sources were built before. `root` is the project's; `tell` is
    /// called if it will take a while.
    pub fn build(root: &Path, tell: impl FnOnce(&str)) -> Result<Self, Error> {
        let module = root.join("tests/cluster");
        let sources = sources(&module)?;
        let release = std::env::var(RELEASE).ok().filter(|r| !r.is_empty());
        let release = match &release {
            Some(release) => checked(release)?,
            None => pinned(&sources)?,
        };
        let target = root.join("target/cluster");
        let program = target.join(format!("{:016x}", digest(&sources, release))).join("components");
        if program.is_file() {
            return Ok(Self { program });
        }
        tell(&format!("building the components of Kubernetes {release}: minutes, the first time"));
        remove_abandoned(&target);
        let work = target.join(format!("{BUILDING}{}", std::process::id()));
        let built = build(&work, &sources, release).and_then(|built| {
            let folder = program.parent().expect("a file in a folder");
            std::fs::create_dir_all(folder).at(|| folder.display().to_string())?;
            // Whole or not at all: two may build at once.
            std::fs::rename(&built, &program).at(|| program.display().to_string())
        });
        // Only what was copied: a failure to remove it must not hide why the build failed.
        let _ = std::fs::remove_dir_all(&work);
        built.map(|()| Self { program })
    }

    /// Those that were built before.
    pub(crate) fn at(program: PathBuf) -> Self {
        Self { program }
    }

    /// The program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A component, to be given arguments.
    pub fn command(&self, component: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(component);
        command
    }
}

/// Removes what builds that were killed have left.
fn remove_abandoned(target: &Path) {
    for entry in std::fs::read_dir(target).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let builder = name.to_str().and_then(|n| n.strip_prefix(BUILDING));
        if builder.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // In nobody's way if it stays.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

type Sources = BTreeMap<PathBuf, Vec<u8>>;

/// What the program is made of, by paths within the module.
fn sources(module: &Path) -> Result<Sources, Error> {
    let mut found = Sources::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let path = module.join(&folder);
        for entry in std::fs::read_dir(&path).at(|| path.display().to_string())? {
            let entry = entry.at(|| path.display().to_string())?;
            let name = folder.join(entry.file_name());
            let kind = entry.file_type().at(|| name.display().to_string())?;
            let is = |ext: &str| name.extension().is_some_and(|e| e == ext);
            if kind.is_dir() {
                folders.push(name);
            } else if is("go") || is("mod") || is("sum") {
                let text = std::fs::read(entry.path()).at(|| name.display().to_string())?;
                found.insert(name, text);
            }
        }
    }
    Ok(found)
}

fn digest(sources: &Sources, release: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (sources, release).hash(&mut hasher);
    hasher.finish()
}

/// The release that `go.mod` requires.
fn pinned(sources: &Sources) -> Result<&str, Error> {
    let fault = || Error::Data("tests/cluster/go.mod requires no k8s.io/kubernetes".to_owned());
    let text = sources.get(Path::new("go.mod")).ok_or_else(fault)?;
    let text = std::str::from_utf8(text).map_err(|_| fault())?;
    text.lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"))
        .map(|rest| rest.split(' ').next().unwrap_or(rest))
        .ok_or_else(fault)
}

fn checked(release: &str) -> Result<&str, Error> {
    let parts: Vec<&str> = release.split('.').collect();
    let number = |p: &&str| (1..=3).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit());
    if parts.len() == 3 && parts[0] == "1" && parts.iter().all(number) {
        Ok(release)
    } else {
        Err(Error::Build(format!("{RELEASE}={release} is no release: give one as 1.34.4")))
    }
}

/// Builds a copy of the sources, so that another release changes no file of the project.
fn build(work: &Path, sources: &Sources, release: &str) -> Result<PathBuf, Error> {
    for (name, text) in sources {
        let file = work.join(name);
        let folder = file.parent().expect("a file in a folder");
        std::fs::create_dir_all(folder).at(|| folder.display().to_string())?;
        std::fs::write(&file, text).at(|| file.display().to_string())?;
    }
    if pinned(sources)? != release {
        retarget(work, sources, release)?;
    }
    let minor = release.split('.').nth(1).expect("three numbers");
    let version = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {version}.gitVersion=v{release} -X {version}.gitMajor=1 \
         -X {version}.gitMinor={minor}"
    );
    go(work, &["build", "-trimpath", "-ldflags", &flags, "-o", "components", "."])?;
    Ok(work.join("components"))
}

/// Points the module at another release: its staging modules have the same minor and patch.
fn retarget(work: &Path, sources: &Sources, release: &str) -> Result<(), Error> {
    let old = pinned(sources)?;
    let staging = |release: &str| release.replacen("1.", "v0.", 1);
    let text = String::from_utf8_lossy(&sources[Path::new("go.mod")])
        .replace(&staging(old), &staging(release))
        .replace(&format!("v{old}"), &format!("v{release}"));
    // What the other release needs besides is the other release's own choice.
    let direct: Vec<&str> = text.lines().filter(|l| !l.contains("// indirect")).collect();
    let file = work.join("go.mod");
    std::fs::write(&file, direct.join("\n")).at(|| file.display().to_string())?;
    go(work, &["mod", "tidy"])
}

fn go(folder: &Path, args: &[&str]) -> Result<(), Error> {
    let mut command = Command::new("go");
    let status = command.current_dir(folder).args(args).status().map_err(|e| {
        Error::Build(if e.kind() == std::io::ErrorKind::NotFound {
            "install Go 1.26 or newer, so that `go version` works, and try again".to_owned()
        } else {
            format!("go: {e}")
        })
    })?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::Build(format!("`go {}` failed: {status}", args.join(" "))))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn the_release_is_go_mods_and_another_must_be_one() {
        let go_mod = "require (\n\tk8s.io/kubernetes v1.36.3\n)\n".as_bytes().to_vec();
        let sources = Sources::from([("go.mod".into(), go_mod)]);
        assert_eq!(pinned(&sources).unwrap(), "1.36.3");
        assert!(pinned(&Sources::new()).is_err());
        assert_eq!(checked("1.34.4").unwrap(), "1.34.4");
        for bad in ["", "v1.34.4", "1.34", "1.34.x", "2.0.0", "1..4", "1.9999.1"] {
            assert!(checked(bad).unwrap_err().to_string().contains("1.34.4"), "{bad}");
        }
        assert_ne!(digest(&sources, "1.36.3"), digest(&sources, "1.34.4"));
    }
}
