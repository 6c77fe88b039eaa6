//! `--source dir:PATH`: every YAML and JSON file below a directory, followed by inotify.
//!
//! What a file holds counts once its writer has closed it or has moved it into place: a file that
//! is being written is never read half. A file that goes away counts as gone only after
//! [`SETTLE`], because editors move the old file aside before the new one comes. A file that does
//! not parse keeps its last good objects.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};
use signpost_api::Identity;
use signpost_plan::world::Change;
use signpost_report::{Diagnostic, Severity};

use super::SourceEvent;

/// How long an editor may leave a name without a file (vim, sed -i and kubelet need under 10 ms).
const SETTLE: Duration = Duration::from_millis(200);

/// Larger files are not manifests.
const FILE_MAX: u64 = 64 << 20;

/// Deeper than this is a loop of symbolic links.
const DEPTH_MAX: usize = 16;

/// So many changes go to control at once: it renews its lease in between.
const BATCH: usize = 1000;

/// A directory of manifests.
pub(crate) struct Dir {
    root: PathBuf,
    inotify: Inotify,
    watches: HashMap<WatchDescriptor, PathBuf>,
    files: BTreeMap<Arc<Path>, File>,
    /// Which files hold an object, sorted; the first one's counts. Almost always it is one.
    holders: HashMap<Arc<Identity>, Box<[Arc<Path>]>>,
    gone: BTreeMap<PathBuf, Instant>,
    rescan: bool,
    buffer: Vec<u8>,
}

#[derive(Default)]
struct File {
    stamp: Option<Stamp>,
    objects: Box<[Arc<Identity>]>,
    diagnostics: Box<[Diagnostic]>,
}

