//! `--source dir:PATH`: every YAML and JSON file below a directory, followed by inotify.
//!
//! What a file holds counts once its writer has closed it or has moved it into place: a file that
//! is being written is never read half. A file that goes away or is emptied counts as that only
//! after [`SETTLE`], because editors move the old file aside before the new one comes, and shells
//! empty it before they fill it. What does not parse keeps its last good objects, and so does
//! everything while the directory itself is gone.

mod watcher;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::Metadata;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use signpost_api::{Identity, Object};
use signpost_plan::world::Change;
use signpost_report::{Diagnostic, Severity, Span};

use super::SourceEvent;
use watcher::{Look, Watcher};

/// How long an editor may leave a name without a file (vim, sed -i and kubelet need under 10 ms).
const SETTLE: Duration = Duration::from_millis(200);

/// How often a directory that is gone is looked for, where nothing tells of it.
const RETRY: Duration = Duration::from_secs(1);

/// Larger files are not manifests.
const FILE_MAX: u64 = 64 << 20;

/// So many changes go to control at once: it renews its lease in between.
const BATCH: usize = 1000;

/// A directory of manifests.
pub(crate) struct Dir {
    root: PathBuf,
    watcher: Watcher,
    files: BTreeMap<Arc<Path>, File>,
    /// Which files hold an object, sorted; the first one's counts. Almost always it is one.
    holders: HashMap<Arc<Identity>, Box<[Arc<Path>]>>,
    /// Files that went, and when.
    gone: BTreeMap<PathBuf, Instant>,
    /// Files that were emptied, and when they were last written.
    emptied: BTreeMap<PathBuf, Instant>,
    /// When the directory itself was last missed.
    missed: Option<Instant>,
    unfollowed: Vec<Diagnostic>,
}

#[derive(Default)]
struct File {
    inode: Option<Inode>,
    objects: Box<[Held]>,
    diagnostics: Box<[Diagnostic]>,
    unread: bool,
}

/// An object of a file, and where it is in it: 0 if it was not well written this time.
struct Held {
    identity: Arc<Identity>,
    line: u32,
}

/// What tells one file from another of the same name.
type Inode = (u64, u64);

