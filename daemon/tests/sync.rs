//! A sync says yes to what outlives the machine, and to nothing else.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{
    faulty::{Disk, Fault, Left},
    store::{Store, empty_index},
};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

#[test]
fn what_the_disk_did_not_take_is_told() {
    for errno in [EIO, ENOSPC] {
        let mut told = 0;
        for at in 0.. {
            let (disk, index) = (Disk::default(), empty_index());
            let store = Store::start(&disk, &index, 1).unwrap();
            disk.strike(at, Fault::Error(errno));
            let taken = store.put(0, 0..3);
            let synced = store.cache.sync();
            let struck = disk.was_struck();
            told += u64::from(synced.is_err());
            drop(store);
            disk.restart(Left::Nothing);
            let store = Store::start(&disk, &index, 2).unwrap();
            let there = (0..3).filter(|n| store.served((0, *n)).is_some()).count();
            assert!(
                !taken || synced.is_err() || there == 3,
                "{errno} at call {at}: {there} are there"
            );
            if !struck {
                break;
            }
        }
        assert!(told > 2, "{told}");
    }
}
