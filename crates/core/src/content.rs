//! A file's content: extents that never overlap, and what is between them is a hole.
//!
//! Invariant: every extent ends at or before the file's size, and the file's `allocated` is the sum of their lengths.

use crate::branch::Undecided;
use crate::change::Change;
use crate::key::{Key, Named};
use crate::tree::{Missing, Tree};
use std::ops::{Bound, ControlFlow};
use tenure_model::codec::Codec;
use tenure_model::{Attr, Extent, Ino, Piece};

fn piece(key: &[u8], value: &[u8]) -> Piece {
    let Some(Named::Extent(_, offset)) = Named::parse(key) else {
        unreachable!("only extents lie between these keys")
    };
    Piece { offset, extent: Extent::parsed(value).expect("only valid extents are put") }
}

/// Returns the whole extents that touch `offset..end`, in order.
fn touching(tree: &Tree, ino: Ino, offset: u64, end: u64) -> Result<Vec<Piece>, Missing> {
    let mut pieces = Vec::new();
    if offset >= end {
        return Ok(pieces);
    }
    let from = Key::extent(ino, offset);
    let before = tree.floor(&from, |key, value| match Named::parse(key) {
        Some(Named::Extent(of, at)) if of == ino && at < offset => Some(piece(key, value)),
        _ => None,
    })?;
    pieces.extend(before.flatten().filter(|piece| piece.end() > offset));
    let to = Key::extent(ino, end);
    tree.scan(Bound::Included(&*from), Bound::Excluded(&*to), |key, value| {
        pieces.push(piece(key, value));
        ControlFlow::Continue(())
    })?;
    Ok(pieces)
}

/// Returns the parts of extents that lie in `offset..end`, in order.
pub(crate) fn pieces(tree: &Tree, ino: Ino, offset: u64, end: u64) -> Result<Vec<Piece>, Missing> {
    let mut pieces = touching(tree, ino, offset, end)?;
    for piece in &mut pieces {
        *piece = part(piece, offset, end);
    }
    Ok(pieces)
}

/// Returns the part of a piece that lies in `offset..end`, which it touches.
fn part(piece: &Piece, offset: u64, end: u64) -> Piece {
    let from = offset.max(piece.offset);
    let to = end.min(piece.end());
    if from == piece.offset && to == piece.end() {
        return piece.clone();
    }
    Piece { offset: from, extent: piece.extent.part(from - piece.offset, to - from) }
}

/// Returns the first byte at or behind `offset` that an extent covers.
pub(crate) fn next_data(tree: &Tree, ino: Ino, offset: u64) -> Result<Option<u64>, Missing> {
    if let Some(piece) = touching(tree, ino, offset, offset.saturating_add(1))?.first() {
        return Ok(Some(piece.offset.max(offset)));
    }
    let mut next = None;
    let (from, to) = (Key::extent(ino, offset), Key::extent(ino, u64::MAX));
    tree.scan(Bound::Included(&*from), Bound::Included(&*to), |key, value| {
        next = Some(piece(key, value).offset);
        ControlFlow::Break(())
    })?;
    Ok(next)
}

/// Returns the first byte at or behind `offset` that no extent covers.
pub(crate) fn next_hole(tree: &Tree, ino: Ino, offset: u64) -> Result<u64, Missing> {
    let mut at = match touching(tree, ino, offset, offset.saturating_add(1))?.first() {
        None => return Ok(offset),
        Some(piece) => piece.end(),
    };
    let (from, to) = (Key::extent(ino, at), Key::extent(ino, u64::MAX));
    tree.scan(Bound::Included(&*from), Bound::Included(&*to), |key, value| {
        let piece = piece(key, value);
        if piece.offset != at {
            return ControlFlow::Break(());
        }
        at = piece.end();
        ControlFlow::Continue(())
    })?;
    Ok(at)
}

