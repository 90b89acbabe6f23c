//! The body of a segment's record batch behind the values: where each of the other columns' buffers lies.

use arrow_ipc as ipc;

/// What direct I/O reads and writes: the columns behind a compressed value buffer begin on one, so that the buffer can be written
/// by such pages.
pub const PAGE_BYTES: u64 = 4096;

/// Arrow's alignment for buffers that are not ours to map.
const ALIGNMENT: u64 = 64;

/// Arrow: in place of its length, before a buffer that is not compressed in a batch that is.
pub(super) const NOT_COMPRESSED: [u8; 8] = (-1i64).to_le_bytes();

/// Where the body goes on behind a value buffer of so many bytes.
pub(super) fn behind_values(stored_len: u64, compressed: bool) -> u64 {
    match compressed {
        true => stored_len.next_multiple_of(PAGE_BYTES),
        false => stored_len,
    }
}

/// Body bytes behind the value buffer.
pub(super) struct Tail {
    begin: u64,
    /// Whether buffers say if they are compressed. These are not: most of them are digests.
    compressed: bool,
    bytes: Vec<u8>,
}

impl Tail {
    /// Behind a value buffer of so many bytes.
    pub(super) fn new(stored_len: u64, compressed: bool) -> Self {
        let mut tail = Self {
            begin: behind_values(stored_len, compressed),
            compressed,
            bytes: Vec::new(),
        };
        tail.pad();
        tail
    }

    /// Bytes of the body, to here.
    pub(super) fn body_len(&self) -> u64 {
        self.begin + self.bytes.len() as u64
    }

    /// Goes on where a buffer may begin.
    pub(super) fn pad(&mut self) {
        let len = self.body_len().next_multiple_of(ALIGNMENT) - self.begin;
        self.bytes.resize(len as usize, 0);
    }

    /// Appends a buffer; where it lies in the body.
    pub(super) fn push(&mut self, bytes: &[u8]) -> ipc::Buffer {
        self.pad();
        let at = self.body_len();
        if self.compressed && !bytes.is_empty() {
            self.bytes.extend(NOT_COMPRESSED);
        }
        self.bytes.extend_from_slice(bytes);
        ipc::Buffer::new(at as i64, (self.body_len() - at) as i64)
    }

    /// Where it begins in the body.
    pub(super) fn begin(&self) -> u64 {
        self.begin
    }

    /// What it holds.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What it holds, to go on with.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
