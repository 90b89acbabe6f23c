//! Arrow Flight: descriptors, tickets, actions, and streams of record batches that are put.

use crate::{
    daemon::{Daemon, PATIENCE, daemon},
    parts::Parts,
};
use arrow_flight::{
    Action, FlightData, FlightDescriptor, Ticket, flight_service_client::FlightServiceClient,
};
use futures_util::StreamExt;
use tonic::Status;

/// More messages of a stream are no other case.
const MESSAGES_MAX: usize = 8;

/// Which method is called, then the parts of its message.
pub fn run(bytes: &[u8]) {
    let daemon = daemon();
    let mut parts = Parts(bytes);
    let method = parts.byte();
    let answer = daemon
        .runtime
        .block_on(async { tokio::time::timeout(PATIENCE, call(&daemon, method, &mut parts)).await });
    assert!(answer.is_ok(), "method {method} is not answered");
    // Arrow's own decoder panics over some messages, which ends the call and nothing else.
    if bytes.len().is_multiple_of(16) {
        daemon.must_answer();
    }
}

async fn call(daemon: &Daemon, method: u8, parts: &mut Parts<'_>) -> Result<(), Status> {
    let mut client = FlightServiceClient::new(daemon.services());
    match method % 5 {
        0 => client.get_flight_info(descriptor(parts)).await.map(drop),
        1 => client.get_schema(descriptor(parts)).await.map(drop),
        2 => {
            let ticket = Ticket {
                ticket: taken(parts).into(),
            };
            all(client.do_get(ticket).await?.into_inner()).await
        }
        3 => {
            let kind = String::from_utf8_lossy(&taken(parts)).into_owned();
            let action = Action {
                r#type: kind,
                body: taken(parts).into(),
            };
            all(client.do_action(action).await?.into_inner()).await
        }
        _ => {
            let mut messages = Vec::new();
            let mut described = Some(descriptor(parts));
            while let Some(header) = parts.next().filter(|_| messages.len() < MESSAGES_MAX) {
                messages.push(FlightData {
                    flight_descriptor: described.take(),
                    data_header: header.to_vec().into(),
                    app_metadata: taken(parts).into(),
                    data_body: taken(parts).into(),
                });
            }
            all(client
                .do_put(futures_util::stream::iter(messages))
                .await?
                .into_inner())
            .await
        }
    }
}

fn descriptor(parts: &mut Parts<'_>) -> FlightDescriptor {
    match parts.byte() % 2 {
        0 => FlightDescriptor::new_cmd(taken(parts)),
        _ => {
            let path = (0..parts.byte() % 4).map(|_| String::from_utf8_lossy(&taken(parts)).into_owned());
            FlightDescriptor::new_path(path.collect())
        }
    }
}

fn taken(parts: &mut Parts<'_>) -> Vec<u8> {
    parts.next().unwrap_or_default().to_vec()
}

async fn all<T>(mut stream: tonic::Streaming<T>) -> Result<(), Status> {
    while let Some(message) = stream.next().await {
        message?;
    }
    Ok(())
}
