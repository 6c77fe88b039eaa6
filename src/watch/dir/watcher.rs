//! inotify over a tree of directories: which files were written, and when to look at all of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};
use signpost_report::Diagnostic;

/// Manifests are not nested deeper, and each level takes stack.
const DEPTH_MAX: usize = 64;

/// Room for a few hundred events at once.
const BUFFER: usize = 64 << 10;

/// What a directory tells: complete files, names that come and go, its own end.
const OF_DIRECTORY: WatchMask = WatchMask::CLOSE_WRITE
    .union(WatchMask::CREATE)
    .union(WatchMask::DELETE)
    .union(WatchMask::MOVE)
    .union(WatchMask::DELETE_SELF)
    .union(WatchMask::MOVE_SELF)
    .union(WatchMask::ATTRIB)
    .union(WatchMask::ONLYDIR);

/// What tells that a name leads to another directory now.
const OF_ABOVE: WatchMask = WatchMask::CREATE
    .union(WatchMask::DELETE)
    .union(WatchMask::MOVE)
    .union(WatchMask::DELETE_SELF)
    .union(WatchMask::MOVE_SELF)
    .union(WatchMask::ONLYDIR);

/// A file that a symbolic link names lies where no directory of ours tells of it.
const OF_TARGET: WatchMask = WatchMask::CLOSE_WRITE
    .union(WatchMask::DELETE_SELF)
    .union(WatchMask::MOVE_SELF)
    .union(WatchMask::ATTRIB);

pub(super) struct Watcher {
    root: PathBuf,
    inotify: Inotify,
    watched: HashMap<WatchDescriptor, Watched>,
    buffer: Vec<u8>,
}

enum Watched {
    /// The directory that the root's name is in.
    Above(OsString),
    Directory(PathBuf),
    /// What the symbolic links of these paths lead to.
    Target(BTreeSet<PathBuf>),
}

/// What happened.
#[derive(Default)]
pub(super) struct Seen {
    /// Files that are complete now: closed by their writer, or moved here.
    pub(super) complete: BTreeSet<PathBuf>,
    /// Files that went. A new one of the same name may be there, and complete or not.
    pub(super) gone: BTreeSet<PathBuf>,
    /// Files that others may read now.
    pub(super) opened: BTreeSet<PathBuf>,
    pub(super) look: Look,
}

/// At what to look again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Look {
    /// The files that were named.
    #[default]
    Named,
    /// All names: a directory came, went, or is another one.
    Names,
    /// All names and contents: events were lost.
    Contents,
}

/// What a walk found.
#[derive(Default)]
pub(super) struct Walked {
    pub(super) files: BTreeSet<PathBuf>,
    /// What cannot be followed, and so would go stale unseen.
    pub(super) trouble: BTreeMap<PathBuf, String>,
}

/// Where a walk has been, and where it has yet to go.
#[derive(Default)]
struct Pass {
    /// Device and inode of each directory.
    entered: BTreeSet<(u64, u64)>,
    /// Symbolic links to directories.
    links: BTreeSet<PathBuf>,
}

impl Watcher {
    pub(super) fn open(root: &Path) -> Result<Self> {
        let inotify = Inotify::init().context(
            "inotify is not available: is the sysctl fs.inotify.max_user_instances reached?",
        )?;
        let root = root.to_path_buf();
        Ok(Self { root, inotify, watched: HashMap::new(), buffer: vec![0; BUFFER] })
    }

    /// Finds every manifest, and watches what it passes.
    pub(super) fn walk(&mut self) -> Walked {
        let mut walked = Walked::default();
        let before = std::mem::take(&mut self.watched);
        if let Ok(full) = std::path::absolute(&self.root)
            && let (Some(above), Some(name)) = (full.parent(), full.file_name())
        {
            // Without it (no permission) a root that is replaced is found when it is missed.
            if let Ok(watch) = self.inotify.watches().add(above, OF_ABOVE) {
                self.watched.insert(watch, Watched::Above(name.to_owned()));
            }
        }
        let mut pass = Pass::default();
        self.enter(&self.root.clone(), 0, &mut pass, &mut walked);
        // Directories are entered by their own names first, and each once: inotify knows a directory
        // by one name only, and links can lead round in circles.
        while let Some(link) = pass.links.pop_first() {
            self.enter(&link, 0, &mut pass, &mut walked);
        }
        for watch in before.into_keys().filter(|w| !self.watched.contains_key(w)) {
            // EINVAL: it went with its directory.
            let _ = self.inotify.watches().remove(watch);
        }
        walked
    }

