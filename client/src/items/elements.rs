//! Several elements, each a value of its own: of any layouts, found in one go.

use crate::error::Result;
use crate::items::{Inner, Items};
use crate::location::Location;
use crate::mapped::blocks::Access;
use crate::mapped::view::View;
use std::ops::Range;
use std::sync::Arc;

/// What lies apart and is no longer is copied, several elements to one place: to hand it out where it lies takes as long. Who
/// keeps one of them keeps the place, so it is no longer than this either.
const SMALL: usize = 16 << 10;

/// Elements of a batch, in the order they were asked for.
pub struct Elements {
    /// Their bytes. Those that lie side by side share one.
    pub views: Vec<View>,
    /// Where each of them is.
    pub places: Vec<Place>,
}

/// Where an element of a batch is.
pub struct Place {
    /// Which of the views.
    pub view: usize,
    /// Its bytes of that.
    pub bytes: Range<usize>,
    /// The number of its layout (see [`Items::layout`]).
    pub layout: usize,
}

/// What becomes one view.
#[derive(Debug, Default, PartialEq)]
struct Piece {
    runs: Vec<Location>,
    length: usize,
    elements: Vec<Range<usize>>,
}

impl Piece {
    fn add(&mut self, location: &Location) {
        let start = self.length;
        self.length += location.bytes.len();
        self.elements.push(start..self.length);
        match self.runs.last_mut() {
            Some(last) if last.touches(location) => last.bytes.end = location.bytes.end,
            _ => self.runs.push(location.clone()),
        }
    }

    fn append(&mut self, mut other: Piece) {
        let elements = other.elements.into_iter();
        self.elements
            .extend(elements.map(|element| element.start + self.length..element.end + self.length));
        self.length += other.length;
        self.runs.append(&mut other.runs);
    }

    /// Whether it is handed out where it lies, if that is possible.
    fn is_lent(&self) -> bool {
        self.length > SMALL
    }
}

/// Elements in their order: each run of them is a piece; small ones are one as long as that is small.
fn pieces(locations: &[Location]) -> Vec<Piece> {
    let mut runs: Vec<Piece> = Vec::new();
    for location in locations {
        match runs.last_mut() {
            Some(run) if run.runs.last().is_some_and(|last| last.touches(location)) => run.add(location),
            _ => {
                let mut run = Piece::default();
                run.add(location);
                runs.push(run);
            }
        }
    }
    let mut pieces: Vec<Piece> = Vec::new();
    for run in runs {
        match pieces.last_mut() {
            Some(piece) if piece.length + run.length <= SMALL => piece.append(run),
            _ => pieces.push(run),
        }
    }
    pieces
}

impl Items {
    /// The numbers of the layouts of `indices`; None if it is not known where one of them lies.
    #[must_use]
    pub fn layouts(&self, indices: &[usize]) -> Option<Vec<usize>> {
        if !self.0.session.is_here() {
            return None;
        }
        let state = self.0.state.lock();
        let layout = |i: &usize| Some(state.found.get(*i)?.as_ref()?.layout);
        indices.iter().map(layout).collect()
    }

    /// The layout of a number, which it has for as long as these items are open.
    #[must_use]
    pub fn layout(&self, number: usize) -> Option<Arc<str>> {
        if !self.0.session.is_here() {
            return None;
        }
        self.0.state.lock().layouts.get(number).cloned()
    }

    /// The elements of `indices`, all writable, each of its own memory: where it lies if that is possible and pays, else copied.
    /// None if one is unreachable: acquire and try again.
    ///
    /// # Errors
    /// `forked`.
    pub fn elements(&self, indices: &[usize], validated: bool) -> Result<Option<Elements>> {
        let inner = &*self.0;
        inner.enter()?;
        let mut state = inner.state.lock();
        if !inner.all_current(&mut state, indices, validated) {
            return Ok(None);
        }
        let found = indices.iter().map(|i| state.found[*i].as_ref());
        let found = found.map(|found| found.map(|found| (found.location.clone(), found.layout)));
        let Some((locations, layouts)) = found.collect::<Option<(Vec<_>, Vec<_>)>>() else {
            return Ok(None);
        };
        let pieces = pieces(&locations);
        state.access = match pieces.iter().any(Piece::is_lent) {
            true => Access::Private,
            false => Access::Reading,
        };
        let views = pieces.iter().map(|piece| inner.view_of(piece).ok().flatten());
        let Some(views) = views.collect::<Option<Vec<View>>>() else {
            for &i in indices {
                state.found[i] = None;
            }
            return Ok(None);
        };
        inner.served(state, indices);
        let parts = pieces.into_iter().enumerate();
        let parts =
            parts.flat_map(|(view, piece)| piece.elements.into_iter().map(move |bytes| (view, bytes)));
        let places = parts.zip(layouts);
        let places = places.map(|((view, bytes), layout)| Place { view, bytes, layout });
        Ok(Some(Elements {
            views,
            places: places.collect(),
        }))
    }
}

impl Inner {
    fn view_of(&self, piece: &Piece) -> Result<Option<View>> {
        match piece.runs.as_slice() {
            [run] if piece.is_lent() => self.session.view(run),
            runs => self.session.gather(runs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: usize, length: usize) -> Location {
        Location {
            segment: 1,
            bytes: start..start + length,
        }
    }

    /// Of each piece the runs, and where its elements begin.
    fn shown(locations: &[Location]) -> Vec<(Vec<Range<usize>>, Vec<usize>)> {
        let shown = |piece: Piece| {
            assert_eq!(piece.elements.last().unwrap().end, piece.length);
            let runs = piece.runs.into_iter().map(|run| run.bytes).collect();
            (runs, piece.elements.iter().map(|element| element.start).collect())
        };
        pieces(locations).into_iter().map(shown).collect()
    }

    #[test]
    fn what_lies_side_by_side_is_one_piece_and_so_is_what_is_small() {
        let side_by_side = [at(0, 7), at(7, 0), at(7, 3 * SMALL)];
        let whole = 0..7 + 3 * SMALL;
        assert_eq!(shown(&side_by_side), [(vec![whole], vec![0, 7, 7])]);
        let apart = [at(90, 8), at(10, 4), at(14, 5), at(10, 4)];
        let runs = vec![90..98, 10..19, 10..14];
        assert_eq!(shown(&apart), [(runs, vec![0, 8, 12, 17])]);
    }

    #[test]
    fn who_keeps_a_small_element_keeps_no_more_than_a_small_place() {
        let many: Vec<Location> = (0..100).map(|i| at(i * SMALL, SMALL / 10)).collect();
        let made = pieces(&many);
        assert_eq!(made.len(), 10);
        assert!(made.iter().all(|piece| piece.length <= SMALL && !piece.is_lent()));
        // A large one shares with nobody, on either side.
        let mixed = [at(0, 5), at(SMALL, 2 * SMALL), at(9 * SMALL, 5)];
        let made = pieces(&mixed);
        assert_eq!(
            made.iter().map(Piece::is_lent).collect::<Vec<_>>(),
            [false, true, false]
        );
    }
}
