//! The bytes around a segment's values: Arrow's IPC *file* format, with the value buffer on a page
//! boundary. Arrow writers align to 64 bytes at most, so messages are laid out here with Arrow's
//! own flatbuffers. The drawing is in docs/explanation/architecture.md.

use super::{SegmentName, compression, frame::Frame, table::Table, tail::Tail};
use crate::error::{Error, Result};
use arrow_array::{
    Array, ArrayRef, FixedSizeBinaryArray, LargeStringArray, UInt64Array, builder::FixedSizeBinaryBuilder,
};
use arrow_buffer::Buffer;
use arrow_ipc as ipc;
use arrow_schema::{DataType, Field, Schema};
use flatbuffers::FlatBufferBuilder;
use std::{collections::HashMap, ops::Range, sync::Arc};

/// Where the value buffer begins. Room for the schema and record batch messages, on a page.
pub const VALUES_AT: u64 = 8192;

/// Footer metadata: BLAKE3 of everything in the body behind the values.
pub const ROWS_DIGEST: &str = "prebake.rows";

/// Schema metadata, in the head and in the footer: the segment's name.
pub const SEGMENT: &str = "prebake.segment";

/// Bytes before the footer: [`seal`].
pub const SEAL_LEN: u64 = blake3::OUT_LEN as u64;

const SEAL_CONTEXT: &str = "prebake 2026 segment footer v1";

const MAGIC: &[u8; 6] = b"ARROW1";
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Everything of the file but the value buffer.
pub struct Encoded {
    /// The first bytes of the file, up to the values.
    pub head: Vec<u8>,
    /// Where what is behind the value buffer begins.
    pub tail_at: u64,
    /// Bytes from there to the end of the file.
    pub tail: Vec<u8>,
}

/// NumPy's most dimensions. The schema has to fit before the values: with shapes of any length a single layout would
/// have the whole segment given up.
const DIMENSIONS_MAX: usize = 64;

/// How the value buffer is described to Arrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    /// Every element is a C-ordered array of this type and shape.
    Tensor {
        /// Type of the array's items.
        item: DataType,
        /// Their numbers.
        shape: Vec<i64>,
    },
    /// Anything else.
    Binary,
}

/// Lays out a segment of `value_len` bytes of values described by `table`, and compressed in `frame` if there is one.
///
/// # Errors
/// If the schema does not fit the head: then the layouts are absurd and the segment is given up.
pub fn encode(
    name: SegmentName,
    table: &Table,
    value_len: u64,
    frame: Option<&Frame>,
    metadata: &[(String, String)],
) -> Result<Encoded> {
    let values = Values::of(table, table.len());
    let index = index_columns(table, 0..table.len());
    let schema = schema(&values).with_metadata(HashMap::from([(SEGMENT.into(), name.to_string())]));

    let mut nodes = Vec::new();
    let mut buffers = vec![];
    let prefix = frame.map_or_else(Vec::new, |_| compression::prefix(value_len).to_vec());
    let stored_len = frame.map_or(value_len, |frame| frame.end() - VALUES_AT);
    let mut tail = Tail::new(stored_len, frame.is_some());
    values.describe(table, stored_len, &mut nodes, &mut buffers, &mut tail);
    for column in &index {
        nodes.push(ipc::FieldNode::new(column.len() as i64, 0));
        buffers.push(ipc::Buffer::new(tail.body_len() as i64, 0));
        for buffer in column.to_data().buffers() {
            buffers.push(tail.push(buffer.as_slice()));
        }
    }
    tail.pad();
    let body_len = tail.body_len();
    let batch = batch_message(
        table.len() as i64,
        &nodes,
        &buffers,
        body_len as i64,
        frame.is_some(),
    );
    let mut metadata = metadata.to_vec();
    metadata.push((ROWS_DIGEST.into(), rows_digest(&batch, tail.bytes(), &prefix)));

    let mut head = MAGIC.to_vec();
    head.extend([0; 2]);
    head.extend(schema_message(&schema));
    let batch_at = VALUES_AT
        .checked_sub(batch.len() as u64)
        .filter(|at| *at >= head.len() as u64)
        .ok_or_else(|| Error::corrupt("the schema does not fit before the values"))?;
    head.resize(batch_at as usize, 0);
    head.extend(&batch);
    head.extend(&prefix);

    let tail_at = VALUES_AT + tail.begin();
    let mut tail = tail.into_bytes();
    tail.extend(CONTINUATION);
    tail.extend([0; 4]);
    let block = ipc::Block::new(batch_at as i64, batch.len() as i32, body_len as i64);
    let footer = footer(&schema, block, &metadata);
    tail.extend(seal(
        &head[..VALUES_AT as usize],
        tail_at + tail.len() as u64 + SEAL_LEN,
        &footer,
    ));
    tail.extend(&footer);
    tail.extend((footer.len() as i32).to_le_bytes());
    tail.extend(MAGIC);
    Ok(Encoded { head, tail_at, tail })
}

