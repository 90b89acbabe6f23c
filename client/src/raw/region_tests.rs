use super::super::test_blocks::{BLOCK, block, expected, fill, open_block, unsealed};
use super::*;
use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

/// What writes are told by: as the kernel allows best, and by looking at pages.
fn watches() -> [Arc<Watch>; 2] {
    let watches = [Watch::open(), Watch::by_looking()];
    watches.map(|watch| Arc::new(watch.expect("these tests need /proc/self/pagemap")))
}

/// A region with its first block mapped, for each of them.
fn regions() -> [Arc<Region>; 2] {
    watches().map(|watch| {
        let region = Region::reserve(BLOCK, 4, Some(watch)).unwrap();
        region.map(0, block(BLOCK)).unwrap();
        Arc::new(region)
    })
}

#[test]
fn a_written_view_leaves_the_cached_bytes_for_the_next() {
    for region in regions() {
        let mut view = region.hand_out(100..9000).unwrap();
        assert_eq!(view.as_slice(), expected(100..9000));
        view.as_mut_slice().fill(0xee);
        drop(view);
        let again = region.hand_out(100..9000).unwrap();
        assert_eq!(again.as_slice(), expected(100..9000));
    }
}

#[test]
fn a_range_in_use_is_not_handed_out_again() {
    for region in regions() {
        let first = region.hand_out(0..5000).unwrap();
        assert!(region.hand_out(4999..6000).is_none());
        assert!(region.hand_out(0..1).is_none());
        drop(first);
        assert!(region.hand_out(4999..6000).is_some());
    }
}

#[test]
fn a_page_that_a_living_neighbour_wrote_is_neither_dropped_nor_served() {
    for region in regions() {
        let mut left = region.hand_out(0..6000).unwrap();
        left.as_mut_slice()[5999] = 0xee;
        // Bytes 6000.. share the written page.
        assert!(region.hand_out(6000..7000).is_none());
        assert_eq!(left.as_slice()[5999], 0xee);
        // Pages further on are untouched.
        assert!(region.hand_out(8192..9000).is_some());
        drop(left);
        assert_eq!(
            region.hand_out(6000..7000).unwrap().as_slice(),
            expected(6000..7000)
        );
    }
}

#[test]
fn a_neighbour_that_outlives_the_writer_keeps_its_bytes() {
    for region in regions() {
        let mut left = region.hand_out(0..6000).unwrap();
        let right = region.hand_out(6000..7000).unwrap();
        left.as_mut_slice().fill(0xee);
        drop(left);
        assert_eq!(right.as_slice(), expected(6000..7000));
        // The shared page is written and in use: the left range cannot be told from the writes now.
        assert!(region.hand_out(0..6000).is_none());
        drop(right);
        assert_eq!(region.hand_out(0..6000).unwrap().as_slice(), expected(0..6000));
    }
}

#[test]
fn elements_that_arrive_on_a_written_page_are_seen() {
    for watch in watches() {
        let region = Arc::new(Region::reserve(BLOCK, 1, Some(watch)).unwrap());
        let fd = open_block(6000);
        region.map(0, fd.try_clone().unwrap()).unwrap();
        let mut first = region.hand_out(0..6000).unwrap();
        first.as_mut_slice().fill(0xee);
        fill(&fd, 6000..12000);
        assert!(region.hand_out(6000..12000).is_none());
        drop(first);
        assert_eq!(
            region.hand_out(6000..12000).unwrap().as_slice(),
            expected(6000..12000)
        );
    }
}

#[test]
fn elements_that_arrive_on_a_page_that_the_system_copied_before_are_seen() {
    for watch in watches() {
        let region = Arc::new(Region::reserve(BLOCK, 1, Some(watch)).unwrap());
        let fd = open_block(6000);
        region.map(0, fd.try_clone().unwrap()).unwrap();
        // As `mlockall` does it with all that is mapped from then on.
        // SAFETY: mapped just now; pages are copied and no byte of them changed.
        unsafe { madvise(region.space.at(0).cast(), BLOCK, Advice::LinuxPopulateWrite) }.unwrap();
        fill(&fd, 6000..12000);
        let view = region.hand_out(8192..12000).unwrap();
        assert_eq!(view.as_slice(), expected(8192..12000));
    }
}

