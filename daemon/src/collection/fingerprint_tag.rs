//! What is kept in memory of an input fingerprint: half its length, and yet as good as the whole.

use crate::{error::Result, system::random::Random};
use prebake_fingerprint::Digest;

/// A keyed hash of an input fingerprint.
///
/// Whoever has a tag of the fingerprint that was asked for is taken for it, without a look at the fingerprint in the segment:
/// that would be a read of the disk for each entry that a job finds. The key is drawn at each start and never leaves the
/// daemon, so nobody can look for two inputs of one tag: of any two, whoever chose them, the chance is 2^-128. Of 10^9 entries
/// any two then have one tag with a chance of 10^-21. (Half of the fingerprint as it is would be as good against chance, but
/// could be worked out beforehand with 2^64 hashes, by whoever sells data.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag([u8; 16]);

/// Makes the tags of one collection.
#[derive(Clone, Copy)]
pub struct Tagger {
    key: [u8; 32],
}

impl Tagger {
    /// With a key of its own.
    ///
    /// # Errors
    /// As [`Random::fill`].
    pub fn new(random: &dyn Random) -> Result<Self> {
        let mut key = [0; 32];
        random.fill(&mut key)?;
        Ok(Self { key })
    }

    /// The tag of an input fingerprint.
    pub fn tag(&self, fingerprint: &Digest) -> Tag {
        let mut tag = [0; 16];
        let hash = blake3::keyed_hash(&self.key, &fingerprint.0);
        tag.copy_from_slice(&hash.as_bytes()[..16]);
        Tag(tag)
    }
}

impl Tag {
    /// The part that hash tables go by.
    pub fn hash(self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    /// A part that [`Tag::hash`] has nothing of.
    pub fn last_byte(self) -> u8 {
        self.0[15]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::random::SystemRandom;

    #[test]
    fn fingerprints_that_begin_alike_have_tags_of_their_own() {
        let tagger = Tagger::new(&SystemRandom).unwrap();
        let mut other = Digest([7; 32]);
        other.0[31] = 8;
        assert_ne!(tagger.tag(&Digest([7; 32])), tagger.tag(&other));
        assert_eq!(tagger.tag(&other), tagger.tag(&other));
        assert_ne!(
            Tagger::new(&SystemRandom).unwrap().tag(&other),
            tagger.tag(&other),
            "nobody can tell them beforehand"
        );
    }
}