impl Change<'_> {
    /// Makes `offset..end` of a file a hole. Counts in `attr`, which the caller puts.
    pub(crate) fn clear(&mut self, ino: Ino, attr: &mut Attr, offset: u64, end: u64) -> Result<(), Undecided> {
        let old = touching(&self.branch.tree, ino, offset, end)?;
        let new = old.iter().flat_map(|piece| around(piece, offset, end)).flatten().collect();
        self.replace(ino, attr, &old, new)
    }

    /// Puts pieces, in rising order, over whatever is there. Counts in `attr`, which the caller puts.
    pub(crate) fn put_pieces(&mut self, ino: Ino, attr: &mut Attr, pieces: &[Piece]) -> Result<(), Undecided> {
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return Ok(()) };
        let old = touching(&self.branch.tree, ino, first.offset, last.end())?;
        let mut new = pieces.to_vec();
        for piece in &old {
            let mut rest = Some(piece.clone());
            for over in pieces {
                let Some(piece) = rest.take() else { break };
                if over.end() <= piece.offset || over.offset >= piece.end() {
                    rest = Some(piece);
                    continue;
                }
                let [left, right] = around(&piece, over.offset, over.end());
                new.extend(left);
                rest = right;
            }
            new.extend(rest);
        }
        new.sort_by_key(|piece| piece.offset);
        self.replace(ino, attr, &old, new)
    }

    /// Lets `range` of a file hold `pieces` and nothing else. Counts in `attr`, which the caller puts.
    pub(crate) fn put_over(
        &mut self,
        ino: Ino,
        attr: &mut Attr,
        (offset, end): (u64, u64),
        pieces: &[Piece],
    ) -> Result<(), Undecided> {
        let old = touching(&self.branch.tree, ino, offset, end)?;
        let kept = old.iter().flat_map(|piece| around(piece, offset, end)).flatten();
        let mut new: Vec<_> = kept.chain(pieces.iter().cloned()).collect();
        new.sort_by_key(|piece| piece.offset);
        self.replace(ino, attr, &old, new)
    }

    /// Takes `cut` out of a file and moves every byte behind it by `distance`. Counts in `attr`, which the caller puts.
    pub(crate) fn shift(
        &mut self,
        ino: Ino,
        attr: &mut Attr,
        (start, end): (u64, u64),
        distance: i64,
    ) -> Result<(), Undecided> {
        let old = touching(&self.branch.tree, ino, start, u64::MAX)?;
        let mut new = Vec::with_capacity(old.len() + 1);
        for piece in &old {
            let [left, _] = around(piece, start, u64::MAX);
            new.extend(left);
            if piece.end() > end {
                let mut moved = part(piece, end, u64::MAX);
                moved.offset = moved.offset.checked_add_signed(distance).expect("the caller checked the range");
                new.push(moved);
            }
        }
        self.replace(ino, attr, &old, new)
    }

    /// Lets a file have the extents `new` where it has `old`; both are in rising order.
    fn replace(&mut self, ino: Ino, attr: &mut Attr, old: &[Piece], new: Vec<Piece>) -> Result<(), Undecided> {
        let sum = |pieces: &[Piece]| pieces.iter().map(|piece| piece.extent.len()).sum::<u64>();
        let (freed, gained) = (sum(old), sum(&new));
        attr.allocated = attr.allocated + gained - freed;
        self.totals.bytes = self.totals.bytes + gained - freed;
        let new = joined(new);
        for piece in old {
            if new.binary_search_by_key(&piece.offset, |piece| piece.offset).is_err() {
                self.edits.remove(&Key::extent(ino, piece.offset));
            }
        }
        for piece in &new {
            let same = old.binary_search_by_key(&piece.offset, |piece| piece.offset);
            if same.is_ok_and(|at| old[at] == *piece) {
                continue;
            }
            let key = Key::extent(ino, piece.offset);
            self.get(&key, |_| ())?;
            self.edits.put_value(&key, &piece.extent);
        }
        Ok(())
    }
}

/// Returns what of a piece lies before `offset` and behind `end`.
fn around(piece: &Piece, offset: u64, end: u64) -> [Option<Piece>; 2] {
    let left = (piece.offset < offset).then(|| part(piece, piece.offset, offset));
    let right = (piece.end() > end).then(|| part(piece, end, piece.end()));
    [left, right]
}

/// Joins neighbours that are neighbours in one chunk as well.
fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let Some(last) = joined.last_mut() else {
            joined.push(piece);
            continue;
        };
        let end = last.end();
        match (&mut last.extent, &piece.extent) {
            (Extent::Chunk { at, start, len }, Extent::Chunk { at: next_at, start: next, len: more })
                if at == next_at && end == piece.offset && *start + *len == *next =>
            {
                *len += more;
            }
            _ => joined.push(piece),
        }
    }
    joined
}
