//! A segment's columns as Arrow arrays: rows of it to send, and what was sent to become rows.

use super::{
    Footer, Table,
    format::{ITEMS, Values, index_columns, schema},
};
use crate::error::{Error, Kind, Result};
use arrow_array::{
    Array, ArrayRef, GenericBinaryArray, OffsetSizeTrait, RecordBatch, cast::AsArray, make_array,
};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_ipc as ipc;
use arrow_schema::{DataType, Field};
use std::{ops::Range, sync::Arc};

/// Rows of a segment, but for the values' bytes.
pub struct Columns {
    /// Where their elements lie in the segment's values.
    pub bytes: Range<u64>,
    lens: Vec<u64>,
    index: Vec<ArrayRef>,
}

impl Columns {
    /// Of these rows of a table, which has them.
    pub fn of(table: &Table, rows: Range<usize>) -> Self {
        Self {
            bytes: table.start(rows.start)..table.start(rows.end),
            lens: rows.clone().map(|row| table.element_len(row)).collect(),
            index: index_columns(table, rows),
        }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.lens.len()
    }

    /// With the bytes of their elements, side by side.
    ///
    /// # Errors
    /// `corrupt` if these are not their bytes.
    pub fn batch(self, values: &Values, bytes: Vec<u8>) -> Result<RecordBatch> {
        let bad = |e| Error::corrupt(format!("a segment's columns do not fit together: {e}"));
        let field = values.field();
        let (rows, bytes) = (self.lens.len(), Buffer::from_vec(bytes));
        let column = ArrayData::builder(field.data_type().clone()).len(rows);
        let column = match field.data_type() {
            DataType::FixedSizeList(item, size) => {
                let items = ArrayData::builder(item.data_type().clone())
                    .len(rows * *size as usize)
                    .add_buffer(bytes)
                    .align_buffers(true);
                column.add_child_data(items.build().map_err(bad)?)
            }
            _ => {
                let mut offsets = vec![0i64];
                offsets.extend(self.lens.iter().scan(0i64, |end, len| {
                    *end += *len as i64;
                    Some(*end)
                }));
                column.add_buffer(Buffer::from_vec(offsets)).add_buffer(bytes)
            }
        };
        let mut columns = vec![make_array(column.build().map_err(bad)?)];
        columns.extend(self.index);
        RecordBatch::try_new(Arc::new(schema(values)), columns).map_err(bad)
    }
}

impl Values {
    /// The form that a column of values has.
    ///
    /// # Errors
    /// `bad-schema` if values cannot be kept in it as they are.
    pub fn from_field(field: &Field) -> Result<Self> {
        let (item, size) = match field.data_type() {
            DataType::Binary | DataType::LargeBinary => return Ok(Self::Binary),
            DataType::FixedSizeList(item, size) => (item.data_type(), i64::from(*size)),
            other => return Err(unlike(format!("value has type {other}"))),
        };
        let shape = match field.metadata().get("ARROW:extension:metadata") {
            Some(text) => shape(text)?,
            None => vec![size],
        };
        let values = Self::of_layout(&layout(item, &shape)?);
        match &values {
            Self::Tensor { shape, .. } if shape.iter().product::<i64>() == size => Ok(values),
            _ => Err(unlike(format!("value has lists of {size}, and shape {shape:?}"))),
        }
    }

    /// The layout of an element of so many bytes.
    pub fn layout(&self, len: u64) -> String {
        match self {
            Self::Tensor { item, shape } => layout(item, shape).unwrap_or_default(),
            Self::Binary => serde_json::json!({ "kind": "bytes", "len": len }).to_string(),
        }
    }

    /// A column's bytes, and where each row's lie in them.
    pub fn bytes_of(&self, column: &ArrayRef) -> (Buffer, Vec<Range<u64>>) {
        fn places<O: OffsetSizeTrait>(column: &GenericBinaryArray<O>) -> (Buffer, Vec<Range<u64>>) {
            let at = |offset: &O| offset.as_usize() as u64;
            let pairs = column.value_offsets().windows(2);
            let places = pairs.map(|pair| at(&pair[0])..at(&pair[1])).collect();
            (column.values().clone(), places)
        }
        if let Some(len) = self.element_len() {
            let items = column.as_fixed_size_list().values().to_data();
            let bytes = items.buffers().first().cloned().unwrap_or_default();
            let rows = 0..column.len() as u64;
            return (bytes, rows.map(|row| row * len..(row + 1) * len).collect());
        }
        match column.data_type() {
            DataType::Binary => places(column.as_binary::<i32>()),
            _ => places(column.as_binary::<i64>()),
        }
    }
}

/// The form of a segment file's values, as its schema says.
///
/// # Errors
/// `corrupt` if that does not parse.
pub fn form(footer: &Footer) -> Result<Values> {
    let bad = || Error::corrupt("a segment's schema does not parse");
    let message = ipc::root_as_message(footer.schema()).map_err(|_| bad())?;
    let schema = message.header_as_schema().ok_or_else(bad)?;
    let schema = ipc::convert::try_fb_to_schema(schema).map_err(|_| bad())?;
    Values::from_field(schema.fields().first().ok_or_else(bad)?)
}

/// Layout of a C-ordered array, as the Python shim writes it.
fn layout(item: &DataType, shape: &[i64]) -> Result<String> {
    let known = ITEMS.iter().find(|(_, known)| known == item);
    let (dtype, _) = known.ok_or_else(|| unlike(format!("value has lists of {item}")))?;
    Ok(serde_json::json!({ "dtype": dtype, "kind": "ndarray", "shape": shape }).to_string())
}

/// The shape that `arrow.fixed_shape_tensor` says its lists have.
fn shape(text: &str) -> Result<Vec<i64>> {
    #[derive(serde::Deserialize)]
    struct Told {
        shape: Vec<i64>,
        permutation: Option<Vec<usize>>,
    }
    let told: Told =
        serde_json::from_str(text).map_err(|e| unlike(format!("value's shape does not parse: {e}")))?;
    match told.permutation {
        Some(order) if !order.iter().copied().eq(0..told.shape.len()) => Err(unlike(
            "value is not in C order: its shape is permuted".to_owned(),
        )),
        _ => Ok(told.shape),
    }
}

fn unlike(what: String) -> Error {
    Error::new(
        Kind::Invalid,
        "bad-schema",
        format!(
            "{what}: value is binary, large_binary or a fixed-size list (arrow.fixed_shape_tensor) of integers or floats"
        ),
    )
}
