//! Reads a segment file's footer and rows; the values are read by block, elsewhere.

use super::{
    LZ4_BLOCKS, Places, SegmentName,
    compression::{self, PREFIX_LEN},
    format::{SEAL_LEN, SEGMENT, VALUES_AT, rows_digest, seal},
    table::{Cost, Table},
    tail::{NOT_COMPRESSED, behind_values},
};
use crate::{
    error::{Error, Result},
    vfs::VfsFile,
};
use arrow_array::{FixedSizeBinaryArray, LargeStringArray, UInt64Array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_ipc as ipc;
use arrow_schema::DataType;
use prebake_fingerprint::Digest;
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, sync::Arc};

/// value, input, name, layout, cpu_ns, io_ns.
const COLUMNS: usize = 6;

/// Magic, padding, continuation marker and length before the schema's flatbuffer.
const SCHEMA_AT: usize = 16;

/// Footer length and magic at the very end of an Arrow file.
const TRAILER_LEN: u64 = 10;

/// A footer holds a schema, one block and our metadata: canonical graph and a digest per chunk. A
/// graph is at most 4 MiB on the wire; anything larger than this is not a footer of ours.
const FOOTER_LEN_MAX: u64 = 32 << 20;

/// What a footer says.
pub struct Footer {
    /// Our metadata.
    pub metadata: HashMap<String, String>,
    rows: u64,
    /// Offset and length in the body of the buffers behind the values.
    buffers: Vec<(u64, u64)>,
    /// Whether the elements are all of one length, without offsets.
    tensor: bool,
    body_len: u64,
    /// What stands before the values if they are compressed, else nothing.
    prefix: Vec<u8>,
    /// Bytes of all elements.
    value_len: u64,
    /// All that stands before the values, with the record batch's message at its end, which all of the above but the metadata
    /// is from.
    head: Vec<u8>,
    message_at: usize,
    seal: Seal,
}

/// Digest of a footer, and where it stands in the file: what tells that a file is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// Where in the file.
    pub at: u64,
    /// The digest.
    pub digest: [u8; SEAL_LEN as usize],
}

/// Reads and checks the footer of the segment of this name. A file without a valid one does not exist.
///
/// # Errors
/// `corrupt` for anything that is not this segment, whole and unchanged.
pub fn footer(file: &dyn VfsFile, name: SegmentName) -> Result<Footer> {
    let (head, bytes, seal) = sealed(file)?;
    let footer = ipc::root_as_footer(&bytes).map_err(|_| bad("its footer does not parse"))?;
    if named(&footer) != Some(&*name.to_string()) {
        return Err(bad("it is another one"));
    }
    let blocks = footer.recordBatches().ok_or_else(|| bad("no record batch"))?;
    if blocks.len() != 1 {
        return Err(bad("not one record batch"));
    }
    let block = blocks.get(0);
    let (at, len) = (block.offset(), i64::from(block.metaDataLength()));
    if at < SCHEMA_AT as i64 || len < 8 || at.checked_add(len) != Some(VALUES_AT as i64) {
        return Err(bad("its values are not where they belong"));
    }
    let body_len = u64::try_from(block.bodyLength()).map_err(|_| bad("negative body"))?;
    if body_len > seal.at - VALUES_AT {
        return Err(bad("its body ends behind its footer"));
    }
    let message_at = at as usize;
    let parsed =
        ipc::root_as_message(&head[message_at + 8..]).map_err(|_| bad("its message does not parse"))?;
    let batch = parsed
        .header_as_record_batch()
        .ok_or_else(|| bad("its message is no record batch"))?;

    let buffers = batch.buffers().ok_or_else(|| bad("no buffers"))?;
    let nodes = batch.nodes().ok_or_else(|| bad("no nodes"))?;
    let rows = u64::try_from(batch.length()).map_err(|_| bad("negative rows"))?;
    if buffers.len() <= IO_NS {
        return Err(bad("columns are missing"));
    }
    if buffers.get(VALUES).length() as u64 > body_len {
        return Err(bad("its values exceed its body"));
    }
    let metadata = footer.custom_metadata().into_iter().flatten();
    let metadata: HashMap<String, String> = metadata
        .filter_map(|kv| Some((kv.key()?.to_owned(), kv.value()?.to_owned())))
        .collect();
    let buffers: Vec<_> = buffers
        .iter()
        .map(|b| (b.offset() as u64, b.length() as u64))
        .collect();
    let (prefix, value_len) = match compressed(batch.compression(), &metadata)? {
        true => prefix(file, buffers[VALUES].1)?,
        false => (Vec::new(), buffers[VALUES].1),
    };
    // One node more than columns: the child of FixedSizeList.
    let tensor = nodes.len() == COLUMNS + 1;
    Ok(Footer {
        metadata,
        rows,
        buffers,
        tensor,
        body_len,
        prefix,
        value_len,
        seal,
        head,
        message_at,
    })
}

