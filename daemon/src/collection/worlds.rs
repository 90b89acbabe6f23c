//! The worlds of a collection: in which its entries were made, or found to be the same when they were computed again.
//!
//! A world is all that surrounds a job's code and is no part of a graph (the client's digest of it: the user's files that
//! are imported, arguments, variables, packages, settings). It may change what the graph yields in a way that no rule
//! foresaw. So a job is served entries of a collection, and adds to them, only in a world in which they are proven: the
//! first that used it, and those in which a client computed some again and found them equal. Where they differ, a client
//! is told of a variant: the graph with a parameter more, and so another collection.
//!
//! The first world stays the first, and each segment's footer names it. The index tells which others are proven; a record
//! whose first world is not that of the segments is of other elements, and not believed: then clients compare again.

use parking_lot::{Mutex, MutexGuard};
use prebake_fingerprint::Digest;
use prebake_proto::v1::{self, world_response::Standing};
use std::collections::{BTreeSet, VecDeque};

/// Worlds kept of one collection, the newest: each edit of a script is one, and each takes some 40 bytes. A world that was
/// forgotten is compared again.
pub const WORLDS_MAX: usize = 256;

/// A variant's key and why there is one.
pub type Variant = (Digest, String);

/// What was found in a world, or in a part of one.
struct Known {
    world: Digest,
    variant: Option<Variant>,
    /// An item, a kind of element or a function's trial: people are not told of it.
    part: bool,
}

/// What is known of a collection's worlds.
#[derive(Default)]
pub struct State {
    /// Whether the index was asked.
    pub read: bool,
    /// What the segments that were found at start say is the first.
    found: BTreeSet<Option<Digest>>,
    /// The world that others are compared with; None while there is none, or while it is not known.
    pub first: Option<Digest>,
    /// What the first world is made of, for people.
    pub description: Vec<u8>,
    /// The others, oldest first.
    others: VecDeque<Known>,
    /// Those that were told that they are unproven, and have not said what they found. Not kept.
    asked: BTreeSet<Digest>,
}

/// In which worlds a collection's entries may be served.
#[derive(Default)]
pub struct Worlds(Mutex<State>);

/// Of a collection, for people.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Worlds in which its entries were made or found to be the same.
    pub proven: u64,
    /// Worlds in which they were found to be others.
    pub variant: u64,
    /// Worlds in which they were asked for and not compared so far.
    pub unproven: u64,
    /// What differed in the last variant, in words.
    pub last_variant: String,
}

impl Worlds {
    /// What is known, and the right to add to it.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// The world that others are compared with, as far as it is known now.
    pub fn first(&self) -> Option<Digest> {
        let state = self.0.lock();
        // Nobody asked since the start: what is stored is still that of the segments there are.
        if state.read { state.first } else { state.agreed() }
    }

    /// Takes note of what a segment that was found at start says is the first world.
    pub fn found(&self, first: Option<Digest>) {
        self.0.lock().found.insert(first);
    }

    /// What is known so far.
    pub fn summary(&self) -> Summary {
        let state = self.0.lock();
        let worlds = || state.others.iter().filter(|known| !known.part);
        let mut variants = worlds().filter_map(|known| known.variant.as_ref());
        let variant = variants.clone().count() as u64;
        let all = worlds().count() as u64 + u64::from(state.first.is_some());
        Summary {
            proven: all - variant,
            variant,
            unproven: state.asked.len() as u64,
            last_variant: variants
                .next_back()
                .map_or_else(String::new, |(_, why)| why.clone()),
        }
    }
}

impl State {
    /// The first world, if all segments that were found say the same.
    fn agreed(&self) -> Option<Digest> {
        let mut found = self.found.iter();
        found.next().copied().flatten().filter(|_| found.next().is_none())
    }

