//! A history in the world of `fold`: which segment stands at which place.

/// The most epochs that a world may have.
pub(super) const EPOCHS: usize = 4;
/// The most segments that an epoch may have, its opening included; its seal may stand behind them.
pub(super) const SEGMENTS: usize = 3;

/// What tells segments of one name apart. The lowest number never sent to that name is drawn.
pub(super) type Nonce = u8;

/// The place of a segment: an epoch, numbered from 0, and a place in it.
pub(super) type Place = (u8, u8);

/// A set of segments: the history that a server knows, a manifest holds or an opening stands on.
///
/// Two bits a place: none, or the nonce and one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct History(u32);

pub(super) const EMPTY: History = History(0);

impl History {
    fn shift((epoch, segment): Place) -> usize {
        2 * (usize::from(epoch) * SEGMENTS + usize::from(segment))
    }

    pub(super) fn get(self, place: Place) -> Option<Nonce> {
        ((self.0 >> Self::shift(place) & 3) as u8).checked_sub(1)
    }

    pub(super) fn with(self, place: Place, nonce: Nonce) -> Self {
        Self(self.0 & !(3 << Self::shift(place)) | (u32::from(nonce) + 1) << Self::shift(place))
    }

    /// Returns the part before `place`.
    pub(super) fn before(self, place: Place) -> Self {
        Self(self.0 & ((1 << Self::shift(place)) - 1))
    }

    /// Whether every segment of `part` is in this history.
    pub(super) fn holds(self, part: Self) -> bool {
        places().all(|place| part.get(place).is_none_or(|nonce| self.get(place) == Some(nonce)))
    }
}

/// Returns every place of a segment, in order.
pub(super) fn places() -> impl Iterator<Item = Place> {
    (0..EPOCHS as u8).flat_map(|epoch| (0..SEGMENTS as u8).map(move |segment| (epoch, segment)))
}