fn bad(what: &str) -> Error {
    Error::corrupt(format!("not a segment: {what}"))
}

/// Reads what stands before the values, and the footer, if they match their digest.
fn sealed(file: &dyn VfsFile) -> Result<(Vec<u8>, Vec<u8>, Seal)> {
    let mut trailer = [0; TRAILER_LEN as usize];
    let trailer_at = file
        .len()?
        .checked_sub(TRAILER_LEN)
        .ok_or_else(|| bad("too short"))?;
    file.read_at(&mut trailer, trailer_at)?;
    let footer_len = ipc::reader::read_footer_length(trailer).map_err(|_| bad("no footer"))? as u64;
    let at = trailer_at
        .checked_sub(footer_len)
        .filter(|at| *at > VALUES_AT + SEAL_LEN && footer_len <= FOOTER_LEN_MAX)
        .ok_or_else(|| bad("its footer does not fit"))?;
    let mut said = [0; SEAL_LEN as usize];
    let mut footer = vec![0; footer_len as usize];
    file.read_at(&mut said, at - SEAL_LEN)?;
    file.read_at(&mut footer, at)?;
    let mut head = vec![0; VALUES_AT as usize];
    file.read_at(&mut head, 0)?;
    let digest = seal(&head, at, &footer);
    if digest != said {
        return Err(bad("its head or its footer does not match their digest"));
    }
    let at = at - SEAL_LEN;
    Ok((head, footer, Seal { at, digest }))
}

/// The name of a segment, as its footer says.
fn named<'a>(footer: &ipc::Footer<'a>) -> Option<&'a str> {
    let mut said = footer.schema()?.custom_metadata()?.iter();
    said.find(|kv| kv.key() == Some(SEGMENT))?.value()
}

/// Whether a file has this seal where it should stand: then it is the file whose footer was read, and no other.
///
/// # Errors
/// As the file system says.
pub fn bears(file: &dyn VfsFile, seal: &Seal) -> Result<bool> {
    let mut digest = [0; SEAL_LEN as usize];
    if seal.at.checked_add(SEAL_LEN).is_none_or(|end| end > u64::MAX / 2) || file.len()? < seal.at + SEAL_LEN
    {
        return Ok(false);
    }
    file.read_at(&mut digest, seal.at)?;
    Ok(digest == seal.digest)
}

/// Whether a record batch is compressed, in the one way in which ours are.
fn compressed(how: Option<ipc::BodyCompression<'_>>, metadata: &HashMap<String, String>) -> Result<bool> {
    let ours = how.is_none_or(|how| {
        how.codec() == ipc::CompressionType::LZ4_FRAME && how.method() == ipc::BodyCompressionMethod::BUFFER
    });
    match ours && how.is_some() == metadata.contains_key(LZ4_BLOCKS) {
        true => Ok(how.is_some()),
        false => Err(Error::corrupt("not a segment: its compression is not ours")),
    }
}

/// What stands before compressed values, and how many bytes they have.
fn prefix(file: &dyn VfsFile, stored_len: u64) -> Result<(Vec<u8>, u64)> {
    let bad = || Error::corrupt("not a segment: its values are no LZ4 frame");
    if stored_len < PREFIX_LEN as u64 {
        return Err(bad());
    }
    let mut prefix = vec![0; PREFIX_LEN];
    file.read_at(&mut prefix, VALUES_AT)?;
    let value_len = compression::value_len(&prefix).ok_or_else(bad)?;
    Ok((prefix, value_len))
}

impl Footer {
    /// Bytes of all elements.
    pub fn value_len(&self) -> u64 {
        self.value_len
    }