    /// Where a world stands, and whether it became the first. `begins` says that there is nothing that could be another
    /// world's, and that its job is about to add the first entry.
    pub fn stand(&mut self, world: Digest, begins: bool, part: bool) -> (Standing, bool) {
        let begins = self.first.is_none() && begins && self.others.is_empty();
        if begins {
            self.first = Some(world);
        }
        let first = self.first == Some(world);
        let proven = Standing::Proven(v1::Proven {
            first,
            undescribed: first && self.description.is_empty(),
        });
        if first {
            return (proven, begins);
        }
        let standing = match self.others.iter().find(|known| known.world == world) {
            Some(Known { variant: None, .. }) => proven,
            Some(Known {
                variant: Some((key, why)),
                ..
            }) => Standing::Variant(v1::Variant {
                key: key.0.to_vec().into(),
                why: why.clone(),
            }),
            None => {
                if !part && self.asked.len() < WORLDS_MAX {
                    self.asked.insert(world);
                }
                Standing::Unproven(v1::Unproven {
                    description: self.description.clone().into(),
                    ..v1::Unproven::default()
                })
            }
        };
        (standing, false)
    }

    /// Takes note of what was found in a world; whether that is new. What was found first stays, but that a later element
    /// differs counts for more than that those before were equal.
    pub fn learn(&mut self, world: Digest, variant: Option<Variant>, part: bool) -> bool {
        self.asked.remove(&world);
        if self.first == Some(world) {
            return false;
        }
        if let Some(known) = self.others.iter_mut().find(|known| known.world == world) {
            let news = known.variant.is_none() && variant.is_some();
            if news {
                known.variant = variant;
            }
            return news;
        }
        if self.others.len() >= WORLDS_MAX {
            self.others.pop_front();
        }
        self.others.push_back(Known { world, variant, part });
        true
    }

    /// As the index keeps it.
    pub fn record(&self) -> v1::Worlds {
        let world = |known: &Known| v1::World {
            digest: known.world.0.to_vec().into(),
            variant: known.variant.as_ref().map(|(key, why)| v1::Variant {
                key: key.0.to_vec().into(),
                why: why.clone(),
            }),
            part: known.part,
        };
        let first = |first: Digest| v1::World {
            digest: first.0.to_vec().into(),
            ..v1::World::default()
        };
        v1::Worlds {
            // Without a first one an empty digest stands in its place.
            worlds: std::iter::once(self.first.map(first).unwrap_or_default())
                .chain(self.others.iter().map(world))
                .collect(),
            description: self.description.clone().into(),
        }
    }

    /// Takes over what the index kept.
    pub fn recall(&mut self, record: v1::Worlds) {
        let variant = |variant: v1::Variant| Some((Digest::try_from(&variant.key[..]).ok()?, variant.why));
        let world = |world: v1::World| {
            Some(Known {
                world: Digest::try_from(&world.digest[..]).ok()?,
                variant: match world.variant {
                    None => None,
                    // A key that cannot be read leaves the world unproven.
                    Some(given) => Some(variant(given)?),
                },
                part: world.part,
            })
        };
        let mut worlds = record.worlds.into_iter();
        self.first = worlds.next().and_then(world).map(|known| known.world);
        self.others = worlds.filter_map(world).take(WORLDS_MAX).collect();
        self.description = record.description.to_vec();
    }

