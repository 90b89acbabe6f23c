//! The LZ4 blocks of a segment's compressed values, under digests that match.

use crate::{memory_file::MemoryFile, parts::Parts};
use prebake_daemon::segment::{ChunkDigests, Frame};

/// Bytes of values of one LZ4 block, but for the last.
const BLOCK_BYTES: u64 = 64 << 10;
/// What one read works in: room for three of them, as the daemon has.
const WORK_BYTES: usize = 3 * BLOCK_BYTES as usize;

/// How many bytes of values there are, in three bytes, and the blocks of the frame.
pub fn run(bytes: &[u8]) {
    let mut parts = Parts(bytes);
    let value_len = u32::from_le_bytes([parts.byte(), parts.byte(), parts.byte(), 0]).into();
    let (mut file, mut sizes, mut digests) = (Vec::new(), String::new(), String::new());
    while let Some(block) = parts.next() {
        sizes += &format!("{:08x}", block.len());
        digests += &ChunkDigests::of_one(block).to_hex();
        file.extend(block);
    }
    let Ok(digests) = ChunkDigests::from_hex(&digests) else {
        return;
    };
    // Blocks are read by whole pages.
    file.resize(file.len().next_multiple_of(4096), 0);
    let Ok(frame) = Frame::parse(0, &sizes, digests, value_len) else {
        return;
    };
    let mut work = vec![0; WORK_BYTES];
    let file = MemoryFile::new(file);
    for range in [0..value_len, value_len / 3..value_len / 2, 0..value_len + 1] {
        let mut read = 0;
        let mut count = |bytes: &[u8]| {
            read += bytes.len() as u64;
            Ok(())
        };
        let wanted = range.end - range.start;
        if frame.read(&file, range, &mut work, &mut count).is_ok() {
            assert_eq!(read, wanted, "another number of bytes was read");
        }
    }
}
