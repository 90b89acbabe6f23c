//! What is wrong, hostile or another's.

use super::*;
use crate::connect_as_stranger;
use arrow_array::{BinaryArray, Float32Array, StringArray};
use prebake_daemon::tier::ram::RamTier;
use std::{fs, os::unix::fs::PermissionsExt};

#[tokio::test]
async fn another_user_sees_nothing_and_cannot_tell_that_it_is_there() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let daemon = Daemon::start();
    let mut flight = daemon.flight().await;
    flight.put(by_graph(1), vec![arrays(0..3, 10)]).await.unwrap();
    let info = flight.info(by_graph(1)).await.unwrap();
    let (path, ticket) = (
        info.flight_descriptor.unwrap(),
        info.endpoint[0].ticket.clone().unwrap(),
    );
    let before = flight.read(path.clone()).await;

    let socket = daemon.folder().join("prebake.sock");
    for open in [daemon.parent().to_owned(), daemon.folder(), socket.clone()] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let stream = connect_as_stranger(socket).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut stranger = Flight::over(UnixStream::from_std(stream).unwrap()).await;
    assert!(stranger.list().await.is_empty());
    let told = |status: Status| (status.code(), status.message().to_owned());
    let nobodys = FlightDescriptor::new_path(vec!["ab".repeat(32)]);
    let unknown = told(stranger.info(nobodys.clone()).await.unwrap_err());
    assert_eq!(unknown.0, Code::NotFound);
    assert_eq!(told(stranger.info(path.clone()).await.unwrap_err()), unknown);
    assert_eq!(told(stranger.info(by_graph(1)).await.unwrap_err()), unknown);
    let put = stranger.put(path.clone(), vec![arrays(5..6, 10)]).await;
    assert_eq!(told(put.unwrap_err()), unknown);

    let text = String::from_utf8(ticket.ticket.to_vec()).unwrap();
    let segment = format!("\"segment\":{}", daemon.cache.ssd.all()[0].id.0);
    assert!(text.contains(&segment), "{text}");
    let never = Ticket::new(text.replace(&segment, "\"segment\":4000000"));
    let unknown = told(stranger.get(never).await.unwrap_err());
    assert_eq!(unknown.0, Code::NotFound);
    assert_eq!(told(stranger.get(ticket.clone()).await.unwrap_err()), unknown);

    // What they store is their own.
    let put = stranger.put(by_graph(1), vec![arrays(0..1, 7)]).await;
    assert_eq!(put.unwrap(), tally(1, 0, 0));
    assert_eq!(
        stranger.read(path.clone()).await,
        Elements::from([(input(0), element(0, 7))])
    );
    assert!(flight.read(path).await == before);
}

#[tokio::test]
async fn a_schema_that_is_wrong_is_refused_before_a_collection_is_made() {
    let daemon = Daemon::start();
    let mut flight = daemon.flight().await;
    let good = arrays(0..2, 10);
    let (value, input) = (Arc::clone(good.column(0)), Arc::clone(good.column(1)));
    let short: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter([[1; 31], [2; 31]].iter()).unwrap());
    let loose: ArrayRef = Arc::new(BinaryArray::from_iter_values([[1; 32], [2; 32]]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let float: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0]));
    let wrong: [Vec<(&str, &ArrayRef)>; 8] = [
        vec![("value", &value)],
        vec![("input", &input)],
        vec![("input", &short), ("value", &value)],
        vec![("input", &loose), ("value", &value)],
        vec![("input", &input), ("value", &text)],
        vec![("input", &input), ("value", &value), ("cpu_ns", &float)],
        vec![("input", &input), ("value", &value), ("label", &float)],
        vec![("input", &input), ("value", &value), ("value", &value)],
    ];
    for columns in wrong {
        let columns = columns
            .into_iter()
            .map(|(name, column)| (name, Arc::clone(column)));
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let put = flight.put(by_graph(1), vec![batch]).await;
        assert_refused(put, Code::InvalidArgument, "bad-schema");
    }
    assert!(daemon.cache.catalog.all().is_empty());
}

