//! The members' common secret, from its file.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use signpost_speaker::{KEY_MAX, Key};

/// Reads the key file.
pub(crate) fn read(path: &Path) -> Result<Key> {
    let name = || format!("--mesh-key {}", path.display());
    let meta = std::fs::metadata(path).with_context(name)?;
    // A wrong path may name something endless.
    if !meta.is_file() || meta.len() > 2 * KEY_MAX as u64 {
        bail!("{}: a key is a file of at most {KEY_MAX} bytes", name());
    }
    if meta.permissions().mode() & 0o077 != 0 {
        bail!("{}: others may read it: `chmod 600 {}`", name(), path.display());
    }
    let bytes = std::fs::read(path).with_context(name)?;
    Key::parse(&bytes).with_context(name)
}