/// Digest of everything before the values, of the footer, and of where it begins; it stands before the footer. The footer in
/// turn has the digests of everything else: where this one fits, no byte that is used was changed since it was written.
pub fn seal(head: &[u8], footer_at: u64, footer: &[u8]) -> [u8; SEAL_LEN as usize] {
    let mut hasher = blake3::Hasher::new_derive_key(SEAL_CONTEXT);
    hasher
        .update(head)
        .update(&footer_at.to_le_bytes())
        .update(footer);
    *hasher.finalize().as_bytes()
}

/// Of the columns behind the values, of the message that says where each begins, and of what stands before compressed values.
pub(super) fn rows_digest(message: &[u8], tail: &[u8], prefix: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(message.len() as u64).to_le_bytes());
    hasher.update(message).update(tail).update(prefix);
    hasher.finalize().to_hex().to_string()
}

impl Values {
    /// Of the first `rows` of a table.
    pub fn of(table: &Table, rows: usize) -> Self {
        if rows == 0 {
            return Self::Binary;
        }
        let layout = table.layout(0);
        let values = Self::of_layout(layout);
        // What a layout says is the client's word: elements of other lengths would be taken for parts of each other.
        let is_alike = |row| Arc::ptr_eq(table.layout(row), layout) && values.holds(table.element_len(row));
        match (0..rows).all(is_alike) {
            true => values,
            false => Self::Binary,
        }
    }

    /// Of elements of one layout.
    pub fn of_layout(layout: &str) -> Self {
        tensor(layout).map_or(Self::Binary, |(item, shape)| Self::Tensor { item, shape })
    }

    /// Whether an element may have so many bytes.
    pub fn holds(&self, len: u64) -> bool {
        self.element_len().is_none_or(|own| own == len)
    }

    /// Bytes of an element, if all have as many.
    pub fn element_len(&self) -> Option<u64> {
        let Self::Tensor { item, shape } = self else {
            return None;
        };
        let width = item.primitive_width()? as u64;
        // `tensor` refuses shapes beyond i32.
        Some(shape.iter().product::<i64>().unsigned_abs() * width)
    }

    /// The column of the values.
    pub fn field(&self) -> Field {
        let Self::Tensor { item, shape } = self else {
            return Field::new("value", DataType::LargeBinary, false);
        };
        let size: i64 = shape.iter().product();
        let list = DataType::FixedSizeList(
            Arc::new(Field::new("item", item.clone(), false)),
            // `tensor` refuses shapes beyond i32.
            i32::try_from(size).unwrap_or(i32::MAX),
        );
        Field::new("value", list, false).with_metadata(HashMap::from([
            ("ARROW:extension:name".into(), "arrow.fixed_shape_tensor".into()),
            (
                "ARROW:extension:metadata".into(),
                serde_json::json!({ "shape": shape }).to_string(),
            ),
        ]))
    }

    fn describe(
        &self,
        table: &Table,
        stored_len: u64,
        nodes: &mut Vec<ipc::FieldNode>,
        buffers: &mut Vec<ipc::Buffer>,
        tail: &mut Tail,
    ) {
        let rows = table.len() as i64;
        let values = ipc::Buffer::new(0, stored_len as i64);
        nodes.push(ipc::FieldNode::new(rows, 0));
        buffers.push(ipc::Buffer::new(0, 0));
        match self {
            Self::Tensor { shape, .. } => {
                nodes.push(ipc::FieldNode::new(rows * shape.iter().product::<i64>(), 0));
                buffers.extend([ipc::Buffer::new(0, 0), values]);
            }
            Self::Binary => {
                let offsets: Vec<i64> = (0..=table.len()).map(|r| table.start(r) as i64).collect();
                let offsets = tail.push(Buffer::from_vec(offsets).as_slice());
                buffers.extend([offsets, values]);
            }
        }
    }
}

/// Types of items that NumPy and Arrow have alike.
pub const ITEMS: [(&str, DataType); 11] = [
    ("|u1", DataType::UInt8),
    ("|i1", DataType::Int8),
    ("<u2", DataType::UInt16),
    ("<i2", DataType::Int16),
    ("<u4", DataType::UInt32),
    ("<i4", DataType::Int32),
    ("<u8", DataType::UInt64),
    ("<i8", DataType::Int64),
    ("<f2", DataType::Float16),
    ("<f4", DataType::Float32),
    ("<f8", DataType::Float64),
];

/// Arrow's type and shape of a layout that is a lone C-ordered array.
fn tensor(layout: &str) -> Option<(DataType, Vec<i64>)> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Lone {
        kind: String,
        dtype: String,
        shape: Vec<i64>,
        /// Nobody may write to it, which is the reader's affair.
        #[serde(default, rename = "fixed")]
        _fixed: bool,
    }
    let lone: Lone = serde_json::from_str(layout).ok()?;
    let (_, item) = ITEMS.iter().find(|(dtype, _)| *dtype == lone.dtype)?;
    let size = lone.shape.iter().try_fold(1i64, |n, d| n.checked_mul(*d))?;
    let fits = (1..=i64::from(i32::MAX)).contains(&size)
        && lone.shape.len() <= DIMENSIONS_MAX
        && lone.shape.iter().all(|d| *d > 0);
    (lone.kind == "ndarray" && !lone.shape.is_empty() && fits).then(|| (item.clone(), lone.shape))
}

