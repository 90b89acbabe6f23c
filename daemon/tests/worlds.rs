//! What is known of worlds outlives the daemon, or what was made in them does not.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{
    faulty::Disk,
    store::{Store, empty_index},
};
use prebake_daemon::{
    Error, Result,
    error::Kind,
    index::{IndexStore, Record, Space},
    session::Peer,
};
use prebake_proto::v1::{self, world_request::Found, world_response::Standing};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// An index that takes nothing more once it fails, as sled does after an error.
struct Failing(Arc<dyn IndexStore>, Arc<AtomicBool>);

impl Failing {
    fn check(&self) -> Result<()> {
        match self.1.load(Ordering::Relaxed) {
            true => Err(Error::new(Kind::Io, "index", "the index failed")),
            false => Ok(()),
        }
    }
}

impl IndexStore for Failing {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.0.get(space, key)
    }

    fn put(&self, space: Space, records: &[Record]) -> Result<()> {
        self.check()?;
        self.0.put(space, records)
    }

    fn remove(&self, space: Space, key: &[u8]) -> Result<()> {
        self.check()?;
        self.0.remove(space, key)
    }

    fn scan(&self, space: Space) -> Result<Vec<Record>> {
        self.0.scan(space)
    }

    fn bytes_on_disk(&self) -> u64 {
        self.0.bytes_on_disk()
    }

    fn flush(&self) -> Result<()> {
        self.check()?;
        self.0.flush()
    }
}

fn stand(store: &Store, world: u8, found: Option<Found>) -> Standing {
    let cache = &store.cache;
    let session = cache.sessions.open(Peer { uid: 1, pid: 0 }, "t".into()).unwrap();
    let ask = v1::WorldRequest {
        collection: cache.catalog.all()[0].id,
        world: vec![world; 32].into(),
        begins: true,
        found,
        ..Default::default()
    };
    prebake_daemon::cache::standing::stand(cache, &session, ask)
        .unwrap()
        .standing
        .unwrap()
}

fn differs() -> Option<Found> {
    Some(Found::Differs(v1::Variant {
        key: vec![9; 32].into(),
        why: "other".into(),
    }))
}

#[test]
fn a_world_that_differs_is_not_served_after_a_restart_though_the_index_failed() {
    let (disk, index, fails) = (Disk::default(), empty_index(), Arc::new(AtomicBool::new(false)));
    let failing: Arc<dyn IndexStore> = Arc::new(Failing(Arc::clone(&index), Arc::clone(&fails)));
    let store = Store::start(&disk, &failing, 1).unwrap();
    // A collection without entries, in which the first world begins.
    assert!(store.served((0, 0)).is_none());
    assert!(matches!(stand(&store, 1, None), Standing::Proven(_)));
    assert!(store.put(0, 0..2));
    assert!(matches!(
        stand(&store, 2, Some(Found::Agrees(true))),
        Standing::Proven(_)
    ));
    assert_eq!(store.sync([(0, 0), (0, 1)]).len(), 2);
    fails.store(true, Ordering::Relaxed);
    assert!(matches!(stand(&store, 2, differs()), Standing::Variant(_)));
    drop(store);
    // What the index still says is of before.
    let store = Store::start(&disk, &index, 2).unwrap();
    let is_served = store.served((0, 0)).is_some();
    let is_proven = matches!(stand(&store, 2, None), Standing::Proven(_));
    assert!(!(is_served && is_proven), "another world's values are served");
}
