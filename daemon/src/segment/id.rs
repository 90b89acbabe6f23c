//! What segments and blocks are called.

use super::description::{hex, unhex};
use crate::{error::Result, system::random::Random};
use std::fmt;

/// A segment's number while the daemon lives. No file and no index holds one: they know a segment by its [`SegmentName`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub u32);

/// Bytes of a name: of 2^32 segments any two have one name with a chance of 2^-65.
const NAME_BYTES: usize = 16;

/// What a segment is called for good: random bits, drawn when it is begun. They stand in its file's name, its head and its
/// footer, and in the index; no other segment ever has them, so that nothing that is known of one can be taken for another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SegmentName([u8; NAME_BYTES]);

impl SegmentName {
    /// A new one.
    ///
    /// # Errors
    /// As [`Random::fill`].
    pub fn draw(random: &dyn Random) -> Result<Self> {
        let mut bytes = [0; NAME_BYTES];
        random.fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Back from text.
    pub fn parse(text: &str) -> Option<Self> {
        let is_lower = text.bytes().all(|b| !b.is_ascii_uppercase());
        let bytes = unhex(text).filter(|_| is_lower)?;
        bytes.try_into().ok().map(Self)
    }

    /// The name of a segment's file, which begins with `label` for people.
    pub fn file_name(self, label: &str) -> String {
        format!("{label}-{self}.arrow")
    }

    /// The segment that a file of this name is; None if it is unfinished or not ours.
    pub fn of_file(file_name: &str) -> Option<Self> {
        let (_, name) = file_name.strip_suffix(".arrow")?.rsplit_once('-')?;
        Self::parse(name)
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// A window of a segment's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockId {
    /// The segment.
    pub segment: SegmentId,
    /// Which window: bytes `index * BLOCK_BYTES..` of the value buffer.
    pub index: u32,
}
