//! Arrow Flight, as clients speak it that know nothing of Prebake.

mod get;
mod put;
mod refused;

use super::client::{Daemon, channel, graph};
use arrow_array::{
    Array, ArrayRef, FixedSizeBinaryArray, FixedSizeListArray, LargeBinaryArray, RecordBatch, UInt8Array,
    cast::AsArray,
};
use arrow_flight::{
    FlightClient, FlightData, FlightDescriptor, FlightInfo, Ticket, encode::FlightDataEncoderBuilder,
    error::FlightError, flight_service_client::FlightServiceClient,
};
use arrow_schema::{DataType, Field};
use futures_util::{StreamExt, TryStreamExt, stream};
use prost::Message;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};
use tokio::net::UnixStream;
use tonic::{Code, Status};

/// Elements by input.
type Elements = BTreeMap<Vec<u8>, Vec<u8>>;

struct Flight(FlightClient);

const MESSAGE_BYTES_MAX: usize = 64 << 20;

impl Daemon {
    async fn flight(&self) -> Flight {
        let stream = UnixStream::connect(self.folder().join("prebake.sock")).await;
        Flight::over(stream.unwrap()).await
    }
}

impl Flight {
    async fn over(stream: UnixStream) -> Self {
        // An element may be larger than what gRPC takes by default.
        let client =
            FlightServiceClient::new(channel(stream).await).max_decoding_message_size(MESSAGE_BYTES_MAX);
        Self(FlightClient::new_from_inner(client))
    }

    async fn list(&mut self) -> Vec<FlightInfo> {
        let listed = self.0.list_flights("").await.unwrap();
        listed.try_collect().await.unwrap()
    }

    async fn info(&mut self, descriptor: FlightDescriptor) -> Result<FlightInfo, Status> {
        self.0.get_flight_info(descriptor).await.map_err(Status::from)
    }

    async fn get(&mut self, ticket: Ticket) -> Result<Vec<RecordBatch>, Status> {
        let batches = self.0.do_get(ticket).await.map_err(Status::from)?;
        batches.try_collect().await.map_err(Status::from)
    }

    /// All elements of a collection.
    async fn read(&mut self, descriptor: FlightDescriptor) -> Elements {
        let info = self.info(descriptor).await.unwrap();
        let mut read = Elements::new();
        for endpoint in info.endpoint {
            for batch in self.get(endpoint.ticket.unwrap()).await.unwrap() {
                read.extend(elements(&batch));
            }
        }
        assert_eq!(read.len() as i64, info.total_records);
        read
    }

    /// Puts batches; what came of them, by the reasons that the daemon gives.
    async fn put(&mut self, to: FlightDescriptor, batches: Vec<RecordBatch>) -> Result<Value, Status> {
        let batches = stream::iter(batches.into_iter().map(Ok));
        // A batch is a message: else the encoder parts large ones.
        let encoded = FlightDataEncoderBuilder::new()
            .with_max_flight_data_size(usize::MAX)
            .with_flight_descriptor(Some(to))
            .build(batches);
        self.send(encoded.map(Result::unwrap).collect().await).await
    }

    async fn send(&mut self, messages: Vec<FlightData>) -> Result<Value, Status> {
        let results = self.0.do_put(stream::iter(messages.into_iter().map(Ok))).await;
        let results: Result<Vec<_>, FlightError> = match results {
            Ok(results) => results.try_collect().await,
            Err(error) => Err(error),
        };
        let results = results.map_err(Status::from)?;
        assert_eq!(results.len(), 1);
        Ok(serde_json::from_slice(&results[0].app_metadata).unwrap())
    }
}

fn by_graph(operators: usize) -> FlightDescriptor {
    FlightDescriptor::new_cmd(graph(operators).encode_to_vec())
}

fn input(n: u64) -> Vec<u8> {
    blake3::hash(&n.to_le_bytes()).as_bytes().to_vec()
}

/// Bytes that differ for every number and offset.
fn element(n: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut stream = blake3::Hasher::new().update(&n.to_le_bytes()).finalize_xof();
    stream.fill(&mut bytes);
    bytes
}

fn inputs(numbers: impl Iterator<Item = u64>) -> ArrayRef {
    let inputs = FixedSizeBinaryArray::try_from_iter(numbers.map(input)).unwrap();
    Arc::new(inputs)
}

/// Elements of these lengths, as bytes.
fn ragged(of: &[(u64, usize)]) -> RecordBatch {
    let values = of.iter().map(|(n, len)| element(*n, *len));
    let values: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values(values));
    let inputs = inputs(of.iter().map(|(n, _)| *n));
    RecordBatch::try_from_iter([("value", values), ("input", inputs)]).unwrap()
}

/// Elements of one length, as arrays.
fn arrays(numbers: std::ops::Range<u64>, len: usize) -> RecordBatch {
    let bytes: Vec<u8> = numbers.clone().flat_map(|n| element(n, len)).collect();
    let item = Arc::new(Field::new("item", DataType::UInt8, false));
    let values = FixedSizeListArray::new(item, len as i32, Arc::new(UInt8Array::from(bytes)), None);
    let values: ArrayRef = Arc::new(values);
    RecordBatch::try_from_iter([("value", values), ("input", inputs(numbers))]).unwrap()
}

fn elements(batch: &RecordBatch) -> Elements {
    let value = batch.column_by_name("value").unwrap();
    let input = batch.column_by_name("input").unwrap().as_fixed_size_binary();
    let element = |row| match value.data_type() {
        DataType::LargeBinary => value.as_binary::<i64>().value(row).to_vec(),
        _ => {
            let items = value.as_fixed_size_list().value(row);
            items
                .as_primitive::<arrow_array::types::UInt8Type>()
                .values()
                .to_vec()
        }
    };
    (0..batch.num_rows())
        .map(|row| (input.value(row).to_vec(), element(row)))
        .collect()
}

/// Stored and there and held, and nothing refused.
fn tally(stored: u64, there: u64, held: u64) -> Value {
    serde_json::json!({ "stored": stored, "there": there, "held": held, "refused": {} })
}

fn assert_refused<T: std::fmt::Debug>(got: Result<T, Status>, code: Code, reason: &str) {
    let status = got.unwrap_err();
    assert_eq!(status.code(), code, "{status}");
    assert!(status.message().contains(&format!("[{reason}]")), "{status}");
}
