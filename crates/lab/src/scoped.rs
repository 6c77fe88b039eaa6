//! A lab that lives no longer than the process that built it.

use std::fs::File;
use std::ops::{Deref, DerefMut};

use nix::fcntl::{Flock, FlockArg};

use crate::error::At;
use crate::{Error, Lab, LabName, Options, Topology, down};

/// The file in a lab's directory that its process holds a lock on.
const LOCK: &str = "scope.lock";

/// A lab for the demo, a measurement or a test: it ends when this goes out of scope, and what a
/// killed process left of it is ended by the next of its name.
#[derive(Debug)]
pub struct Scoped {
    lab: Lab,
    _lock: Flock<File>,
}

impl Scoped {
    /// Builds it.
    pub fn up(name: &LabName, topology: Topology, options: Options) -> Result<Self, Error> {
        let lock = name.directory().join(LOCK);
        if let Ok(file) = File::open(&lock)
            && Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok()
        {
            down(name)?;
        }
        let lab = Lab::up(name, topology, options)?;
        let held = File::create(&lock).at(|| lock.display().to_string()).and_then(|f| {
            Flock::lock(f, FlockArg::LockExclusiveNonblock)
                .map_err(|(_, e)| e)
                .at(|| lock.display().to_string())
        });
        match held {
            Ok(held) => Ok(Self { lab, _lock: held }),
            Err(e) => {
                lab.down()?;
                Err(e)
            }
        }
    }
}

impl Deref for Scoped {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.lab
    }
}

impl DerefMut for Scoped {
    fn deref_mut(&mut self) -> &mut Lab {
        &mut self.lab
    }
}

impl Drop for Scoped {
    fn drop(&mut self) {
        // Nobody is left to tell; `signpost lab down` tries again.
        let _ = down(&self.lab.name());
    }
}
