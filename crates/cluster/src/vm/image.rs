//! What a guest boots from: a kernel, the modules it begins with, all its other modules.

mod bzimage;
mod cpio;
mod initramfs;
mod kernel;
mod packages;
mod program;

use std::fs::File;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::Error;
use super::error::At;

/// A kernel that is ready to be booted, in a folder of its own.
#[derive(Clone, Debug)]
pub struct Image {
    kernel: PathBuf,
    initramfs: PathBuf,
    modules: PathBuf,
}

impl Image {
    /// Gets what is missing: packages for this machine with apt-get, Debian's newest kernel into
    /// the folder. A kernel that is there stays; delete the folder to get a newer one.
    pub fn prepare(folder: &Path) -> Result<Self, Error> {
        if std::env::consts::ARCH != "x86_64" {
            return Err(Error::Machine(std::env::consts::ARCH));
        }
        packages::install()?;
        std::fs::create_dir_all(folder).at(|| folder.display().to_string())?;
        let folder = folder.canonicalize().at(|| folder.display().to_string())?;
        // Two at once would both download.
        let file = File::open(&folder).at(|| folder.display().to_string())?;
        let _lock = Flock::lock(file, FlockArg::LockExclusive)
            .map_err(|(_, e)| e)
            .at(|| format!("locking {}", folder.display()))?;
        let kernel = kernel::prepare(&folder)?;
        let initramfs = initramfs::prepare(&kernel)?;
        Ok(Self { kernel: kernel.vmlinux(), initramfs, modules: kernel.modules() })
    }

    /// What runs without being unpacked first.
    pub(super) fn kernel(&self) -> &Path {
        &self.kernel
    }

    /// Its first files.
    pub(super) fn initramfs(&self) -> &Path {
        &self.initramfs
    }

    /// What `/lib/modules/RELEASE` of the guest is.
    pub(super) fn modules(&self) -> &Path {
        &self.modules
    }
}
