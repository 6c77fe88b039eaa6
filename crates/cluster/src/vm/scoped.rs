//! A guest that lives no longer than the scope it is in.

use std::ops::Deref;

use super::{Error, Image, Options, Vm};

/// A guest for a test or a measurement: it ends when this goes out of scope, and one that a killed
/// process left in the same directory is ended by the next.
#[derive(Debug)]
pub struct Scoped(Vm);

impl Scoped {
    /// Boots it.
    pub fn boot(image: &Image, options: Options) -> Result<Self, Error> {
        match Vm::attach(&options.directory) {
            Ok(left) => left.end()?,
            Err(Error::Missing(_)) => {}
            Err(e) => return Err(e),
        }
        Vm::boot(image, options).map(Self)
    }
}

impl Deref for Scoped {
    type Target = Vm;

    fn deref(&self) -> &Vm {
        &self.0
    }
}

impl Drop for Scoped {
    fn drop(&mut self) {
        // Nobody is left to tell; the next boot here tries again.
        let _ = self.0.stop();
    }
}
