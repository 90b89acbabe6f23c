//! Jobs that share one computation through a real daemon.

mod support;

use prebake_client::{Acquired, Code, Job, Made, Paths, Stats};
use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use support::{Daemon, ELEMENT_BYTES, all, connect, data, ensure, fill, graph, options, patience};

#[test]
fn what_one_job_computes_the_next_only_reads() {
    let daemon = Daemon::start(&[]);
    let data = data(60);
    let first = data.items(&daemon.job("first"));
    assert_eq!(ensure(&first, &data, &all(&first)), all(&first));
    let second = data.items(&daemon.job("second"));
    assert!(ensure(&second, &data, &all(&second)).is_empty());
    for i in 0..60 {
        let (view, layout) = second.get(i, false).unwrap().unwrap();
        assert!(view.is_mapped());
        assert_eq!((&*layout, view.as_slice()), ("layout", &data.element(i)[..]));
    }
    let stats = second.stats();
    assert_eq!((stats.computed, stats.reused, stats.followed), (0, 60, 0));
    assert_eq!(stats.bytes_ram, 60 * ELEMENT_BYTES as u64);
    drop((first, second));
    let totals = daemon.control().status().unwrap().totals.unwrap();
    assert_eq!((totals.hits, totals.misses, totals.entries), (60, 60, 60));
}

#[test]
fn numbers_of_no_items_are_expected_for_nothing() {
    let daemon = Daemon::start(&[]);
    let data = data(3);
    for name in ["first", "second"] {
        let items = data.items(&daemon.job(name));
        ensure(&items, &data, &[0, 1, 2]);
        items.expect(vec![7, 0, usize::MAX, 2], false);
        for i in [0, 2] {
            assert_eq!(
                items.get(i, false).unwrap().unwrap().0.as_slice(),
                data.element(i)
            );
        }
    }
}

#[test]
fn a_layout_that_fits_no_packet_is_found_all_the_same() {
    let daemon = Daemon::start(&[]);
    let (data, layout) = (data(2), "x".repeat(300 << 10));
    let first = data.items(&daemon.job("first"));
    let acquired = first.acquire(&[0, 1], &[], 2, &mut patience()).unwrap();
    assert_eq!(acquired.compute, [0, 1]);
    for i in [0, 1] {
        assert!(
            first
                .put(i, &layout, &[&data.element(i)], Made::default())
                .unwrap()
        );
    }
    first.commit().unwrap();
    let second = data.items(&daemon.job("second"));
    assert!(ensure(&second, &data, &[0, 1]).is_empty());
    let batch = second.batch(&[0, 1], true, true).unwrap().unwrap();
    assert!(*batch.layout == layout);
}