    /// Elements.
    pub fn rows_len(&self) -> u64 {
        self.rows
    }

    /// What tells this file from all others.
    pub fn seal(&self) -> Seal {
        self.seal
    }

    /// The schema as it stands before the values.
    pub(super) fn schema(&self) -> &[u8] {
        &self.head[SCHEMA_AT..self.message_at]
    }

    /// The record batch's message.
    fn message(&self) -> &[u8] {
        &self.head[self.message_at..]
    }

    /// Whether they are compressed.
    pub(super) fn is_compressed(&self) -> bool {
        !self.prefix.is_empty()
    }

    /// Where the first LZ4 block of compressed values lies in the file.
    pub(super) fn frame_at(&self) -> u64 {
        VALUES_AT + self.prefix.len() as u64
    }

    /// Digest of the rows as they are in the file, hex.
    ///
    /// # Errors
    /// `corrupt` if they are not where they should be.
    pub fn rows_digest(&self, file: &dyn VfsFile) -> Result<String> {
        let (_, tail) = self.tail(file)?;
        Ok(rows_digest(self.message(), &tail, &self.prefix))
    }

    /// Where in the body the columns behind the values begin, and their bytes.
    fn tail(&self, file: &dyn VfsFile) -> Result<(u64, Vec<u8>)> {
        let stored_len = self.buffers.get(VALUES).map_or(0, |b| b.1);
        let begin = behind_values(stored_len, self.is_compressed());
        let tail_len = self
            .body_len
            .checked_sub(begin)
            .ok_or_else(|| Error::corrupt("a segment's values exceed its body"))?;
        let mut tail = vec![0; tail_len as usize];
        file.read_at(&mut tail, VALUES_AT + begin)?;
        Ok((begin, tail))
    }

    /// Reads the rows: everything of the body behind the values, checked against `digest` (hex).
    ///
    /// # Errors
    /// `corrupt` if the bytes are not what the digest says or do not decode.
    pub fn rows(&self, file: &dyn VfsFile, digest: &str) -> Result<Rows> {
        let (begin, tail) = self.tail(file)?;
        if rows_digest(self.message(), &tail, &self.prefix) != digest {
            return Err(Error::corrupt("a segment's rows do not match their digest"));
        }
        let columns = Columns {
            footer: self,
            tail: Buffer::from_vec(tail),
            begin,
        };
        // First: before anything else is made of a size that a row count says.
        let inputs = columns.fixed(INPUT, DataType::FixedSizeBinary(32), 32)?;
        let rows = Rows {
            ends: columns.ends()?,
            inputs: inputs.into(),
            names: columns.text(NAME)?.into(),
            layouts: columns.text(LAYOUT)?.into(),
            cpu_ns: columns.fixed(CPU_NS, DataType::UInt64, WORD)?.into(),
            io_ns: columns.fixed(IO_NS, DataType::UInt64, WORD)?.into(),
        };
        let in_order = rows.ends.windows(2).all(|pair| pair[0] <= pair[1]);
        if !in_order || rows.ends.last().is_some_and(|end| *end > self.value_len) {
            return Err(Error::corrupt("a segment's elements do not lie side by side"));
        }
        Ok(rows)
    }
}

/// A segment's rows as they are in its file.
pub struct Rows {
    ends: Vec<u64>,
    inputs: FixedSizeBinaryArray,
    names: LargeStringArray,
    layouts: LargeStringArray,
    cpu_ns: UInt64Array,
    io_ns: UInt64Array,
}

impl Rows {
    /// Input fingerprint and name of each row.
    pub fn items(&self) -> impl ExactSizeIterator<Item = (Digest, &str)> {
        (0..self.ends.len()).map(|row| (self.fingerprint(row), self.names.value(row)))
    }

    /// Where the elements lie.
    pub fn places(&self) -> Places {
        let mut layouts: Vec<Arc<str>> = Vec::new();
        let mut known: HashMap<&str, u32> = HashMap::new();
        let mut last = ("", 0);
        let mut layout_of = Vec::with_capacity(self.ends.len());
        for row in 0..self.ends.len() {
            let layout = self.layouts.value(row);
            if layout != last.0 || layouts.is_empty() {
                let number = known.entry(layout).or_insert_with(|| {
                    layouts.push(layout.into());
                    layouts.len() as u32 - 1
                });
                last = (layout, *number);
            }
            layout_of.push(last.1);
        }
        Places::new(self.ends.iter().copied(), &layout_of, layouts)
    }