#[test]
fn a_run_crosses_blocks() {
    for region in regions() {
        assert!(!region.covers(&(BLOCK - 10..BLOCK + 10)));
        assert!(region.hand_out(BLOCK - 10..BLOCK + 10).is_none());
        region.map(1, block(BLOCK)).unwrap();
        let view = region.hand_out(BLOCK - 10..BLOCK + 10).unwrap();
        assert_eq!(view.as_slice()[..10], expected(BLOCK - 10..BLOCK));
        assert_eq!(view.as_slice()[10..], expected(0..10));
    }
}

#[test]
fn only_idle_blocks_are_unmapped() {
    for region in regions() {
        let view = region.hand_out(0..10).unwrap();
        assert!(!region.unmap_if_idle(0));
        drop(view);
        assert!(region.unmap_if_idle(0));
        assert!(region.is_empty());
        assert!(region.hand_out(0..10).is_none());
        region.map(0, block(BLOCK)).unwrap();
        assert!(region.hand_out(0..10).is_some());
    }
}

#[test]
fn where_writes_cannot_be_told_nothing_is_handed_out() {
    let region = Arc::new(Region::reserve(BLOCK, 1, None).unwrap());
    region.map(0, block(BLOCK)).unwrap();
    assert!(region.hand_out(0..10).is_none());
}

#[test]
fn memory_that_could_shrink_or_is_too_small_is_refused() {
    for region in regions() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        assert!(region.map(1, unsealed()).is_err());
        let small = memfd_create("block", flags).unwrap();
        ftruncate(&small, BLOCK as u64 - 1).unwrap();
        fcntl_add_seals(&small, SealFlags::SHRINK).unwrap();
        assert!(region.map(1, small).is_err());
        assert!(region.map(4, block(BLOCK)).is_err());
    }
}

#[test]
fn scattered_writes_are_all_found_and_pages_stay_watched() {
    for region in regions() {
        for round in 0..3 {
            let mut view = region.hand_out(0..BLOCK).unwrap();
            assert_eq!(view.as_slice(), expected(0..BLOCK), "round {round}");
            // Every other page, so that no two are told as one run; then by the kernel.
            view.as_mut_slice().chunks_mut(8192).for_each(|c| c[round] = 0xee);
            let zeros = std::fs::File::open("/dev/zero").unwrap();
            rustix::io::read(zeros, &mut view.as_mut_slice()[4096..4099]).unwrap();
        }
    }
}

#[test]
fn a_holder_that_writes_while_its_block_begins_to_be_watched_is_seen() {
    for region in regions() {
        let mut held = region.hand_out(0..4096).unwrap();
        drop(region.hand_out(8192..BLOCK).unwrap());
        held.as_mut_slice().fill(0xee);
        // Read again, from when on the block would be watched.
        drop(region.hand_out(8192..BLOCK).unwrap());
        drop(held);
        assert_eq!(region.hand_out(0..4096).unwrap().as_slice(), expected(0..4096));
    }
}

#[test]
fn a_block_is_watched_only_while_nobody_holds_bytes_of_it() {
    let [region, _] = regions();
    let watched = || region.state.lock().block(0) == Block::Watched;
    let can = region.watch.as_ref().unwrap().can_mark();
    let held = region.hand_out(0..10).unwrap();
    for _ in 0..2 {
        drop(region.hand_out(8192..BLOCK).unwrap());
    }
    assert!(!watched());
    drop(held);
    drop(region.hand_out(8192..BLOCK).unwrap());
    assert_eq!(watched(), can);
    region.map(1, open_block(BLOCK)).unwrap();
    for _ in 0..3 {
        drop(region.hand_out(BLOCK..2 * BLOCK).unwrap());
    }
    assert!(region.state.lock().block(1) == Block::Open);
}