    fn enter(&mut self, dir: &Path, depth: usize, pass: &mut Pass, walked: &mut Walked) {
        if depth > DEPTH_MAX {
            let why = format!("cannot be followed: deeper than {DEPTH_MAX} directories");
            walked.trouble.insert(dir.to_path_buf(), why);
            return;
        }
        // One that went meanwhile, or may not be seen, is told of below.
        if let Ok(m) = std::fs::metadata(dir)
            && !pass.entered.insert((m.dev(), m.ino()))
        {
            return;
        }
        // Watched before it is listed: what comes in between is seen twice, never missed.
        self.watch(dir, OF_DIRECTORY, Watched::Directory(dir.to_path_buf()), walked);
        let entries = match std::fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(e) => {
                walked.trouble.insert(dir.to_path_buf(), format!("cannot be listed: {e}"));
                return;
            }
        };
        for entry in entries.flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            if hidden(&name) {
                continue;
            }
            let link = entry.file_type().is_ok_and(|t| t.is_symlink());
            match std::fs::metadata(&path) {
                Ok(m) if m.is_dir() && link => {
                    pass.links.insert(path);
                }
                Ok(m) if m.is_dir() => self.enter(&path, depth + 1, pass, walked),
                Ok(m) if m.is_file() && manifest(&name) => {
                    if link {
                        let links = BTreeSet::from([path.clone()]);
                        self.watch(&path, OF_TARGET, Watched::Target(links), walked);
                    }
                    walked.files.insert(path);
                }
                // Sockets and the like, and links that lead nowhere.
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn watch(&mut self, path: &Path, mask: WatchMask, what: Watched, walked: &mut Walked) {
        match self.inotify.watches().add(path, mask) {
            Ok(watch) => match (self.watched.get_mut(&watch), what) {
                (Some(Watched::Target(known)), Watched::Target(more)) => known.extend(more),
                (_, what) => {
                    self.watched.insert(watch, what);
                }
            },
            // It went meanwhile, of which its directory tells.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) if e.raw_os_error() == Some(libc::ENOSPC) => {
                let why = "cannot be followed: the sysctl fs.inotify.max_user_watches is reached";
                walked.trouble.insert(path.to_path_buf(), why.into());
            }
            Err(e) => {
                walked.trouble.insert(path.to_path_buf(), format!("cannot be followed: {e}"));
            }
        }
    }

    /// Takes what inotify has.
    pub(super) fn events(&mut self) -> Seen {
        let mut seen = Seen::default();
        let mut buffer = std::mem::take(&mut self.buffer);
        loop {
            let events = match self.inotify.read_events(&mut buffer) {
                Ok(events) => events,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    seen.look = Look::Contents;
                    break;
                }
            };
            let mut any = false;
            for e in events {
                any = true;
                if e.mask.contains(EventMask::Q_OVERFLOW) {
                    seen.look = Look::Contents;
                } else if e.mask.contains(EventMask::IGNORED) {
                    self.watched.remove(&e.wd);
                } else if let Some(watched) = self.watched.get(&e.wd) {
                    seen.absorb(watched, e.mask, e.name, &self.watched);
                }
            }
            if !any {
                break;
            }
        }
        self.buffer = buffer;
        seen
    }
}

impl Seen {
    fn absorb(
        &mut self,
        watched: &Watched,
        mask: EventMask,
        name: Option<&OsStr>,
        all: &HashMap<WatchDescriptor, Watched>,
    ) {
        let names = |seen: &mut Self| seen.look = seen.look.max(Look::Names);
        match (watched, name) {
            (Watched::Above(root), Some(name)) if root == name => names(self),
            (Watched::Above(_), Some(_)) => {}
            (Watched::Target(links), _) if mask.contains(EventMask::CLOSE_WRITE) => {
                self.complete.extend(links.iter().cloned());
            }
            (Watched::Directory(_), None) if mask.contains(EventMask::ATTRIB) => {}
            (Watched::Above(_) | Watched::Directory(_) | Watched::Target(_), None)
            | (Watched::Target(_), Some(_)) => names(self),
            (Watched::Directory(dir), Some(name)) => {
                let path = dir.join(name);
                if mask.contains(EventMask::ATTRIB) {
                    self.opened.insert(path);
                } else if mask.contains(EventMask::ISDIR) || kubelets(name) {
                    names(self);
                } else if hidden(name) {
                    // An editor's own.
                } else if manifest(name) {
                    // A new name says nothing of the content yet, unless it is a link to a file
                    // that is complete elsewhere.
                    if mask.contains(EventMask::CREATE) {
                        if linked(&path) {
                            names(self);
                            self.complete.insert(path);
                        }
                    } else if mask.intersects(EventMask::DELETE | EventMask::MOVED_FROM) {
                        self.gone.insert(path);
                    } else {
                        self.complete.insert(path);
                    }
                } else if !mask.contains(EventMask::CLOSE_WRITE)
                    && (path.is_symlink() || leads_in(all, &path))
                {
                    // A link to a directory that leads elsewhere now.
                    names(self);
                }
            }
        }
    }
}

impl Walked {
    pub(super) fn diagnostics(&self) -> Vec<Diagnostic> {
        let cure = "what changes there is not seen until it is mended and the agent restarted";
        let tell = |(path, why): (&PathBuf, &String)| {
            Diagnostic::error(path.display().to_string(), why.clone()).with_cure(cure)
        };
        self.trouble.iter().map(tell).collect()
    }
}

impl AsFd for Watcher {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// Names that begin with a dot are editors' and kubelet's own.
fn hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// A ConfigMap's `..data`, which its files lead through.
fn kubelets(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"..")
}

fn manifest(name: &OsStr) -> bool {
    Path::new(name).extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json")
}

/// A symbolic link, or one of several names of a file: complete as soon as it is there.
fn linked(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink() || m.nlink() > 1)
}

/// Whether a directory that is watched was found by way of this path.
fn leads_in(all: &HashMap<WatchDescriptor, Watched>, path: &Path) -> bool {
    all.values().any(|w| matches!(w, Watched::Directory(dir) if dir.starts_with(path)))
}
