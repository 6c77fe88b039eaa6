//! The guest's first files: busybox, `data/vm/init`, and the modules that lead to the host's files.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use super::cpio::Archive;
use super::kernel::Kernel;
use crate::vm::Error;
use crate::vm::error::At;

/// What runs first.
const INIT: &str = include_str!("../../../data/vm/init");

/// All others are loaded from the host's files, when something wants them.
const MODULES: &[&str] = &["virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_net"];

/// The archive for this kernel; made if there is none of these contents.
pub(super) fn prepare(kernel: &Kernel) -> Result<PathBuf, Error> {
    let mut hasher = DefaultHasher::new();
    (INIT, MODULES).hash(&mut hasher);
    let path = kernel.folder().join(format!("initramfs-{:016x}.cpio", hasher.finish()));
    if !path.is_file() {
        let part = path.with_extension("part");
        std::fs::write(&part, archive(kernel)?)
            .and_then(|()| std::fs::rename(&part, &path))
            .at(|| path.display().to_string())?;
    }
    Ok(path)
}

fn archive(kernel: &Kernel) -> Result<Vec<u8>, Error> {
    let read = |path: &PathBuf| std::fs::read(path).at(|| path.display().to_string());
    let mut archive = Archive::default();
    archive.folder("bin");
    archive.program("bin/busybox", &read(&kernel.busybox())?);
    archive.program("init", INIT.as_bytes());
    archive.folder("modules");
    let mut order = String::new();
    for file in kernel.module_files(MODULES)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        archive.program(&format!("modules/{name}"), &read(&file)?);
        order.push_str(&format!("{name}\n"));
    }
    archive.program("modules/order", order.as_bytes());
    Ok(archive.finish())
}