/// What tells one version of a file from another without reading it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Dir {
    /// Opens the directory and starts to watch it; nothing is read yet.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        let meta = std::fs::metadata(root)
            .with_context(|| format!("--source dir:{}: cannot be read", root.display()))?;
        if !meta.is_dir() {
            bail!("--source dir:{}: not a directory", root.display());
        }
        let inotify = Inotify::init().context("inotify is not available")?;
        Ok(Self {
            root: root.to_path_buf(),
            inotify,
            watches: HashMap::new(),
            files: BTreeMap::new(),
            holders: HashMap::new(),
            gone: BTreeMap::new(),
            rescan: false,
            buffer: vec![0; 64 << 10],
        })
    }

    /// How many manifests the last reading found.
    pub(crate) fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Reads everything. The first call, and after an overrun.
    pub(crate) fn scan(&mut self, out: &mut dyn FnMut(SourceEvent)) {
        self.rescan = false;
        let mut found = BTreeSet::new();
        let root = self.root.clone();
        self.walk(&root, 0, &mut found);
        let mut batch = Vec::new();
        for path in &found {
            self.gone.remove(path);
            self.read(path, &mut batch);
            if batch.len() >= BATCH {
                out(SourceEvent::Changes(std::mem::take(&mut batch)));
            }
        }
        let now = Instant::now();
        for path in self.files.keys() {
            if !found.contains(&**path) {
                self.gone.entry(path.to_path_buf()).or_insert(now);
            }
        }
        out(SourceEvent::Changes(batch));
    }

    /// When [`Dir::turn`] has something to do even if nothing happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.gone.values().min().map(|t| *t + SETTLE)
    }

    /// Takes what inotify has and reads the files it names.
    pub(crate) fn turn(&mut self, out: &mut dyn FnMut(SourceEvent)) {
        let dirty = self.events();
        let mut batch = Vec::new();
        for path in dirty {
            if path.is_file() {
                self.gone.remove(&path);
                self.read(&path, &mut batch);
            } else if self.files.contains_key(path.as_path()) {
                self.gone.entry(path).or_insert_with(Instant::now);
            }
        }
        if self.rescan {
            self.scan(out);
        }
        let now = Instant::now();
        let settled: Vec<_> =
            self.gone.iter().filter(|(_, t)| **t + SETTLE <= now).map(|(p, _)| p.clone()).collect();
        for path in settled {
            self.gone.remove(&path);
            self.forget(&path, &mut batch);
        }
        out(SourceEvent::Changes(batch));
    }

    /// Everything that is wrong with what people wrote.
    pub(crate) fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut all: Vec<_> = self.files.values().flat_map(|f| &f.diagnostics).cloned().collect();
        for (identity, files) in self.holders.iter().filter(|(_, files)| files.len() > 1) {
            let first = files[0].display();
            for other in &files[1..] {
                let what = format!("is in `{}` and in `{first}`", other.display());
                let cure = format!("delete one; `{first}` counts until then");
                all.push(Diagnostic::error(identity.to_string(), what).with_cure(cure));
            }
        }
        all.sort();
        // A kind that is not ours is noted once, wherever it stands first.
        let mut noted = BTreeSet::new();
        all.retain(|d| {
            d.severity != Severity::Note || noted.insert((d.object.clone(), d.message.clone()))
        });
        all
    }

    fn events(&mut self) -> BTreeSet<PathBuf> {
        let mut dirty = BTreeSet::new();
        loop {
            let events = match self.inotify.read_events(&mut self.buffer) {
                Ok(events) => events,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return dirty,
                Err(_) => {
                    self.rescan = true;
                    return dirty;
                }
            };
            let mut any = false;
            for e in events {
                any = true;
                if e.mask.contains(EventMask::Q_OVERFLOW) {
                    self.rescan = true;
                    continue;
                }
                let Some(dir) = self.watches.get(&e.wd) else { continue };
                let Some(name) = e.name else {
                    if e.mask.intersects(EventMask::DELETE_SELF | EventMask::MOVE_SELF) {
                        self.rescan = true;
                    }
                    if e.mask.contains(EventMask::IGNORED) {
                        self.watches.remove(&e.wd);
                    }
                    continue;
                };
                let path = dir.join(name);
                if e.mask.contains(EventMask::ISDIR) || hidden(name) {
                    // A new directory, or a ConfigMap's `..data` that points elsewhere now.
                    self.rescan = true;
                } else if manifest(name) {
                    // A new name says nothing of the content yet, unless it is a link to a file
                    // that is complete elsewhere.
                    let written = !e.mask.contains(EventMask::CREATE) || linked(&path);
                    if written {
                        dirty.insert(path);
                    }
                }
            }
            if !any {
                return dirty;
            }
        }
    }

    fn walk(&mut self, dir: &Path, depth: usize, found: &mut BTreeSet<PathBuf>) {
        if depth > DEPTH_MAX {
            return;
        }
        let mask = WatchMask::CLOSE_WRITE
            | WatchMask::CREATE
            | WatchMask::DELETE
            | WatchMask::MOVE
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF
            | WatchMask::ONLYDIR;
        // Watched before it is listed: what comes in between is seen twice, never missed.
        if let Ok(wd) = self.inotify.watches().add(dir, mask) {
            self.watches.insert(wd, dir.to_path_buf());
        }
        let Ok(entries) = std::fs::read_dir(dir) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            if hidden(&entry.file_name()) {
                continue;
            }
            match std::fs::metadata(&path) {
                Ok(m) if m.is_dir() => self.walk(&path, depth + 1, found),
                Ok(m) if m.is_file() && manifest(&entry.file_name()) => {
                    found.insert(path);
                }
                _ => {}
            }
        }
    }

    fn read(&mut self, path: &Path, out: &mut Vec<Change>) {
        let name = path.display().to_string();
        let stamp = std::fs::metadata(path).ok().map(|m| Stamp {
            device: m.dev(),
            inode: m.ino(),
            size: m.size(),
            modified: (m.mtime(), m.mtime_nsec()),
        });
        let path: Arc<Path> = match self.files.get_key_value(path) {
            Some((known, _)) => Arc::clone(known),
            None => path.into(),
        };
        let known = self.files.entry(Arc::clone(&path)).or_default();
        if stamp.is_some() && known.stamp == stamp {
            return;
        }
        known.stamp = stamp;
        let text = if stamp.is_some_and(|s| s.size > FILE_MAX) {
            Err(format!("is larger than {} MiB", FILE_MAX >> 20))
        } else {
            std::fs::read_to_string(&path).map_err(|e| format!("cannot be read: {e}"))
        };
        let parsed = match text {
            Ok(text) => signpost_api::parse(&name, &text),
            Err(what) => {
                let d = Diagnostic::error(name, what).with_cure("its last good objects stay");
                known.diagnostics = [d].into();
                return;
            }
        };
        known.diagnostics = parsed.diagnostics.into();
        if !parsed.complete {
            return;
        }
        // What is there and badly written keeps its last good state.
        let kept = known.objects.iter().filter(|o| parsed.broken.contains(o)).cloned();
        let new: BTreeSet<_> =
            parsed.objects.iter().map(|o| Arc::new(o.identity())).chain(kept).collect();
        let old = std::mem::replace(&mut known.objects, new.iter().cloned().collect());
        for identity in &old {
            if !new.contains(identity) {
                self.release(identity, &path, out);
            }
        }
        for identity in new {
            let holders = self.holders.entry(identity).or_default();
            if let Err(at) = holders.binary_search(&path) {
                let mut more = std::mem::take(holders).into_vec();
                more.insert(at, Arc::clone(&path));
                *holders = more.into();
            }
        }
        for object in parsed.objects {
            let holders = self.holders.get(&object.identity());
            if holders.and_then(|h| h.first()) == Some(&path) {
                out.push(object.into_change());
            }
        }
    }

    fn forget(&mut self, path: &Path, out: &mut Vec<Change>) {
        if let Some((path, file)) = self.files.remove_entry(path) {
            for identity in &file.objects {
                self.release(identity, &path, out);
            }
        }
    }

    /// A file no longer holds an object: gone, or the next file's counts now.
    fn release(&mut self, identity: &Identity, path: &Arc<Path>, out: &mut Vec<Change>) {
        let Some(holders) = self.holders.get_mut(identity) else { return };
        let counted = holders.first() == Some(path);
        *holders = holders.iter().filter(|h| *h != path).cloned().collect();
        let Some(next) = holders.first().cloned() else {
            self.holders.remove(identity);
            out.push(identity.gone());
            return;
        };
        if counted {
            if let Some(file) = self.files.get_mut(&next) {
                file.stamp = None;
            }
            self.read(&next, out);
        }
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// Names that begin with a dot are editors' and kubelet's own.
fn hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

fn manifest(name: &OsStr) -> bool {
    Path::new(name).extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json")
}

/// A symbolic link, or one of several names of a file: complete as soon as it is there.
fn linked(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink() || m.nlink() > 1)
}
