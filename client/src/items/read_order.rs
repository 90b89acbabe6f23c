//! The order in which a job will read its items, and how far ahead of it the daemon was told.

use super::{Inner, State};
use crate::session::stats::Stats;

/// Items of the order that may be passed over at once: a job may have had some from elsewhere.
const SKIPPED_MAX: usize = 64;

/// What [`crate::Items::expect`] was told.
#[derive(Default)]
pub(crate) struct ReadOrder {
    order: Vec<usize>,
    /// The first that was not read yet.
    place: usize,
    /// The first of which the daemon was not told.
    told: usize,
    /// The first that may be untouched (see [`super::prefault`]).
    fault: usize,
    /// [`crate::session::Session::breaks`] then.
    breaks: u64,
}

impl ReadOrder {
    /// Another order. True if it does not go on with what was expected.
    pub(crate) fn set(&mut self, order: Vec<usize>) -> bool {
        let rest = &self.order[self.place..];
        let common = rest.len().min(order.len());
        let goes_on = common > 0 && rest[..common] == order[..common];
        self.told = if goes_on {
            (self.told - self.place).min(common)
        } else {
            0
        };
        (self.order, self.place, self.fault) = (order, 0, 0);
        !goes_on
    }

    /// Item `i` was read.
    pub(crate) fn read(&mut self, i: usize) {
        let next = self.order[self.place..].iter().take(SKIPPED_MAX);
        if let Some(passed) = next.into_iter().position(|next| *next == i) {
            self.place += passed + 1;
            self.told = self.told.max(self.place);
            self.fault = self.fault.max(self.place);
        }
    }

    /// What is still to be read, from the first on that may be untouched.
    pub(crate) fn faults(&self) -> &[usize] {
        &self.order[self.fault..]
    }

    pub(crate) fn next_fault(&self) -> Option<usize> {
        self.faults().first().copied()
    }

    pub(crate) fn pass_fault(&mut self) {
        self.fault += 1;
    }
}

impl Inner {
    /// Tells the daemon of the next items of the order that are not mapped, as many as it reads ahead, up to the first of
    /// which it is not known where it lies.
    pub(crate) fn tell_ahead(&self, state: &mut State) {
        let bytes_ssd = self.session.take_from_ssd();
        if bytes_ssd > 0 {
            state.tally.add(&Stats {
                bytes_ssd,
                ..Stats::default()
            });
        }
        let order = &mut state.read_order;
        let mut room = self.session.room();
        if room == 0 || order.place == order.order.len() {
            return;
        }
        let breaks = self.session.breaks();
        if std::mem::replace(&mut order.breaks, breaks) != breaks {
            order.told = order.place;
        }
        let mut coming = Vec::new();
        while room > 0
            && let Some(i) = order.order.get(order.told)
            && let Some(Some(found)) = state.found.get(*i)
        {
            order.told += 1;
            if !found.location.bytes.is_empty() && !self.session.reaches(state.access, &found.location) {
                room = room.saturating_sub(found.location.bytes.len());
                coming.push(found.location.clone());
            }
        }
        if !coming.is_empty() {
            // A daemon that is gone, or has no memory for it, reads nothing ahead.
            let _ = self.session.expect(state.access, coming);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_not_told_again_where_an_order_goes_on() {
        let mut order = ReadOrder::default();
        assert!(order.set(vec![5, 3, 4, 1]));
        order.told = 3;
        order.read(5);
        assert!(!order.set(vec![3, 4, 1, 9]));
        assert_eq!((order.place, order.told), (0, 2));
        order.read(1);
        assert_eq!((order.place, order.told), (3, 3));
        order.read(7);
        assert_eq!(order.place, 3);
        assert!(order.set(vec![5, 9]));
        assert_eq!((order.place, order.told), (0, 0));
    }
}
