//! Debian's kernel and a static busybox, unpacked in a folder and installed nowhere.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::bzimage;
use super::packages::{dependencies, download, update};
use super::program::{command, output};
use crate::vm::Error;
use crate::vm::error::At;

/// Depends on the newest kernel of a Debian.
const NEWEST: &str = "linux-image-amd64";

/// Debian 12's: it has what is tested here as modules, packed as this file expects them.
const KERNEL: &str = "linux-image-6.1.";

/// The shell of the guest before it has the host's files.
const BUSYBOX: &str = "busybox-static";

/// The folder of what is unpacked: complete, since it is renamed to this.
const FOLDER: &str = "kernel";

/// A kernel with its modules.
pub(super) struct Kernel {
    folder: PathBuf,
    release: String,
}

impl Kernel {
    /// Where all of it is.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The kernel itself.
    pub(super) fn vmlinux(&self) -> PathBuf {
        self.folder.join("vmlinux")
    }

    /// Its modules.
    pub(super) fn modules(&self) -> PathBuf {
        self.folder.join("lib/modules").join(&self.release)
    }

    /// What runs before the host's files are there.
    pub(super) fn busybox(&self) -> PathBuf {
        self.folder.join("bin/busybox")
    }

    /// What `modprobe` would load for these, in its order.
    pub(super) fn module_files(&self, names: &[&str]) -> Result<Vec<PathBuf>, Error> {
        let mut modprobe = command("modprobe");
        modprobe.arg("-d").arg(&self.folder).args(["-S", &self.release]);
        let text = output(modprobe.args(["--show-depends", "-a"]).args(names), b"")?;
        let mut files = Vec::new();
        for line in String::from_utf8_lossy(&text).lines() {
            // Others are `builtin NAME`.
            let Some(file) = line.strip_prefix("insmod ") else { continue };
            let file = PathBuf::from(file.trim());
            if !files.contains(&file) {
                files.push(file);
            }
        }
        Ok(files)
    }
}

/// The kernel of this folder; gets it first if there is none.
pub(super) fn prepare(folder: &Path) -> Result<Kernel, Error> {
    let done = folder.join(FOLDER);
    if !done.is_dir() {
        let part = folder.join("kernel.part");
        match std::fs::remove_dir_all(&part) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                return Err(e).at(|| part.display().to_string());
            }
            _ => {}
        }
        std::fs::create_dir(&part).at(|| part.display().to_string())?;
        fill(folder, &part)?;
        std::fs::rename(&part, &done).at(|| done.display().to_string())?;
    }
    Ok(Kernel { release: release(&done)?, folder: done })
}

fn fill(folder: &Path, part: &Path) -> Result<(), Error> {
    for file in packages(folder, part)? {
        output(command("dpkg-deb").arg("-x").arg(&file).arg(part), b"")?;
        if file.starts_with(part) {
            std::fs::remove_file(&file).at(|| file.display().to_string())?;
        }
    }
    let release = release(part)?;
    output(command("depmod").arg("-b").arg(part).arg(&release), b"")?;
    let packed = part.join("boot").join(format!("vmlinuz-{release}"));
    let bytes = std::fs::read(&packed).at(|| packed.display().to_string())?;
    let payload = bzimage::payload(&bytes).map_err(|why| damaged(&packed, why))?;
    let kernel = output(command("xz").arg("-dc"), payload.xz)?;
    if kernel.len() != payload.unpacked_length {
        return Err(damaged(&packed, "it unpacks to another length than it says"));
    }
    let vmlinux = part.join("vmlinux");
    std::fs::write(&vmlinux, kernel).at(|| vmlinux.display().to_string())
}

/// The packages: what a person put into the folder, the rest downloaded into `part`.
fn packages(folder: &Path, part: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = debs(folder)?;
    let has = |prefix: &str| files.iter().any(|file| name(file).starts_with(prefix));
    let missing: Vec<_> = [KERNEL, BUSYBOX].into_iter().filter(|prefix| !has(prefix)).collect();
    if missing.is_empty() {
        return Ok(files);
    }
    update()?;
    for prefix in missing {
        let package = if prefix == KERNEL { newest(folder)? } else { prefix.to_owned() };
        download(&package, part)?;
    }
    files.extend(debs(part)?);
    Ok(files)
}

/// The name of the newest kernel.
fn newest(folder: &Path) -> Result<String, Error> {
    let known = dependencies(NEWEST).unwrap_or_default();
    known
        .into_iter()
        .find(|package| package.starts_with(KERNEL))
        .ok_or_else(|| Error::NoKernel { package: KERNEL, folder: folder.to_owned() })
}

/// The one kernel that is unpacked there.
fn release(folder: &Path) -> Result<String, Error> {
    match &entries(&folder.join("lib/modules"))?[..] {
        [one] => Ok(name(one)),
        _ => Err(damaged(folder, "it has not the modules of one kernel")),
    }
}

/// The packages in a folder that are wanted here.
fn debs(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let wanted = |file: &PathBuf| {
        let name = name(file);
        name.ends_with(".deb") && [KERNEL, BUSYBOX].iter().any(|prefix| name.starts_with(prefix))
    };
    Ok(entries(folder)?.into_iter().filter(wanted).collect())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    std::fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .at(|| folder.display().to_string())
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn damaged(file: &Path, why: &'static str) -> Error {
    Error::Image { file: file.to_owned(), why }
}