impl Dir {
    /// Opens the directory; nothing is read yet.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        let name = || format!("--source dir:{}", root.display());
        let meta = std::fs::metadata(root)
            .with_context(|| format!("{}: make it, with the manifests in it", name()))?;
        if !meta.is_dir() {
            bail!("{}: not a directory; name the one that the manifests are in", name());
        }
        std::fs::read_dir(root)
            .with_context(|| format!("{}: the agent may not list it", name()))?;
        Ok(Self {
            root: root.to_path_buf(),
            watcher: Watcher::open(root)?,
            files: BTreeMap::new(),
            holders: HashMap::new(),
            gone: BTreeMap::new(),
            emptied: BTreeMap::new(),
            missed: None,
            unfollowed: Vec::new(),
        })
    }

    /// Why there is nothing to do, if the last reading found no manifest at all.
    pub(crate) fn emptiness(&self) -> Option<String> {
        self.files.is_empty().then(|| {
            format!(
                "no manifests: no .yaml, .yml or .json file is below {}; write the Services, \
                 EndpointSlices, Nodes, IPAddressPools and L2Advertisements to be served",
                self.root.display()
            )
        })
    }

    /// Reads everything, for the first time.
    pub(crate) fn scan(&mut self, out: &mut dyn FnMut(SourceEvent)) {
        self.look(Look::Contents, out);
    }

    /// When [`Dir::turn`] has something to do even if nothing happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if let Some(missed) = self.missed {
            return Some(missed + RETRY);
        }
        self.gone.values().chain(self.emptied.values()).min().map(|t| *t + SETTLE)
    }

    /// Takes what happened and reads the files it names. Whether anything was of interest.
    pub(crate) fn turn(&mut self, out: &mut dyn FnMut(SourceEvent)) -> bool {
        let seen = self.watcher.events();
        let now = Instant::now();
        let mut look = seen.look;
        if self.missed.is_some_and(|t| t + RETRY <= now) {
            look = look.max(Look::Names);
        }
        if look > Look::Named && (self.missed.is_some() || !self.unfollowed.is_empty()) {
            look = Look::Contents;
        }
        let mut batch = Vec::new();
        let mut busy = look > Look::Named;
        for path in seen.gone {
            busy = true;
            self.missing(path, now);
        }
        for path in seen.complete {
            busy = true;
            self.written(path, now, &mut batch);
        }
        for path in seen.opened {
            if self.files.get(path.as_path()).is_some_and(|f| f.unread) {
                busy = true;
                self.read(&path, &mut batch);
            }
        }
        out(SourceEvent::Changes(std::mem::take(&mut batch)));
        if look > Look::Named {
            self.look(look, out);
        }
        if self.missed.is_none() {
            busy |= self.settle(now, &mut batch);
            out(SourceEvent::Changes(batch));
        }
        busy
    }

    /// Everything that is wrong with what people wrote.
    pub(crate) fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut all: Vec<_> = self.files.values().flat_map(|f| &f.diagnostics).cloned().collect();
        for (identity, files) in self.holders.iter().filter(|(_, files)| files.len() > 1) {
            let first = self.place(&files[0], identity);
            for other in &files[1..] {
                let what = format!("is in {first} too, and that one counts");
                let d = Diagnostic::error(identity.to_string(), what).with_cure("delete one");
                all.push(d.at(self.place(other, identity)));
            }
        }
        all.extend(self.unfollowed.iter().cloned());
        if self.missed.is_some() {
            let d = Diagnostic::error(self.root.display().to_string(), "the directory is gone");
            all.push(d.with_cure("make it again; what it held stays as it was until then"));
        }
        all.sort();
        // A kind that is not ours is noted once, wherever it stands first.
        let mut noted = BTreeSet::new();
        all.retain(|d| {
            d.severity != Severity::Note || noted.insert((d.object.clone(), d.message.clone()))
        });
        all
    }

    fn place(&self, path: &Path, identity: &Identity) -> Span {
        let objects = self.files.get(path).map_or(&[][..], |f| &f.objects);
        let line = objects.iter().find(|h| *h.identity == *identity).map_or(0, |h| h.line);
        Span { file: path.display().to_string().into(), line: line.max(1), column: 1 }
    }

    /// Finds all files, and reads those that are others than before, or all.
    fn look(&mut self, look: Look, out: &mut dyn FnMut(SourceEvent)) {
        let walked = self.watcher.walk();
        let now = Instant::now();
        self.missed = (!self.root.is_dir()).then_some(now);
        self.unfollowed = if self.missed.is_some() { Vec::new() } else { walked.diagnostics() };
        let mut batch = Vec::new();
        for path in &walked.files {
            self.gone.remove(path);
            // The same file's new content is told of once it is complete.
            if look == Look::Contents || !self.is_known(path) {
                self.written(path.clone(), now, &mut batch);
            }
            if batch.len() >= BATCH {
                out(SourceEvent::Changes(std::mem::take(&mut batch)));
            }
        }
        for path in self.files.keys() {
            if !walked.files.contains(&**path) {
                self.gone.entry(path.to_path_buf()).or_insert(now);
            }
        }
        out(SourceEvent::Changes(batch));
    }

    fn is_known(&self, path: &Path) -> bool {
        let known = self.files.get(path).and_then(|f| f.inode);
        known.is_some() && known == std::fs::metadata(path).ok().map(|m| inode(&m))
    }

    /// A file that went, unless there is a new one.
    fn missing(&mut self, path: PathBuf, now: Instant) {
        if self.files.contains_key(path.as_path()) && !path.is_file() {
            self.emptied.remove(&path);
            self.gone.entry(path).or_insert(now);
        }
    }

    /// A file that its writer closed, or moved here.
    fn written(&mut self, path: PathBuf, now: Instant, out: &mut Vec<Change>) {
        let held = self.files.get(path.as_path()).is_some_and(|f| !f.objects.is_empty());
        match std::fs::metadata(&path) {
            Ok(m) if m.is_file() => {
                self.gone.remove(&path);
                if held && (m.len() == 0 || self.emptied.contains_key(&path)) {
                    // Somebody writes it anew, perhaps bit by bit.
                    self.emptied.insert(path, now);
                } else {
                    self.read(&path, out);
                }
            }
            Ok(_) | Err(_) => self.missing(path, now),
        }
    }

    /// Believes what has stayed so for [`SETTLE`]. Whether there was any.
    fn settle(&mut self, now: Instant, out: &mut Vec<Change>) -> bool {
        let settled = |since: &BTreeMap<PathBuf, Instant>| -> Vec<PathBuf> {
            since.iter().filter(|(_, t)| **t + SETTLE <= now).map(|(p, _)| p.clone()).collect()
        };
        let (gone, emptied) = (settled(&self.gone), settled(&self.emptied));
        for path in &gone {
            self.gone.remove(path);
            // A new one that is being written is told of when it is complete.
            if !path.is_file() {
                self.forget(path, out);
            }
        }
        for path in &emptied {
            self.emptied.remove(path);
            self.read(path, out);
        }
        !gone.is_empty() || !emptied.is_empty()
    }

    fn read(&mut self, path: &Path, out: &mut Vec<Change>) {
        let name = path.display().to_string();
        let meta = std::fs::metadata(path).ok();
        let path: Arc<Path> = match self.files.get_key_value(path) {
            Some((known, _)) => Arc::clone(known),
            None => path.into(),
        };
        let known = self.files.entry(Arc::clone(&path)).or_default();
        known.inode = meta.as_ref().map(inode);
        let text = if meta.is_some_and(|m| m.len() > FILE_MAX) {
            Err(format!("is larger than {} MiB", FILE_MAX >> 20))
        } else {
            std::fs::read_to_string(&path).map_err(|e| format!("cannot be read: {e}"))
        };
        known.unread = text.is_err();
        let parsed = match text {
            Ok(text) => signpost_api::parse(&name, &text),
            Err(what) => {
                let d = Diagnostic::error(name, what).with_cure("its last good objects stay");
                known.diagnostics = [d].into();
                return;
            }
        };
        let (objects, twice) = each_once(parsed.objects);
        known.diagnostics = parsed.diagnostics.into_iter().chain(twice).collect();
        let mut new: BTreeMap<Arc<Identity>, u32> =
            objects.iter().map(|o| (Arc::new(o.identity()), line(o))).collect();
        // What is there and badly written keeps its last good state. So does what is not there: a
        // file with a mistake in it may have been cut off.
        let whole = parsed.complete && !parsed.nameless && parsed.broken.is_empty();
        if !whole {
            for old in &known.objects {
                new.entry(Arc::clone(&old.identity)).or_insert(0);
            }
        }
        let held = |(identity, line): (&Arc<Identity>, &u32)| Held {
            identity: Arc::clone(identity),
            line: *line,
        };
        let old = std::mem::replace(&mut known.objects, new.iter().map(held).collect());
        for Held { identity, .. } in &old {
            if !new.contains_key(identity) {
                self.release(identity, &path, out);
            }
        }
        for identity in new.into_keys() {
            let holders = self.holders.entry(identity).or_default();
            if let Err(at) = holders.binary_search(&path) {
                let mut more = std::mem::take(holders).into_vec();
                more.insert(at, Arc::clone(&path));
                *holders = more.into();
            }
        }
        for object in objects {
            let holders = self.holders.get(&object.identity());
            if holders.and_then(|h| h.first()) == Some(&path) {
                out.push(object.into_change());
            }
        }
    }

    fn forget(&mut self, path: &Path, out: &mut Vec<Change>) {
        if let Some((path, file)) = self.files.remove_entry(path) {
            for Held { identity, .. } in &file.objects {
                self.release(identity, &path, out);
            }
        }
    }

    /// A file no longer holds an object: gone, or the next file's counts now.
    fn release(&mut self, identity: &Identity, path: &Arc<Path>, out: &mut Vec<Change>) {
        let Some(holders) = self.holders.get_mut(identity) else { return };
        let counted = holders.first() == Some(path);
        *holders = holders.iter().filter(|h| *h != path).cloned().collect();
        match holders.first().cloned() {
            None => {
                self.holders.remove(identity);
                out.push(identity.gone());
            }
            Some(next) if counted => self.read(&next, out),
            Some(_) => {}
        }
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.watcher.as_fd()
    }
}

fn inode(m: &Metadata) -> Inode {
    (m.dev(), m.ino())
}

/// The first of each object, and what to say of the others.
fn each_once(objects: Vec<Object>) -> (Vec<Object>, Vec<Diagnostic>) {
    let mut first: HashMap<Identity, u32> = HashMap::with_capacity(objects.len());
    let mut twice = Vec::new();
    let once = objects.into_iter().filter(|object| {
        let identity = object.identity();
        let Some(line) = first.get(&identity) else {
            first.insert(identity, line(object));
            return true;
        };
        let what = format!("is in line {line} of this file too, and that one counts");
        let d = Diagnostic::error(identity.to_string(), what).with_cure("delete one");
        twice.push(d.at(object.span().cloned()));
        false
    });
    (once.collect(), twice)
}

fn line(object: &Object) -> u32 {
    object.span().map_or(0, |s| s.line)
}

#[cfg(test)]
mod tests;