#[tokio::test]
async fn a_row_that_is_wrong_keeps_its_whole_message_out() {
    let daemon = Daemon::start();
    let mut flight = daemon.flight().await;
    let columns = |value: Vec<Option<&[u8]>>, layout: Vec<&str>| {
        let value: ArrayRef = Arc::new(LargeBinaryArray::from(value));
        let layout: ArrayRef = Arc::new(StringArray::from(layout));
        let inputs = inputs(0..2);
        RecordBatch::try_from_iter([("input", inputs), ("value", value), ("layout", layout)]).unwrap()
    };
    let bytes = r#"{"kind":"bytes","len":4}"#;
    let eight = r#"{"dtype":"|u1","kind":"ndarray","shape":[8]}"#;
    let wrong = [
        columns(vec![Some(b"four"), None], vec![bytes; 2]),
        columns(vec![Some(b"four"); 2], vec![bytes, eight]),
        columns(vec![Some(b"four"); 2], vec![bytes, "four bytes"]),
        columns(vec![Some(b"four"); 2], vec![bytes, ""]),
    ];
    for batch in wrong {
        let put = flight.put(by_graph(1), vec![batch]).await;
        assert_refused(put, Code::InvalidArgument, "bad-row");
    }
    assert!(daemon.cache.ssd.all().is_empty());
    let large = flight.put(by_graph(1), vec![arrays(0..1, (16 << 20) + 1)]).await;
    assert_refused(large, Code::InvalidArgument, "too-large");
    let many: Vec<_> = (0..65_537).map(|n| (n, 0)).collect();
    let many = flight.put(by_graph(1), vec![ragged(&many)]).await;
    assert_refused(many, Code::InvalidArgument, "too-many-rows");
    assert!(daemon.cache.ssd.all().is_empty() && daemon.cache.sessions.all().is_empty());
}