#[test]
fn a_first_batch_waits_for_looks_at_its_own_inputs_alone() {
    let daemon = Daemon::start(&[]);
    let data = data(100);
    let first = data.items(&daemon.job("first"));
    ensure(&first, &data, &all(&first));
    drop(first);
    let second = data.items(&daemon.job("second"));
    second.validate().unwrap();
    let wanted: Vec<usize> = (10..20).collect();
    let mut later = || panic!("what comes later is asked for before the first batch");
    let acquired = second.acquire_later(&wanted, &mut later, 8, &mut patience());
    assert_eq!(acquired.unwrap(), Acquired::default());
    assert_eq!(second.looked_at(), (10, 10));
    assert!(second.batch(&wanted, true, true).unwrap().is_some());
    for _ in 0..1000 {
        if second.looked_at() == (100, 100) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!(
        "{:?}: the others are looked at beside the job",
        second.looked_at()
    );
}

#[test]
fn a_batch_is_a_slice_where_elements_lie_side_by_side_and_a_copy_where_not() {
    let daemon = Daemon::start(&[]);
    let data = data(60);
    let items = data.items(&daemon.job("job"));
    assert!(items.batch(&[0, 1], false, true).unwrap().is_none());
    ensure(&items, &data, &all(&items));
    for (indices, mapped) in [((20..50).collect::<Vec<_>>(), true), (vec![3, 50, 4, 3], false)] {
        let batch = items.batch(&indices, true, true).unwrap().unwrap();
        let expected: Vec<u8> = indices.iter().flat_map(|i| data.element(*i)).collect();
        assert_eq!(batch.bytes.as_slice(), expected);
        assert_eq!((batch.count, batch.bytes.is_mapped()), (indices.len(), mapped));
        assert!(mapped || batch.bytes.as_slice().as_ptr().addr().is_multiple_of(64));
    }
}

#[test]
fn edits_of_views_are_never_seen_again() {
    let daemon = Daemon::start(&[]);
    let data = data(60);
    let items = data.items(&daemon.job("job"));
    ensure(&items, &data, &all(&items));
    let expected: Vec<u8> = (0..60).flat_map(|i| data.element(i)).collect();
    let kept = items.get(7, false).unwrap().map(|(mut view, _)| {
        assert!(view.is_mapped());
        view.as_mut_slice().unwrap().fill(0xee);
        view
    });
    for epoch in 0..3 {
        let mut batch = items.batch(&all(&items), false, true).unwrap().unwrap();
        assert!(batch.bytes.as_slice() == expected, "epoch {epoch}");
        batch.bytes.as_mut_slice().unwrap().fill(0xdd);
        // Over bytes that are still held, edited: a copy of the cached ones.
        for i in [6, 7, 8] {
            let (view, _) = items.get(i, false).unwrap().unwrap();
            assert!(!view.is_mapped());
            assert_eq!(view.as_slice(), data.element(i));
        }
    }
    assert!(kept.unwrap().as_slice().iter().all(|b| *b == 0xee));
}

#[test]
fn jobs_in_the_same_order_split_the_work_and_follow_each_other() {
    let daemon = Daemon::start(&[]);
    let data = data(100);
    let (a, b) = (data.items(&daemon.job("a")), data.items(&daemon.job("b")));
    let order = all(&a);
    let leased = a.acquire(&order[..1], &order[1..], 1, &mut patience()).unwrap();
    assert_eq!(leased.compute, [0]);
    let more = a.acquire(&order[1..80], &[], 79, &mut patience()).unwrap();
    assert_eq!(more.compute, order[1..80]);
    // Item 0 is held: the first free item ahead is b's, though many lie in between.
    let ahead = b.acquire(&order[..1], &order[1..], 1, &mut patience()).unwrap();
    assert_eq!(ahead.compute, [80]);
    fill(&b, &data, &[80]);
    let follower = std::thread::scope(|scope| {
        let follower = scope.spawn(|| b.acquire(&[0], &[], 1, &mut patience()).unwrap());
        fill(&a, &data, &order[..80]);
        follower.join().unwrap()
    });
    assert_eq!(follower, Acquired::default());
    assert_eq!(b.get(0, false).unwrap().unwrap().0.as_slice(), data.element(0));
    ensure(&b, &data, &[80]);
    assert_eq!(b.get(80, false).unwrap().unwrap().0.as_slice(), data.element(80));
    let counts = |stats: Stats| (stats.computed, stats.followed, stats.reused);
    assert_eq!(counts(b.stats()), (1, 1, 0));
    // Read again, both are there like any other.
    assert!(b.get(0, false).unwrap().is_some() && b.get(80, false).unwrap().is_some());
    assert_eq!(counts(b.stats()), (1, 1, 2));
}

#[test]
fn waiting_for_another_job_can_be_interrupted() {
    let daemon = Daemon::start(&[]);
    let data = data(1);
    let (a, b) = (data.items(&daemon.job("a")), data.items(&daemon.job("b")));
    a.acquire(&[0], &[], 1, &mut patience()).unwrap();
    let mut asked = 0;
    let interrupted = b.acquire(&[0], &[], 1, &mut || {
        asked += 1;
        asked == 2
    });
    assert_eq!(interrupted.unwrap_err().code(), Code::Interrupted);
}

#[test]
fn leases_pass_on_when_released_and_when_the_items_are_dropped() {
    let daemon = Daemon::start(&[]);
    let data = data(2);
    let job = daemon.job("a");
    let a = data.items(&job);
    assert_eq!(
        a.acquire(&[0, 1], &[], 2, &mut patience()).unwrap().compute,
        [0, 1]
    );
    let again = a.acquire(&[1], &[], 1, &mut patience()).unwrap();
    assert_eq!(again.compute, [1], "waiting for oneself would never end");
    let b = data.items(&daemon.job("b"));
    a.release(&[0]).unwrap();
    assert_eq!(b.acquire(&[0], &[], 1, &mut patience()).unwrap().compute, [0]);
    assert!(!a.put(0, "layout", &[b"x"], Made::default()).unwrap());
    drop(a);
    assert_eq!(b.acquire(&[1], &[], 1, &mut patience()).unwrap().compute, [1]);
    assert!(job.plan(graph("1")).is_ok(), "the job goes on");
}

#[test]
fn who_computes_an_item_is_known_of_until_it_is_left() {
    let daemon = Daemon::start(&[]);
    let data = data(1);
    let (a, b) = (data.items(&daemon.job("a")), data.items(&daemon.job("b")));
    a.acquire(&[0], &[], 1, &mut patience()).unwrap();
    assert!(b.locate(&[0]).unwrap().is_empty());
    assert_eq!(b.held(&[0]), [0]);
    a.release(&[0]).unwrap();
    let is_left = |_| {
        thread::sleep(Duration::from_millis(10));
        assert!(b.locate(&[0]).unwrap().is_empty());
        b.held(&[0]).is_empty()
    };
    assert!((0..500).any(is_left), "nobody is waited for in vain");
}

#[test]
fn an_edited_file_is_computed_again_and_a_put_of_the_old_one_is_dropped() {
    let daemon = Daemon::start(&[]);
    let data = data(4);
    let items = data.items(&daemon.job("job"));
    ensure(&items, &data, &all(&items));
    fs::write(&data.1[2], "77").unwrap();
    items.validate().unwrap();
    assert!(items.get(2, true).unwrap().is_none() && items.get(1, true).unwrap().is_some());
    let leased = items.acquire(&[2], &[], 1, &mut patience()).unwrap();
    assert_eq!(leased.compute, [2]);
    fs::write(&data.1[2], "78").unwrap();
    assert!(
        !items
            .put(2, "layout", &[b"of 77 or 78?"], Made::default())
            .unwrap()
    );
    assert_eq!(ensure(&items, &data, &[2]), [2]);
    assert_eq!(
        items.get(2, false).unwrap().unwrap().0.as_slice(),
        data.element(2)
    );
    // Back to what it was: its first element is still there.
    fs::write(&data.1[2], "2").unwrap();
    assert!(ensure(&items, &data, &all(&items)).is_empty());
}

#[test]
fn a_put_of_a_file_that_was_written_anew_with_the_same_bytes_is_dropped() {
    // A clock for which files just written are too young to trust their stat, and one that trusts it at once.
    for settled in [false, true] {
        let daemon = Daemon::start(&[]);
        let mut options = options(daemon.folder.path(), "job");
        options.clock = options.clock.filter(|_| settled);
        let job = Job::connect(options).unwrap();
        let data = data(2);
        let items = data.items(&job);
        assert_eq!(
            items.acquire(&[0, 1], &[], 2, &mut patience()).unwrap().compute,
            [0, 1]
        );
        fs::write(&data.1[0], "").unwrap();
        let element = b"of a file cut short";
        fs::write(&data.1[0], "0").unwrap();
        assert!(!items.put(0, "layout", &[element], Made::default()).unwrap());
        assert!(items.put(1, "layout", &[b"1"], Made::default()).unwrap());
        // The same through a call's inputs.
        let collection = job.plan(graph("call")).unwrap();
        let arguments = prebake_fingerprint::Digest([1; 32]);
        let call = collection.call("f(x)", arguments, &data.1).unwrap();
        assert_eq!(call.acquire(&[0], &[], 1, &mut patience()).unwrap().compute, [0]);
        fs::write(&data.1[0], "0").unwrap();
        assert!(!call.put(0, "layout", &[element], Made::default()).unwrap());
        assert_eq!(call.acquire(&[0], &[], 1, &mut patience()).unwrap().compute, [0]);
        assert!(call.put(0, "layout", &[b"value"], Made::default()).unwrap());
    }
}

#[test]
fn a_value_is_put_only_under_the_lease_of_the_thread_that_made_it() {
    let daemon = Daemon::start(&[]);
    let data = data(1);
    let items = data.items(&daemon.job("job"));
    items.acquire(&[0], &[], 1, &mut patience()).unwrap();
    fs::write(&data.1[0], "77").unwrap();
    std::thread::scope(|scope| {
        let (leased, other) = std::sync::mpsc::channel();
        let (goes_on, wait) = std::sync::mpsc::channel();
        let (items, data) = (&items, &data);
        scope.spawn(move || {
            let acquired = items.acquire(&[0], &[], 1, &mut patience()).unwrap();
            assert_eq!(acquired.compute, [0], "of the new file");
            leased.send(()).unwrap();
            wait.recv().unwrap();
            fill(items, data, &[0]);
        });
        other.recv().unwrap();
        assert!(!items.put(0, "layout", &[b"old"], Made::default()).unwrap());
        goes_on.send(()).unwrap();
    });
    ensure(&items, &data, &[0]);
    assert_eq!(
        items.get(0, false).unwrap().unwrap().0.as_slice(),
        data.element(0)
    );
}

#[test]
fn more_names_than_a_message_holds_are_asked_for_in_parts() {
    let daemon = Daemon::start(&[]);
    let temp = tempfile::tempdir().unwrap();
    let deep = ["d".repeat(250), "e".repeat(250), "f".repeat(250)]
        .iter()
        .fold(temp.path().to_owned(), |path, part| path.join(part));
    fs::create_dir_all(&deep).unwrap();
    let paths: Vec<_> = (0..4200).map(|i| deep.join(format!("{i:0>250}"))).collect();
    paths.iter().for_each(|path| fs::write(path, "one").unwrap());
    let planned = daemon.job("job").plan(graph("1")).unwrap();
    let paths = Arc::new(Paths::of(&paths).unwrap());
    let items = planned.files(Some(temp.path()), paths).unwrap();
    let mut wanted = all(&items);
    while !wanted.is_empty() {
        let acquired = items
            .acquire(&wanted, &[], wanted.len(), &mut patience())
            .unwrap();
        assert!(acquired.bypass.is_empty());
        for i in &acquired.compute {
            assert!(items.put(*i, "layout", &[b"x"], Made::default()).unwrap());
        }
        items.commit().unwrap();
        wanted = items.missing(&wanted);
    }
}

#[test]
fn an_answer_for_a_file_that_was_edited_meanwhile_is_not_taken() {
    let daemon = Daemon::start(&[]);
    let data = data(1);
    let (a, b) = (data.items(&daemon.job("a")), data.items(&daemon.job("b")));
    a.acquire(&[0], &[], 1, &mut patience()).unwrap();
    std::thread::scope(|scope| {
        let (asks, asked) = std::sync::mpsc::channel();
        let waits = scope.spawn(|| {
            let mut patience = patience();
            let interrupted = &mut move || {
                let _ = asks.send(());
                patience()
            };
            let leased = b.acquire(&[0], &[], 1, interrupted).unwrap();
            assert_eq!(leased.compute, [0]);
            fill(&b, &data, &[0]);
        });
        // b's request waits in the daemon when a's element of the old file comes.
        asked.recv().unwrap();
        a.put(0, "layout", &[b"old"], Made::default()).unwrap();
        asked.recv().unwrap();
        // It asks right after that, for 100 ms. If it were later, it would ask for the new file, and nothing be tested.
        thread::sleep(Duration::from_millis(20));
        fs::write(&data.1[0], "77").unwrap();
        let other = b.acquire(&[0], &[], 1, &mut patience()).unwrap();
        b.release(&other.compute).unwrap();
        a.commit().unwrap();
        waits.join().unwrap();
    });
    ensure(&b, &data, &[0]);
    assert_eq!(b.get(0, true).unwrap().unwrap().0.as_slice(), data.element(0));
}

#[test]
fn long_layouts_are_shared_and_longer_ones_left_to_the_job() {
    const LONGEST: usize = 1 << 20;
    let daemon = Daemon::start(&[]);
    let data = data(7);
    let (a, b) = (data.items(&daemon.job("a")), data.items(&daemon.job("b")));
    a.acquire(&all(&a), &[], 7, &mut patience()).unwrap();
    let layout = |i: usize| format!("{i}").repeat(LONGEST);
    for i in 0..6 {
        assert!(a.put(i, &layout(i), &[b"bytes"], Made::default()).unwrap());
    }
    assert!(
        !a.put(6, &"6".repeat(LONGEST + 1), &[b"bytes"], Made::default())
            .unwrap()
    );
    a.commit().unwrap();
    let acquired = b.acquire(&all(&b), &[], 7, &mut patience()).unwrap();
    assert_eq!(acquired.compute, [6], "the lease was given back");
    for i in 0..6 {
        assert!(*b.get(i, false).unwrap().unwrap().1 == *layout(i), "item {i}");
    }
}

#[test]
fn a_job_that_takes_the_daemon_for_dead_gives_up_its_leases() {
    let daemon = Daemon::start(&[]);
    let data = data(2);
    let a = data.items(&daemon.job("a"));
    a.acquire(&[0], &[], 1, &mut patience()).unwrap();
    let pid = support::daemon_pid(daemon.folder.path());
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let lost = a.acquire(&[1], &[], 1, &mut patience()).unwrap_err();
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    assert_eq!(lost.code(), Code::DaemonLost);
    let b = data.items(&daemon.job("b"));
    assert_eq!(b.acquire(&[0], &[], 1, &mut patience()).unwrap().compute, [0]);
    drop(a);
}

#[test]
fn missing_inputs_and_elements_too_large_are_left_to_the_job() {
    let daemon = Daemon::start(&[]);
    let data = data(2);
    let items = data.items(&daemon.job("job"));
    fs::remove_file(&data.1[0]).unwrap();
    let acquired = items.acquire(&[0, 1], &[], 2, &mut patience()).unwrap();
    assert_eq!(acquired.compute, [1]);
    assert!(acquired.bypass[&0].contains("cannot read input"));
    let huge = vec![0; (256 << 20) + 1];
    assert!(!items.put(1, "layout", &[&huge], Made::default()).unwrap());
    let other = data.items(&daemon.job("other"));
    assert_eq!(ensure(&other, &data, &[1]), [1], "the lease was given back");
}

#[test]
fn batches_of_unlike_elements_are_refused() {
    let daemon = Daemon::start(&[]);
    let data = data(2);
    let items = data.items(&daemon.job("job"));
    items.acquire(&[0, 1], &[], 2, &mut patience()).unwrap();
    for (i, layout) in ["one", "other"].iter().enumerate() {
        assert!(items.put(i, layout, &[b"", b"bytes"], Made::default()).unwrap());
    }
    ensure(&items, &data, &[0, 1]);
    assert_eq!(
        items.batch(&[0, 1], false, true).err().unwrap().code(),
        Code::Ragged
    );
    assert_eq!(
        items.batch(&[1], false, true).unwrap().unwrap().bytes.as_slice(),
        b"bytes"
    );
}

#[test]
fn elements_of_no_bytes_are_elements() {
    let daemon = Daemon::start(&[]);
    let data = data(2);
    let items = data.items(&daemon.job("job"));
    items.acquire(&[0, 1], &[], 2, &mut patience()).unwrap();
    for i in 0..2 {
        assert!(items.put(i, "layout", &[], Made::default()).unwrap());
    }
    ensure(&items, &data, &[0, 1]);
    assert!(items.get(0, false).unwrap().unwrap().0.is_empty());
    assert_eq!(items.batch(&[0, 1], false, true).unwrap().unwrap().count, 2);
}

#[test]
fn a_call_is_reused_while_its_arguments_and_files_are_the_same() {
    let daemon = Daemon::start(&[]);
    let data = data(2);
    let collection = daemon.job("job").plan(graph("1")).unwrap();
    let arguments = prebake_fingerprint::Digest([1; 32]);
    let call = || collection.call("f(x)", arguments, &data.1).unwrap();
    let items = call();
    assert_eq!(items.acquire(&[0], &[], 1, &mut patience()).unwrap().compute, [0]);
    assert!(items.put(0, "layout", &[b"value"], Made::default()).unwrap());
    items.commit().unwrap();
    let again = call();
    assert_eq!(
        again.acquire(&[0], &[], 1, &mut patience()).unwrap(),
        Acquired::default()
    );
    assert_eq!(again.get(0, false).unwrap().unwrap().0.as_slice(), b"value");
    fs::write(&data.1[1], "edited").unwrap();
    assert!(again.get(0, false).unwrap().is_none());
    assert_eq!(again.acquire(&[0], &[], 1, &mut patience()).unwrap().compute, [0]);
}

#[test]
fn a_random_graph_is_bypassed_and_a_wrong_one_refused() {
    use prebake_proto::v1::{Determinism, determinism::Class};
    let daemon = Daemon::start(&[]);
    let job = daemon.job("job");
    let data = data(1);
    let mut random = graph("1");
    random.operators[1].determinism = Some(Determinism {
        class: Some(Class::Random(true)),
    });
    let collection = job.plan(random).unwrap();
    assert!(!collection.bypass().is_empty());
    let paths = Arc::new(Paths::of(&data.1).unwrap());
    let items = collection.files(Some(data.0.path()), paths).unwrap();
    let acquired = items.acquire(&[0], &[], 1, &mut patience()).unwrap();
    assert_eq!(acquired.bypass[&0], collection.bypass());
    let mut cycle = graph("1");
    cycle.operators[1].inputs[0].operator = "decode".to_owned();
    assert_eq!(job.plan(cycle).err().unwrap().code(), Code::BadGraph);
}

#[test]
fn a_daemon_without_memory_keeps_serving_right_bytes() {
    // RAM for 8 blocks of 4 MiB, of which most are kept for what is on its way; 90 MB of elements.
    let daemon = Daemon::start(&["--ram-bytes", "50331648"]);
    let data = data(600);
    let items = data.items(&daemon.job("job"));
    for epoch in 0..2 {
        for some in all(&items).chunks(20) {
            for attempt in 0.. {
                assert!(attempt < 6000, "nothing is ever stored");
                let acquired = items.acquire(some, &[], some.len(), &mut patience()).unwrap();
                for &i in &acquired.compute {
                    items
                        .put(i, "layout", &[&data.element(i)], Made::default())
                        .unwrap();
                }
                items.commit().unwrap();
                if acquired.compute.is_empty() {
                    break;
                }
                // What is on its way to the disk has to be there first.
                thread::sleep(Duration::from_millis(10));
            }
            for &i in some {
                if let Some((mut view, _)) = items.get(i, false).unwrap() {
                    assert!(view.as_slice() == data.element(i), "item {i} in epoch {epoch}");
                    view.as_mut_slice().unwrap().fill(0xee);
                }
            }
        }
    }
    let stats = items.stats();
    assert!(stats.bytes_ssd > 0, "{stats:?}");
    let totals = daemon.control().status().unwrap().totals.unwrap();
    assert!(totals.ram_bytes <= totals.ram_budget_bytes, "{totals:?}");
}

#[test]
fn a_killed_daemon_is_lost_and_what_is_mapped_stays_readable() {
    let mut daemon = Daemon::start(&[]);
    let data = data(3);
    let job = daemon.job("job");
    let items = data.items(&job);
    ensure(&items, &data, &[0, 1]);
    let held = items.get(0, false).unwrap().unwrap().0;
    daemon.kill();
    assert_eq!(held.as_slice(), data.element(0));
    assert_eq!(
        items.get(1, false).unwrap().unwrap().0.as_slice(),
        data.element(1)
    );
    let lost = items.acquire(&[2], &[], 1, &mut patience()).unwrap_err();
    assert_eq!(lost.code(), Code::DaemonLost);
    assert_eq!(job.plan(graph("1")).err().unwrap().code(), Code::DaemonLost);
    drop((items, job));
    daemon.restart();
    let again = data.items(&daemon.job("job"));
    ensure(&again, &data, &all(&again));
    assert_eq!(
        again.get(1, false).unwrap().unwrap().0.as_slice(),
        data.element(1)
    );
}

#[test]
fn nothing_is_put_over_what_a_commit_that_failed_may_still_be_copied_from() {
    let mut daemon = Daemon::start(&[]);
    let data = data(2);
    let items = data.items(&daemon.job("job"));
    items.acquire(&[0, 1], &[], 2, &mut patience()).unwrap();
    let put = |i: usize| items.put(i, "layout", &[&data.element(i)], Made::default());
    assert!(put(0).unwrap());
    // As one that takes too long fails: who answers no more may go on all the same.
    daemon.kill();
    assert_eq!(items.commit().unwrap_err().code(), Code::DaemonLost);
    assert!(put(1).is_err());
}

#[test]
fn what_is_durable_is_there_after_a_restart() {
    let mut daemon = Daemon::start(&[]);
    let data = data(50);
    let items = data.items(&daemon.job("job"));
    ensure(&items, &data, &all(&items));
    daemon.control().sync().unwrap();
    daemon.restart();
    let again = data.items(&daemon.job("job"));
    assert!(ensure(&again, &data, &all(&again)).is_empty());
    for i in all(&again) {
        assert_eq!(
            again.get(i, false).unwrap().unwrap().0.as_slice(),
            data.element(i)
        );
    }
    assert!(again.stats().bytes_ssd > 0);
}

#[test]
fn a_daemon_is_started_when_none_runs_and_only_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("cache");
    let absent = Job::connect(options(&place, "job")).err().unwrap();
    assert_eq!(absent.code(), Code::DaemonAbsent);
    let start = || {
        let mut options = options(&place, "job");
        options.autostart = true;
        options.daemon = Some(support::binary());
        Job::connect(options).unwrap()
    };
    let jobs: Vec<Job> = std::thread::scope(|scope| {
        let both = [scope.spawn(start), scope.spawn(start)];
        both.map(|job| job.join().unwrap()).into()
    });
    let pid = support::daemon_pid(&place);
    assert_eq!(jobs[0].boot_id(), jobs[1].boot_id());
    assert_eq!(connect(&place, "third").boot_id(), jobs[0].boot_id());
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