    /// Believes what was recalled only if it is of the elements that there are.
    pub fn match_found(&mut self) {
        let first = BTreeSet::from([self.first]);
        if !self.found.is_empty() && self.found != first {
            self.first = self.agreed();
            self.others.clear();
            self.description.clear();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use prost::Message;

    fn world(n: u8) -> Digest {
        Digest([n; 32])
    }

    fn is_proven(state: &mut State, n: u8, begins: bool) -> bool {
        matches!(state.stand(world(n), begins, false).0, Standing::Proven(_))
    }

    #[test]
    fn the_first_world_of_an_empty_collection_is_proven_and_no_other() {
        let mut state = State::default();
        assert!(is_proven(&mut state, 1, true));
        assert!(!is_proven(&mut state, 2, true) && is_proven(&mut state, 1, false));
        // Its entries may be gone; that what was proven against it holds, is not.
        assert!(!is_proven(&mut state, 3, true));
    }

    #[test]
    fn entries_of_an_unknown_world_are_proven_nowhere() {
        let mut state = State::default();
        assert!(!is_proven(&mut state, 1, false));
        assert!(state.learn(world(1), None, false));
        assert!(is_proven(&mut state, 1, false) && !is_proven(&mut state, 2, true));
    }

    #[test]
    fn what_was_found_first_stays_and_survives_a_restart() {
        let mut state = State::default();
        assert!(is_proven(&mut state, 1, true));
        assert!(state.learn(world(2), Some((world(9), "main.py".into())), false));
        assert!(
            !state.learn(world(2), None, false)
                && !state.learn(world(1), Some((world(9), String::new())), false)
        );
        state.description = b"made of".to_vec();
        let mut again = State::default();
        again.recall(v1::Worlds::decode(&state.record().encode_to_vec()[..]).unwrap());
        assert!(is_proven(&mut again, 1, false) && !is_proven(&mut again, 3, true));
        let standing = again.stand(world(2), false, false).0;
        assert!(matches!(standing, Standing::Variant(v) if v.key == world(9).0[..] && v.why == "main.py"));
        assert_eq!(again.description, b"made of");
        let summary = Worlds(Mutex::new(again)).summary();
        // That of world 3 was asked above, and nothing was compared since.
        assert_eq!(
            (
                summary.proven,
                summary.variant,
                summary.unproven,
                &*summary.last_variant
            ),
            (1, 1, 1, "main.py")
        );
    }

    #[test]
    fn what_an_index_says_of_other_elements_proves_nothing() {
        let mut old = State::default();
        assert!(is_proven(&mut old, 1, true) && old.learn(world(2), None, false));
        let old = old.record();
        let recalled = |found: &[Option<Digest>]| {
            let mut state = State::default();
            state.found.extend(found);
            state.recall(old.clone());
            state.match_found();
            [1, 2, 3].map(|n| is_proven(&mut state, n, false))
        };
        assert_eq!(recalled(&[Some(world(1))]), [true, true, false]);
        assert_eq!(recalled(&[Some(world(3))]), [false, false, true]);
        assert_eq!(recalled(&[None]), [false; 3]);
        assert_eq!(recalled(&[Some(world(1)), Some(world(3))]), [false; 3]);
        assert_eq!(recalled(&[Some(world(1)), None]), [false; 3]);
    }

    #[test]
    fn a_difference_counts_for_more_than_what_was_equal_before() {
        let mut state = State::default();
        assert!(is_proven(&mut state, 1, true) && state.learn(world(2), None, false));
        assert!(is_proven(&mut state, 2, false));
        let variant = Some((world(9), String::new()));
        assert!(state.learn(world(2), variant, false) && !state.learn(world(2), None, false));
        assert!(!is_proven(&mut state, 2, false));
    }

    #[test]
    fn a_damaged_record_proves_nothing() {
        let mut state = State::default();
        assert!(is_proven(&mut state, 1, true));
        assert!(state.learn(world(2), Some((world(9), String::new())), false));
        let mut record = state.record();
        record.worlds[0].digest = vec![1; 7].into();
        record.worlds[1].variant.as_mut().unwrap().key = vec![].into();
        let mut again = State::default();
        again.recall(record);
        assert!(!is_proven(&mut again, 1, false) && !is_proven(&mut again, 2, false));
    }

    #[test]
    fn the_oldest_of_many_worlds_are_compared_again() {
        let mut state = State::default();
        assert!(is_proven(&mut state, 0, true));
        for n in 0..=WORLDS_MAX {
            let mut digest = [7; 32];
            digest[..8].copy_from_slice(&(n as u64).to_le_bytes());
            assert!(state.learn(Digest(digest), None, false));
        }
        assert_eq!(state.others.len(), WORLDS_MAX);
        assert!(is_proven(&mut state, 0, false));
    }
}
