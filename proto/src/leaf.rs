//! Leaves: from the wire within bounds, and back.
//!
//! They only explain, so what is too much or makes no sense is dropped: a graph is never refused for its leaves.

use crate::v1;
use prebake_fingerprint::{Leaf, LeafKind, Note};

/// Leaves of one graph. A shim sends at most 512 for each operator, most operators have some ten.
pub const LEAVES_MAX: usize = 4096;

/// Bytes of all leaves of one graph: the daemon keeps them for as long as the collection.
pub const LEAVES_BYTES_MAX: usize = 256 << 10;

/// Bytes of a path or location, and of a value shown to people.
pub const LEAF_TEXT_BYTES_MAX: usize = 1024;

/// Bytes that each leaf counts beside its texts.
const LEAF_BYTES: usize = 64;

/// What may still come of one graph's leaves.
pub struct Room {
    leaves: usize,
    bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            leaves: LEAVES_MAX,
            bytes: LEAVES_BYTES_MAX,
        }
    }
}

impl Room {
    /// The leaves that there is room for.
    pub fn leaves(&mut self, wire: Vec<v1::Leaf>) -> Vec<Leaf> {
        let leaves = wire.into_iter().filter_map(leaf);
        leaves.take_while(|leaf| self.take(leaf)).collect()
    }

    /// What explains a canonical graph's operators, as the daemon kept it.
    pub fn notes(&mut self, wire: Vec<v1::Note>) -> Vec<Note> {
        let note = |wire: v1::Note| Note {
            location: wire.location,
            leaves: self.leaves(wire.leaves),
        };
        wire.into_iter().map(note).collect()
    }

    fn take(&mut self, leaf: &Leaf) -> bool {
        let bytes = LEAF_BYTES + leaf.path.len() + leaf.shown.len() + leaf.location.len();
        let fits = self.leaves > 0 && bytes <= self.bytes;
        if fits {
            self.leaves -= 1;
            self.bytes -= bytes;
        }
        fits
    }
}

/// Drops those leaves of a graph that its receiver would drop, which would else make it too large to send.
pub fn trim(graph: &mut v1::Graph) {
    let mut room = Room::default();
    for operator in &mut graph.operators {
        let kept = room.leaves(std::mem::take(&mut operator.leaves));
        operator.leaves = kept.iter().map(v1::Leaf::from).collect();
    }
}

fn leaf(wire: v1::Leaf) -> Option<Leaf> {
    let kind = LeafKind::ALL.into_iter().find(|kind| kind.text() == wire.kind)?;
    let digest = wire.digest.get(..16)?.try_into().ok()?;
    // A path that is cut could be taken for another.
    (wire.path.len() <= LEAF_TEXT_BYTES_MAX).then(|| Leaf {
        path: wire.path,
        kind,
        digest,
        shown: cut(wire.shown, LEAF_TEXT_BYTES_MAX),
        location: cut(wire.location, LEAF_TEXT_BYTES_MAX),
    })
}

/// At most so many bytes of a text, whole characters.
#[must_use]
pub fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
    }
    text
}

impl From<&Leaf> for v1::Leaf {
    fn from(leaf: &Leaf) -> Self {
        Self {
            path: leaf.path.clone(),
            kind: leaf.kind.text().to_owned(),
            digest: leaf.digest.to_vec().into(),
            shown: leaf.shown.clone(),
            location: leaf.location.clone(),
        }
    }
}

impl From<&Note> for v1::Note {
    fn from(note: &Note) -> Self {
        Self {
            location: note.location.clone(),
            leaves: note.leaves.iter().map(v1::Leaf::from).collect(),
        }
    }
}
