//! Rows of a message, with every column checked before any of them is stored.

use super::super::invalid;
use crate::{
    collection::Item,
    error::{Error, Result},
    segment::{Cost, Values},
};
use arrow_array::{Array, ArrayRef, RecordBatch, cast::AsArray, types::UInt64Type};
use arrow_buffer::Buffer;
use arrow_flight::FlightData;
use arrow_ipc as ipc;
use arrow_schema::{DataType, Schema, SchemaRef};
use prebake_fingerprint::Digest;
use std::{collections::HashMap, ops::Range, sync::Arc};

/// Rows of a message: as many as items of a request of the other protocol.
const ROWS_MAX: usize = 65_536;

/// Columns that may be left out, and their types.
const OPTIONAL: [(&str, &[DataType]); 4] = [
    ("name", &[DataType::Utf8, DataType::LargeUtf8]),
    ("layout", &[DataType::Utf8, DataType::LargeUtf8]),
    ("cpu_ns", &[DataType::UInt64]),
    ("io_ns", &[DataType::UInt64]),
];

/// The columns that a client writes.
pub struct Columns {
    schema: SchemaRef,
    values: Values,
}

/// Checked rows, and where their elements lie.
pub struct Rows {
    pub rows: Vec<Row>,
    pub bytes: Buffer,
}

/// An element to store.
pub struct Row {
    pub item: Item,
    pub layout: String,
    /// In the bytes of its message.
    pub place: Range<u64>,
    pub cost: Cost,
}

impl Columns {
    /// Of a stream that begins with this message.
    ///
    /// # Errors
    /// `bad-schema`.
    pub fn of(first: &FlightData) -> Result<Self> {
        let schema = Schema::try_from(first).map_err(|e| bad_schema(e.to_string()))?;
        let typed = |name: &str| schema.field_with_name(name).map(|field| field.data_type());
        match typed("input") {
            Ok(DataType::FixedSizeBinary(32)) => {}
            Ok(other) => return Err(bad_schema(format!("input has type {other}"))),
            Err(_) => return Err(bad_schema("there is no column input")),
        }
        let value = schema.field_with_name("value");
        let values = Values::from_field(value.map_err(|_| bad_schema("there is no column value"))?)?;
        for (place, field) in schema.fields().iter().enumerate() {
            let (name, kind) = (field.name().as_str(), field.data_type());
            let optional = OPTIONAL.iter().find(|(known, _)| *known == name);
            if name != "input" && name != "value" && optional.is_none() {
                return Err(bad_schema(format!("nobody knows what {name:?} is")));
            }
            if optional.is_some_and(|(_, kinds)| !kinds.contains(kind)) {
                return Err(bad_schema(format!("{name} has type {kind}")));
            }
            if schema.index_of(name).ok() != Some(place) {
                return Err(bad_schema(format!("there are two columns {name}")));
            }
        }
        let schema = Arc::new(schema);
        Ok(Self { schema, values })
    }

    /// The rows of a message.
    ///
    /// # Errors
    /// `bad-message`, `bad-row`, `too-many-rows`.
    pub fn rows(&self, message: FlightData) -> Result<Rows> {
        let batch = self.batch(message)?;
        if batch.num_rows() > ROWS_MAX {
            return Err(invalid(
                "too-many-rows",
                format!("a message may have {ROWS_MAX} rows"),
            ));
        }
        for (field, column) in self.schema.fields().iter().zip(batch.columns()) {
            let items = column
                .as_fixed_size_list_opt()
                .map_or(0, |lists| lists.values().null_count());
            if column.null_count() + items > 0 {
                return Err(bad_row(format!("{} has nulls", field.name())));
            }
        }
        let value = column(&batch, "value").ok_or_else(|| bad_schema("there is no column value"))?;
        let (bytes, places) = self.values.bytes_of(value);
        let rows = places.into_iter().enumerate();
        let rows = rows.map(|(row, place)| self.row(&batch, row, place));
        Ok(Rows {
            rows: rows.collect::<Result<_>>()?,
            bytes,
        })
    }

    fn batch(&self, message: FlightData) -> Result<RecordBatch> {
        let bad = |what: String| {
            invalid(
                "bad-message",
                format!("not a record batch of the stream's schema: {what}"),
            )
        };
        let header = ipc::root_as_message(&message.data_header).map_err(|e| bad(e.to_string()))?;
        let batch = header.header_as_record_batch();
        let batch = batch.ok_or_else(|| bad("its header is another's".to_owned()))?;
        let body = Buffer::from(message.data_body);
        let schema = Arc::clone(&self.schema);
        ipc::reader::read_record_batch(&body, batch, schema, &HashMap::new(), None, &header.version())
            .map_err(|e| bad(e.to_string()))
    }

    fn row(&self, batch: &RecordBatch, row: usize, place: Range<u64>) -> Result<Row> {
        let input = column(batch, "input").and_then(|c| c.as_fixed_size_binary_opt());
        let input = input
            .ok_or_else(|| bad_schema("there is no column input"))?
            .value(row);
        let fingerprint = Digest::try_from(input).map_err(|e| bad_row(e.to_string()))?;
        let len = place.end - place.start;
        let layout = match text(batch, "layout", row) {
            Some(layout) => checked(layout, len).map_err(|what| bad_row(format!("row {row}: {what}")))?,
            None => self.values.layout(len),
        };
        let name = text(batch, "name", row);
        Ok(Row {
            item: Item {
                fingerprint,
                name: name.map_or_else(|| fingerprint.short(), str::to_owned),
            },
            layout,
            place,
            cost: Cost {
                cpu_ns: number(batch, "cpu_ns", row),
                io_ns: number(batch, "io_ns", row),
            },
        })
    }
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a ArrayRef> {
    batch.column_by_name(name)
}

fn text<'a>(batch: &'a RecordBatch, name: &str, row: usize) -> Option<&'a str> {
    let column = column(batch, name)?;
    let short = column.as_string_opt::<i32>().map(|texts| texts.value(row));
    short.or_else(|| column.as_string_opt::<i64>().map(|texts| texts.value(row)))
}

fn number(batch: &RecordBatch, name: &str, row: usize) -> u64 {
    let numbers = column(batch, name).and_then(|c| c.as_primitive_opt::<UInt64Type>());
    numbers.map_or(0, |numbers| numbers.value(row))
}

/// A layout that an element of so many bytes may have, as far as it can be told without the shim.
fn checked(layout: &str, len: u64) -> std::result::Result<String, &'static str> {
    #[derive(serde::Deserialize)]
    struct Node {
        #[serde(rename = "kind")]
        _kind: String,
    }
    serde_json::from_str::<Node>(layout)
        .map_err(|_| "its layout is none: use those that were read, or leave them out")?;
    match Values::of_layout(layout).holds(len) {
        true => Ok(layout.to_owned()),
        false => Err("its value has not the bytes that its layout says"),
    }
}

fn bad_row(what: impl std::fmt::Display) -> Error {
    invalid("bad-row", format!("{what}: nothing of the message was stored"))
}

fn bad_schema(what: impl std::fmt::Display) -> Error {
    invalid(
        "bad-schema",
        format!(
            "{what}: columns are input (fixed_size_binary[32]), value, and if known name, layout (string), cpu_ns and io_ns (uint64)"
        ),
    )
}
