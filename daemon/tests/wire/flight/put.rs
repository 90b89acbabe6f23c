//! What is put goes the way of every commit.

use super::*;
use prebake_proto::v1;
use std::time::Duration;

#[tokio::test]
async fn an_entry_that_is_there_or_leased_is_left_as_it_is() {
    let daemon = Daemon::start();
    let mut flight = daemon.flight().await;
    let first = flight.put(by_graph(1), vec![arrays(0..2, 100)]).await;
    assert_eq!(first.unwrap(), tally(2, 0, 0));
    let held = daemon.job().await;
    let collection = held.plan(graph(1)).await.unwrap();
    held.lease(collection, 7).await;

    let other: Vec<Vec<u8>> = vec![input(0), vec![7; 32], input(5), input(5)];
    let values: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values(["a", "b", "c", "d"]));
    let inputs: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter(other.into_iter()).unwrap());
    let batch = RecordBatch::try_from_iter([("input", inputs), ("value", values)]).unwrap();
    let again = flight.put(by_graph(1), vec![batch]).await;
    assert_eq!(again.unwrap(), tally(1, 2, 1));
    let read = flight.read(by_graph(1)).await;
    assert_eq!(read[&input(0)], element(0, 100), "the first stays");
    assert_eq!((read.len(), &*read[&input(5)]), (3, &b"c"[..]));
}

#[tokio::test]
async fn all_that_nobody_has_is_stored_however_many_jobs_compute() {
    let daemon = Daemon::start();
    let (mut flight, first, second) = (daemon.flight().await, daemon.job().await, daemon.job().await);
    let collection = first.plan(graph(1)).await.unwrap();
    first.lease(collection, 1).await;
    second.plan(graph(1)).await.unwrap();
    second.lease(collection, 2).await;
    let put = flight.put(by_graph(1), vec![arrays(0..100, 10)]).await;
    assert_eq!(put.unwrap(), tally(100, 0, 0));
    // And a job is served them.
    let item = v1::Item {
        fingerprint: input(40).into(),
        name: String::new(),
    };
    let request = v1::AcquireRequest {
        wanted: vec![item],
        ..first.wanting(collection, 1, Duration::ZERO)
    };
    let answers = first.cache().acquire(request).await.unwrap().into_inner().answers;
    assert!(matches!(answers[0].kind, Some(v1::answer::Kind::Hit(_))));
}

#[tokio::test]
async fn a_column_of_a_segment_goes_back_in_as_it_came_out() {
    let daemon = Daemon::start();
    let mut flight = daemon.flight().await;
    let columns = arrays(0..4, 64);
    let text = |texts: [&str; 4]| -> ArrayRef { Arc::new(arrow_array::StringArray::from(texts.to_vec())) };
    let layout = r#"{"dtype":"<u2","kind":"ndarray","shape":[4,8]}"#;
    let batch = RecordBatch::try_from_iter([
        ("name", text(["a", "b", "c", "d"])),
        ("input", Arc::clone(columns.column(1))),
        ("layout", text([layout; 4])),
        (
            "cpu_ns",
            Arc::new(arrow_array::UInt64Array::from(vec![5; 4])) as ArrayRef,
        ),
        ("value", Arc::clone(columns.column(0))),
    ]);
    flight.put(by_graph(1), vec![batch.unwrap()]).await.unwrap();
    let info = flight.info(by_graph(1)).await.unwrap();
    let batches = flight
        .get(info.endpoint[0].ticket.clone().unwrap())
        .await
        .unwrap();
    let metadata = &batches[0].schema().field(0).metadata()["ARROW:extension:metadata"].clone();
    assert_eq!(metadata, r#"{"shape":[4,8]}"#);
    assert_eq!(
        flight.put(by_graph(2), batches.clone()).await.unwrap(),
        tally(4, 0, 0)
    );
    let info = flight.info(by_graph(2)).await.unwrap();
    let again = flight
        .get(info.endpoint[0].ticket.clone().unwrap())
        .await
        .unwrap();
    assert_eq!(again, batches);
    assert_eq!(daemon.cache.ssd.all()[0].summary().cpu_ns, 20);
}

#[tokio::test]
async fn what_is_quarantined_is_neither_read_nor_stored() {
    let daemon = Daemon::start();
    let mut flight = daemon.flight().await;
    flight.put(by_graph(1), vec![arrays(0..2, 10)]).await.unwrap();
    let own = flight.list().await[0].clone();
    let job = daemon.job().await;
    let request = v1::MismatchRequest {
        session: job.session,
        collection: job.plan(graph(1)).await.unwrap(),
        fingerprint: vec![1; 32].into(),
        ..Default::default()
    };
    job.cache().mismatch(request).await.unwrap();
    assert!(flight.list().await.is_empty());
    let path = own.flight_descriptor.unwrap();
    assert_refused(flight.info(path.clone()).await, Code::NotFound, "quarantined");
    let ticket = own.endpoint[0].ticket.clone().unwrap();
    assert_refused(flight.get(ticket).await, Code::NotFound, "gone");
    let put = flight.put(path, vec![arrays(0..2, 10)]).await;
    assert_refused(put, Code::InvalidArgument, "not-stored");
    let put = flight.put(by_graph(2), vec![arrays(0..2, 10)]).await;
    assert_refused(put, Code::InvalidArgument, "not-stored");
    assert!(daemon.cache.ssd.all().is_empty());
}
