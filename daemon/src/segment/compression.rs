//! LZ4, and whether it pays. Values are compressed in LZ4 blocks of 64 KiB that know nothing of each other; one after the other
//! they are one LZ4 frame, which is what Arrow's IPC format has a compressed buffer hold. So any Arrow reader decompresses it
//! as a whole, and the daemon only what it wants.

use crate::error::{Error, Result};

/// Bytes of an LZ4 block before compression, but for the last of a frame: LZ4 looks no farther back, so that larger ones are
/// not smaller on disk, and an element that is read by itself has no more than this decompressed in vain at each end.
pub(super) const LZ4_BLOCK_BYTES: usize = 64 << 10;

/// Compressed is only what takes at most this part of its bytes on disk. LZ4 gives back 1 to 2 GB/s a core, which is what
/// an SSD gives: what the disk is spared must be worth a processor that jobs could use, also where the disk is fast.
const RATIO_MAX: f64 = 0.8;

/// LZ4 blocks that a sample has: half a MiB in 1 ms, once for each segment of 64.
const SAMPLE_BLOCKS: usize = 8;

/// Bytes before the first LZ4 block of a buffer: Arrow's length of what was compressed, and the frame's header.
pub(super) const PREFIX_LEN: usize = 8 + FRAME_HEADER.len();

/// Magic; version 1, blocks independent, no checksums of its own, blocks of 64 KiB at most; checksum of these two bytes.
const FRAME_HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];

/// Ends a frame: a block of no bytes.
pub(super) const END_MARK_LEN: usize = BLOCK_HEADER_LEN;

/// Length of an LZ4 block, before it.
const BLOCK_HEADER_LEN: usize = 4;

/// Of that length: the block is as it was, since LZ4 would have made it longer.
const AS_IT_WAS: u32 = 1 << 31;

/// Most bytes of an LZ4 block in a frame.
pub(super) const STORED_MAX: usize = BLOCK_HEADER_LEN + LZ4_BLOCK_BYTES;

/// Room that [`compress`] needs, since LZ4 finds out late that it makes a block longer.
pub(super) const COMPRESS_ROOM: usize =
    BLOCK_HEADER_LEN + lz4_flex::block::get_maximum_output_size(LZ4_BLOCK_BYTES);

/// What stands before the first LZ4 block of `value_len` bytes of values.
pub(super) fn prefix(value_len: u64) -> [u8; PREFIX_LEN] {
    let mut prefix = [0; PREFIX_LEN];
    prefix[..8].copy_from_slice(&value_len.to_le_bytes());
    prefix[8..].copy_from_slice(&FRAME_HEADER);
    prefix
}

/// What [`prefix`] was made of; None if it is none.
pub(super) fn value_len(prefix: &[u8]) -> Option<u64> {
    let (len, header) = prefix.split_first_chunk()?;
    (header == FRAME_HEADER).then(|| u64::from_le_bytes(*len))
}

/// Puts an LZ4 block, as it is in a frame, at the start of `into`, which has [`COMPRESS_ROOM`]; its bytes there.
pub(super) fn compress(bytes: &[u8], into: &mut [u8]) -> usize {
    let (header, body) = into.split_at_mut(BLOCK_HEADER_LEN);
    let compressed = lz4_flex::block::compress_into(bytes, body).unwrap_or(bytes.len());
    let (len, mark) = match compressed < bytes.len() {
        true => (compressed, 0),
        false => {
            body[..bytes.len()].copy_from_slice(bytes);
            (bytes.len(), AS_IT_WAS)
        }
    };
    header.copy_from_slice(&(len as u32 | mark).to_le_bytes());
    BLOCK_HEADER_LEN + len
}

/// Fills `into` with what an LZ4 block of a frame was made of.
///
/// # Errors
/// `corrupt` if it was made of fewer bytes, or more, or of none.
pub(super) fn decompress(stored: &[u8], into: &mut [u8]) -> Result<()> {
    let bad = || Error::corrupt("an LZ4 block is not what it says");
    let (header, body) = stored.split_first_chunk().ok_or_else(bad)?;
    let header = u32::from_le_bytes(*header);
    if (header & !AS_IT_WAS) as usize != body.len() {
        return Err(bad());
    }
    let len = match header & AS_IT_WAS {
        0 => lz4_flex::block::decompress_into(body, into).map_err(|_| bad())?,
        _ if body.len() == into.len() => {
            into.copy_from_slice(body);
            body.len()
        }
        _ => return Err(bad()),
    };
    (len == into.len()).then_some(()).ok_or_else(bad)
}

