//! Where the servers listen at the moment.

use super::process::Addresses;
use std::sync::{Arc, RwLock};

/// One door per server; closed while the server is away.
pub struct Doors(RwLock<Vec<Option<Arc<Addresses>>>>);

impl Doors {
    pub fn new(servers: usize) -> Doors {
        Doors(RwLock::new(vec![None; servers]))
    }

    pub fn open(&self, server: usize, addresses: Addresses) {
        self.0.write().expect("no one panics holding the doors")[server] = Some(Arc::new(addresses));
    }

    pub fn close(&self, server: usize) {
        self.0.write().expect("no one panics holding the doors")[server] = None;
    }

    /// The first open one, beginning with the given server.
    pub fn from(&self, server: usize) -> Option<Arc<Addresses>> {
        let doors = self.0.read().expect("no one panics holding the doors");
        (0..doors.len()).find_map(|step| doors[(server + step) % doors.len()].clone())
    }
}