    /// All columns.
    pub fn table(&self) -> Table {
        let mut table = Table::default();
        for (row, end) in self.ends.iter().enumerate() {
            let cost = Cost {
                cpu_ns: self.cpu_ns.value(row),
                io_ns: self.io_ns.value(row),
            };
            let (name, layout) = (self.names.value(row), self.layouts.value(row));
            table.push(self.fingerprint(row), name, layout, end - table.value_len(), cost);
        }
        table
    }

    fn fingerprint(&self, row: usize) -> Digest {
        let mut digest = [0; 32];
        // The column is of 32 bytes a row.
        digest.copy_from_slice(self.inputs.value(row));
        Digest(digest)
    }
}

/// Places of the buffers in the record batch, in either form of the values: two buffers, the
/// values, then validity (always empty) and data of each index column.
const OFFSETS: usize = 1;
const VALUES: usize = 2;
const INPUT: usize = 4;
const NAME: usize = 6;
const LAYOUT: usize = 9;
const CPU_NS: usize = 12;
const IO_NS: usize = 14;

/// Bytes of a number, and of an offset.
const WORD: u64 = 8;

struct Columns<'a> {
    footer: &'a Footer,
    tail: Buffer,
    /// Of the body, where the tail begins.
    begin: u64,
}

impl Columns<'_> {
    fn buffer(&self, index: usize) -> Result<Buffer> {
        let bad = || Error::corrupt("a segment's column lies outside its body");
        let (at, len) = *self.footer.buffers.get(index).ok_or_else(bad)?;
        let at = at.checked_sub(self.begin).ok_or_else(bad)?;
        let end = at.checked_add(len).ok_or_else(bad)?;
        if end > self.tail.len() as u64 {
            return Err(bad());
        }
        let buffer = self.tail.slice_with_length(at as usize, len as usize);
        if !self.footer.is_compressed() || buffer.is_empty() {
            return Ok(buffer);
        }
        match buffer.strip_prefix(&NOT_COMPRESSED) {
            Some(bytes) => Ok(buffer.slice_with_length(NOT_COMPRESSED.len(), bytes.len())),
            None => Err(Error::corrupt(
                "a segment's column is compressed, which ours are not",
            )),
        }
    }

    /// So many items of a width, and nothing behind them: Arrow panics where a buffer ends within an offset.
    fn items(&self, index: usize, count: u64, width: u64) -> Result<Buffer> {
        let buffer = self.buffer(index)?;
        match count.checked_mul(width).filter(|len| *len <= buffer.len() as u64) {
            Some(len) => Ok(buffer.slice_with_length(0, len as usize)),
            None => Err(Error::corrupt("a segment has more rows than a column of it")),
        }
    }

    fn fixed(&self, index: usize, kind: DataType, width: u64) -> Result<ArrayData> {
        let rows = self.footer.rows;
        build(kind, rows, vec![self.items(index, rows, width)?])
    }

    fn text(&self, index: usize) -> Result<ArrayData> {
        let rows = self.footer.rows;
        let buffers = vec![self.items(index, rows + 1, WORD)?, self.buffer(index + 1)?];
        build(DataType::LargeUtf8, rows, buffers)
    }

    /// Where each row's element ends.
    fn ends(&self) -> Result<Vec<u64>> {
        let rows = self.footer.rows;
        if self.footer.tensor {
            let len = self.footer.value_len / rows.max(1);
            return Ok((1..=rows).map(|row| row * len).collect());
        }
        let offsets = self.items(OFFSETS, rows + 1, WORD)?;
        let offsets = build(DataType::UInt64, rows + 1, vec![offsets])?;
        Ok(UInt64Array::from(offsets).values()[1..].to_vec())
    }
}

fn build(kind: DataType, len: u64, buffers: Vec<Buffer>) -> Result<ArrayData> {
    ArrayData::builder(kind)
        .len(len as usize)
        .buffers(buffers)
        .align_buffers(true)
        .build()
        .map_err(|e| Error::corrupt(format!("a segment's column: {e}")))
}