#[tokio::test]
async fn a_message_that_makes_no_sense_is_refused_and_everyone_else_is_served() {
    let daemon = Daemon::start();
    let mut flight = daemon.flight().await;
    let batches = stream::iter([Ok(arrays(0..4, 1000))]);
    let encoded = FlightDataEncoderBuilder::new().with_flight_descriptor(Some(by_graph(1)));
    let good: Vec<FlightData> = encoded.build(batches).map(Result::unwrap).collect().await;
    let alter = |place: usize, alter: &dyn Fn(&mut FlightData)| {
        let mut messages = good.clone();
        alter(&mut messages[place]);
        messages
    };
    let wrong = [
        vec![],
        alter(0, &|m| m.data_header = vec![0xff; 40].into()),
        alter(0, &|m| m.flight_descriptor = None),
        alter(1, &|m| m.data_header = vec![0xff; 40].into()),
        alter(1, &|m| m.data_body = m.data_body.slice(..100)),
        alter(1, &|m| m.data_header = good[0].data_header.clone()),
    ];
    for messages in wrong {
        let refused = flight.send(messages).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
    assert!(daemon.cache.ssd.all().is_empty());
    assert_eq!(flight.send(good).await.unwrap(), tally(4, 0, 0));
}

#[tokio::test]
async fn descriptors_and_tickets_that_name_nothing_are_refused() {
    let daemon = Daemon::start();
    let mut flight = daemon.flight().await;
    let path = |parts: &[&str]| FlightDescriptor::new_path(parts.iter().map(ToString::to_string).collect());
    let digest = "ab".repeat(32);
    // A graph that could be read but for its length: a field behind it that nobody knows, of 4 MiB.
    let mut long = graph(1).encode_to_vec();
    long.extend([0xc2, 0x3e, 0x80, 0x80, 0x80, 0x02]);
    long.resize(long.len() + (4 << 20), 0);
    for wrong in [
        path(&[]),
        path(&["photos"]),
        path(&[&digest[1..]]),
        path(&[&digest, &digest]),
        FlightDescriptor::new_cmd(vec![]),
        FlightDescriptor::new_cmd(vec![0xff; 9]),
        FlightDescriptor::new_cmd(long),
        FlightDescriptor::default(),
    ] {
        assert_refused(
            flight.info(wrong.clone()).await,
            Code::InvalidArgument,
            "bad-descriptor",
        );
        let put = flight.put(wrong, vec![arrays(0..1, 1)]).await;
        assert_refused(put, Code::InvalidArgument, "bad-descriptor");
    }
    let mut cycle = graph(2);
    cycle.operators[1].inputs[0].operator = "2".to_owned();
    let cycle = FlightDescriptor::new_cmd(cycle.encode_to_vec());
    assert_refused(flight.info(cycle).await, Code::InvalidArgument, "cycle");
    let mut random = graph(1);
    random.operators[1].determinism = None;
    let random = FlightDescriptor::new_cmd(random.encode_to_vec());
    let put = flight.put(random, vec![arrays(0..1, 1)]).await;
    assert_refused(put, Code::InvalidArgument, "not-stored");
    assert_refused(flight.info(by_graph(1)).await, Code::NotFound, "no-collection");
    assert!(daemon.cache.catalog.all().is_empty(), "asking makes none");

    flight
        .put(by_graph(1), vec![ragged(&[(0, 5), (1, 6)])])
        .await
        .unwrap();
    let info = flight.info(by_graph(1)).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap().ticket;
    let ticket = String::from_utf8(ticket.to_vec()).unwrap();
    let altered = |from: &str, to: &str| ticket.replace(from, to);
    for wrong in [
        String::new(),
        "x".repeat(5000),
        altered("\"rows\":2", "\"rows\":3"),
        altered("\"rows\":2", "\"rows\":-1"),
        altered("\"rows\":2", &format!("\"rows\":{}", u64::MAX)),
        altered("\"tensor\":false", "\"tensor\":true"),
    ] {
        assert_ne!(wrong, ticket);
        assert_refused(
            flight.get(Ticket::new(wrong)).await,
            Code::InvalidArgument,
            "bad-ticket",
        );
    }
    let before = altered("\"boot\":", "\"boot\":1");
    assert_refused(flight.get(Ticket::new(before)).await, Code::NotFound, "gone");
    assert_eq!(flight.get(Ticket::new(ticket)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn without_memory_nothing_is_begun_and_what_is_not_there_says_so() {
    let daemon = Daemon::start();
    let mut flight = daemon.flight().await;
    flight.put(by_graph(1), vec![arrays(0..2, 10)]).await.unwrap();
    let ticket = flight.info(by_graph(1)).await.unwrap().endpoint[0]
        .ticket
        .clone()
        .unwrap();
    let ram: &RamTier = &daemon.cache.ram;
    let rest = ram.budget().bytes_max() - ram.budget().used();
    let all = ram.reserve(rest).unwrap();
    let put = flight.put(by_graph(2), vec![arrays(0..2, 10)]).await;
    assert_refused(put, Code::ResourceExhausted, "ram-full");
    assert_refused(
        flight.get(ticket.clone()).await,
        Code::ResourceExhausted,
        "ram-full",
    );
    assert_eq!(daemon.cache.catalog.all().len(), 1);
    drop(all);
    assert_eq!(flight.get(ticket).await.unwrap()[0].num_rows(), 2);

    let handshake = flight.0.handshake("").await.map_err(Status::from);
    assert_refused(handshake, Code::Unimplemented, "unsupported");
    let actions = flight.0.list_actions().await.map(drop).map_err(Status::from);
    assert_refused(actions, Code::Unimplemented, "unsupported");
    let criteria = flight
        .0
        .list_flights("photos")
        .await
        .map(drop)
        .map_err(Status::from);
    assert_refused(criteria, Code::InvalidArgument, "bad-criteria");
}