/// The columns of a segment whose values have this form.
pub fn schema(values: &Values) -> Schema {
    Schema::new(vec![
        values.field(),
        Field::new("input", DataType::FixedSizeBinary(32), false),
        Field::new("name", DataType::LargeUtf8, false),
        Field::new("layout", DataType::LargeUtf8, false),
        Field::new("cpu_ns", DataType::UInt64, false),
        Field::new("io_ns", DataType::UInt64, false),
    ])
}

/// The columns beside the values, in the schema's order.
pub fn index_columns(table: &Table, rows: Range<usize>) -> Vec<ArrayRef> {
    let rows = || rows.clone();
    let mut inputs = FixedSizeBinaryBuilder::with_capacity(rows().len(), 32);
    for row in rows() {
        // Each value is 32 bytes, as the builder was told.
        let _ = inputs.append_value(table.fingerprint(row).0);
    }
    let inputs: FixedSizeBinaryArray = inputs.finish();
    vec![
        Arc::new(inputs),
        Arc::new(LargeStringArray::from_iter_values(rows().map(|r| table.name(r)))),
        Arc::new(LargeStringArray::from_iter_values(
            rows().map(|r| table.layout(r)),
        )),
        Arc::new(UInt64Array::from_iter_values(
            rows().map(|r| table.cost(r).cpu_ns),
        )),
        Arc::new(UInt64Array::from_iter_values(rows().map(|r| table.cost(r).io_ns))),
    ]
}

/// Length prefix and padding that Arrow wants around a message.
fn encapsulate(flatbuffer: &[u8]) -> Vec<u8> {
    let len = flatbuffer.len().next_multiple_of(8);
    let mut out = CONTINUATION.to_vec();
    out.extend((len as i32).to_le_bytes());
    out.extend_from_slice(flatbuffer);
    out.resize(8 + len, 0);
    out
}

fn schema_message(schema: &Schema) -> Vec<u8> {
    let mut fbb = FlatBufferBuilder::new();
    let header = ipc::convert::IpcSchemaEncoder::new().schema_to_fb_offset(&mut fbb, schema);
    let header = header.as_union_value();
    message(fbb, ipc::MessageHeader::Schema, header, 0)
}

fn batch_message(
    rows: i64,
    nodes: &[ipc::FieldNode],
    buffers: &[ipc::Buffer],
    body: i64,
    compressed: bool,
) -> Vec<u8> {
    let mut fbb = FlatBufferBuilder::new();
    let nodes = fbb.create_vector(nodes);
    let buffers = fbb.create_vector(buffers);
    let compression = compressed.then(|| {
        let mut compression = ipc::BodyCompressionBuilder::new(&mut fbb);
        compression.add_codec(ipc::CompressionType::LZ4_FRAME);
        compression.add_method(ipc::BodyCompressionMethod::BUFFER);
        compression.finish()
    });
    let mut batch = ipc::RecordBatchBuilder::new(&mut fbb);
    if let Some(compression) = compression {
        batch.add_compression(compression);
    }
    batch.add_length(rows);
    batch.add_nodes(nodes);
    batch.add_buffers(buffers);
    let header = batch.finish().as_union_value();
    message(fbb, ipc::MessageHeader::RecordBatch, header, body)
}

fn message(
    mut fbb: FlatBufferBuilder<'_>,
    kind: ipc::MessageHeader,
    header: flatbuffers::WIPOffset<flatbuffers::UnionWIPOffset>,
    body_len: i64,
) -> Vec<u8> {
    let mut message = ipc::MessageBuilder::new(&mut fbb);
    message.add_version(ipc::MetadataVersion::V5);
    message.add_header_type(kind);
    message.add_header(header);
    message.add_bodyLength(body_len);
    let message = message.finish();
    fbb.finish(message, None);
    encapsulate(fbb.finished_data())
}

fn footer(schema: &Schema, block: ipc::Block, metadata: &[(String, String)]) -> Vec<u8> {
    let mut fbb = FlatBufferBuilder::new();
    let schema = ipc::convert::IpcSchemaEncoder::new().schema_to_fb_offset(&mut fbb, schema);
    let blocks = fbb.create_vector(&[block]);
    let dictionaries = fbb.create_vector::<ipc::Block>(&[]);
    let metadata: Vec<_> = metadata
        .iter()
        .map(|(key, value)| {
            let (key, value) = (fbb.create_string(key), fbb.create_string(value));
            let mut pair = ipc::KeyValueBuilder::new(&mut fbb);
            pair.add_key(key);
            pair.add_value(value);
            pair.finish()
        })
        .collect();
    let metadata = fbb.create_vector(&metadata);
    let mut footer = ipc::FooterBuilder::new(&mut fbb);
    footer.add_version(ipc::MetadataVersion::V5);
    footer.add_schema(schema);
    footer.add_dictionaries(dictionaries);
    footer.add_recordBatches(blocks);
    footer.add_custom_metadata(metadata);
    let footer = footer.finish();
    fbb.finish(footer, None);
    fbb.finished_data().to_vec()
}
