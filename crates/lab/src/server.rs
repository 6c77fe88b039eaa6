//! A server beside those of the pods: on a node, or on a client.

use std::process::Child;

use crate::lab::listens;
use crate::{Error, Lab};

/// A server in a member's namespace. It ends with this.
#[derive(Debug)]
pub struct Server(Child);

impl Lab {
    /// Starts one, which answers as `says`, TCP and UDP, and waits until it listens.
    pub fn serve(&self, member: &str, says: &str, port: u16) -> Result<Server, Error> {
        let mut server = Server(self.spawn_server(member, member, says, &[port])?);
        listens(says, &mut server.0)?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended with the lab.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