/// Part of its bytes that a sample of a column took when it was compressed.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Ratio(f64);

impl Ratio {
    /// Of a column's first `len` bytes, parts of which `read` gives by where they begin; `work` has room for such a part and
    /// [`COMPRESS_ROOM`]. None if there is too little to judge by, which a disk reads as fast either way.
    ///
    /// # Errors
    /// As `read` says.
    pub(super) fn sample(
        len: usize,
        work: &mut [u8],
        read: impl Fn(u64, &mut [u8]) -> Result<()>,
    ) -> Result<Option<Self>> {
        let (part, into) = work.split_at_mut(LZ4_BLOCK_BYTES);
        let count = (len / LZ4_BLOCK_BYTES).min(SAMPLE_BLOCKS);
        let mut stored = 0;
        for number in 0..count {
            read((len / count * number) as u64, part)?;
            stored += compress(part, into);
        }
        let all = count * LZ4_BLOCK_BYTES;
        Ok((count > 0).then(|| Self(stored as f64 / all as f64)))
    }

    /// Of all of it.
    pub fn of(stored_len: u64, value_len: u64) -> Self {
        Self(stored_len as f64 / value_len.max(1) as f64)
    }

    /// Whether it is to be compressed.
    pub fn pays(self) -> bool {
        self.0 <= RATIO_MAX
    }

    /// As a number: 0.4 is two fifths of the bytes.
    pub fn get(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(bytes: &[u8]) -> usize {
        let mut stored = vec![0; COMPRESS_ROOM];
        let len = compress(bytes, &mut stored);
        let mut back = vec![1; bytes.len()];
        decompress(&stored[..len], &mut back).unwrap();
        assert!(back == bytes);
        let mut longer = vec![0; bytes.len() + 1];
        assert!(decompress(&stored[..len], &mut longer).is_err());
        assert!(decompress(&stored[..len], &mut longer[..bytes.len() - 1]).is_err());
        assert!(decompress(&stored[..len - 1], &mut back).is_err());
        for lie in [len - BLOCK_HEADER_LEN - 1, len - BLOCK_HEADER_LEN + 1] {
            let mut lying = stored[..len].to_vec();
            let mark = u32::from_le_bytes([lying[0], lying[1], lying[2], lying[3]]) & AS_IT_WAS;
            lying[..BLOCK_HEADER_LEN].copy_from_slice(&(lie as u32 | mark).to_le_bytes());
            assert!(decompress(&lying, &mut back).is_err());
        }
        len
    }

    #[test]
    fn blocks_come_back_and_give_no_other_length() {
        let mut random = vec![0; LZ4_BLOCK_BYTES];
        blake3::Hasher::new().finalize_xof().fill(&mut random);
        assert_eq!(round_trip(&random), STORED_MAX);
        assert!(round_trip(&[0; LZ4_BLOCK_BYTES]) < 1000);
        round_trip(&random[..1]);
        round_trip(&random[..100]);
    }

    #[test]
    fn what_is_random_does_not_pay_and_narrow_numbers_do() {
        let mut random = vec![0; 1 << 20];
        blake3::Hasher::new().finalize_xof().fill(&mut random);
        let ids: Vec<u8> = random
            .chunks(2)
            .flat_map(|id| [id[0], id[1] & 0x7f, 0, 0, 0, 0, 0, 0])
            .collect();
        let mut work = vec![0; 2 * COMPRESS_ROOM];
        let mut ratio = |bytes: &[u8]| {
            let read = |at: u64, into: &mut [u8]| {
                into.copy_from_slice(&bytes[at as usize..at as usize + into.len()]);
                Ok(())
            };
            Ratio::sample(bytes.len(), &mut work, read).unwrap()
        };
        assert!(!ratio(&random).unwrap().pays());
        assert!(ratio(&ids).unwrap().pays(), "{:?}", ratio(&ids));
        assert_eq!(ratio(&ids[..LZ4_BLOCK_BYTES - 1]), None);
    }
}
