//! What is read is what was written, wherever it lies by then.

use super::*;
use prebake_daemon::memory::BLOCK_BYTES;
use prebake_daemon::segment::Blocks;
use std::{collections::HashMap, fs::OpenOptions, os::unix::fs::FileExt, time::Duration};

#[tokio::test]
async fn what_was_put_is_listed_and_read_open_durable_and_from_disk() {
    let daemon = Daemon::start();
    let mut flight = daemon.flight().await;
    assert!(flight.list().await.is_empty());
    // 40 elements in three blocks, some of them in two.
    let (count, len) = (40, 250_000);
    let expected: Elements = (0..count).map(|n| (input(n), element(n, len))).collect();
    let put = flight.put(by_graph(1), vec![arrays(0..count, len)]).await;
    assert_eq!(put.unwrap(), tally(count, 0, 0));

    let listed = flight.list().await;
    assert_eq!(listed.len(), 1);
    let own = listed[0].flight_descriptor.clone().unwrap();
    let (rows, bytes) = (count as i64, (count as usize * len) as i64);
    assert_eq!((listed[0].total_records, listed[0].total_bytes), (rows, bytes));
    let schema = listed[0].clone().try_decode_schema().unwrap();
    let told: HashMap<_, _> = schema.metadata().clone().into();
    assert_eq!(told["prebake.subgraph"], own.path[0]);
    assert_eq!(told["prebake.rows"], "40");
    assert!(told["prebake.pipeline"].contains("step"), "{told:?}");
    assert_eq!(
        schema.field(0).metadata()["ARROW:extension:name"],
        "arrow.fixed_shape_tensor"
    );
    let names: Vec<_> = schema.fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, ["value", "input", "name", "layout", "cpu_ns", "io_ns"]);
    let same = flight.0.get_schema(by_graph(1)).await.unwrap();
    assert_eq!(same, schema);

    assert!(!daemon.cache.ssd.all()[0].is_durable());
    assert!(flight.read(own.clone()).await == expected, "while it is open");
    daemon.cache.sync().unwrap();
    assert!(daemon.cache.ssd.all()[0].is_durable());
    assert!(flight.read(own.clone()).await == expected, "when it is durable");
    let segment = daemon.cache.ssd.all().remove(0);
    daemon.cache.ram.forget(segment.id, segment.blocks());
    assert!(flight.read(by_graph(1)).await == expected, "from its file");

    let hits = daemon.cache.metrics.elements.with_label_values(&["hit"]).get();
    assert_eq!(hits, 3 * count);
    let from_disk = daemon.cache.metrics.bytes_read.with_label_values(&["ssd"]).get();
    assert_eq!(from_disk, 3 * BLOCK_BYTES);
    assert!(
        daemon.cache.sessions.all().is_empty(),
        "no call left anything behind"
    );
}

#[tokio::test]
async fn where_jobs_have_all_the_memory_for_blocks_it_is_read_without_one() {
    let daemon = Daemon::start();
    let mut flight = daemon.flight().await;
    // Three blocks, and elements in two of them.
    let (count, len) = (40, 250_001);
    let expected: Elements = (0..count).map(|n| (input(n), element(n, len))).collect();
    flight
        .put(by_graph(1), vec![arrays(0..count, len)])
        .await
        .unwrap();
    daemon.cache.sync().unwrap();
    let segment = daemon.cache.ssd.all().remove(0);
    let ram = &daemon.cache.ram;
    // What the put had, and what is written behind it, is given back after its answer.
    let (mut before, mut same) = (0, 0);
    while same < 5 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let used = ram.budget().used();
        same = if used == before { same + 1 } else { 0 };
        before = used;
    }
    ram.forget(segment.id, segment.blocks());
    // What a reader keeps for itself, and not a block more.
    let rest = ram.budget().bytes_max() - ram.budget().used();
    let _jobs = ram.reserve(rest - 9 * (1 << 20)).unwrap();
    assert!(flight.read(by_graph(1)).await == expected);
    assert!(segment.resident(0, &**ram).is_none());
}

#[tokio::test]
async fn elements_of_any_length_come_back_and_a_batch_stays_small() {
    let daemon = Daemon::start();
    let mut flight = daemon.flight().await;
    let of: Vec<(u64, usize)> = (0..)
        .zip([0, 1, 4096, 5_000_000, 0, 700_001, 3, 1_500_000, 1_500_000])
        .collect();
    let put = flight.put(by_graph(1), vec![ragged(&of)]).await.unwrap();
    assert_eq!(put, tally(9, 0, 0));
    let expected: Elements = of.iter().map(|(n, len)| (input(*n), element(*n, *len))).collect();
    assert!(flight.read(by_graph(1)).await == expected);

    let info = flight.info(by_graph(1)).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let batches = flight.get(ticket).await.unwrap();
    let sizes = batches
        .iter()
        .map(|b| elements(b).values().map(Vec::len).sum::<usize>());
    let sizes: Vec<_> = sizes.collect();
    assert_eq!(sizes, [4097, 5_000_000, 700_004, 1_500_000, 1_500_000]);
    let layouts = batches[0].column_by_name("layout").unwrap().as_string::<i64>();
    assert_eq!(layouts.value(1), r#"{"kind":"bytes","len":1}"#);
}

#[tokio::test]
async fn a_ticket_stands_for_what_was_there_when_it_was_given() {
    let daemon = Daemon::start();
    let mut flight = daemon.flight().await;
    flight.put(by_graph(1), vec![arrays(0..3, 100)]).await.unwrap();
    let before = flight.info(by_graph(1)).await.unwrap();
    let ticket = before.endpoint[0].ticket.clone().unwrap();
    flight.put(by_graph(1), vec![arrays(3..5, 90)]).await.unwrap();

    let batches = flight.get(ticket).await.unwrap();
    assert_eq!(batches[0].num_rows(), 3);
    assert_eq!(batches[0].column(0).as_fixed_size_list().value_length(), 100);
    let after = flight.info(by_graph(1)).await.unwrap();
    assert_eq!(after.total_records, 5);
    let schema = after.try_decode_schema().unwrap();
    assert_eq!(
        schema.field(0).data_type(),
        &DataType::LargeBinary,
        "of two shapes"
    );
    assert_eq!(flight.read(by_graph(1)).await.len(), 5);
}

#[tokio::test]
async fn a_block_that_does_not_match_its_digest_is_not_read() {
    let daemon = Daemon::start();
    let mut flight = daemon.flight().await;
    flight.put(by_graph(1), vec![arrays(0..4, 100)]).await.unwrap();
    daemon.cache.sync().unwrap();
    let segment = daemon.cache.ssd.all().remove(0);
    let ticket = flight.info(by_graph(1)).await.unwrap().endpoint[0]
        .ticket
        .clone()
        .unwrap();
    daemon.cache.ram.forget(segment.id, segment.blocks());
    let file = OpenOptions::new().write(true).open(segment.path()).unwrap();
    file.write_at(b"?", 8192 + 150).unwrap();
    assert_refused(flight.get(ticket.clone()).await, Code::DataLoss, "corrupt");
    assert_refused(flight.get(ticket).await, Code::NotFound, "gone");
    assert_eq!(flight.read(by_graph(1)).await.len(), 0);
}
