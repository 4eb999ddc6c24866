//! A file's content: extents that never overlap, and what is between them is a hole.
//!
//! Invariant: every extent ends at or before the file's size, and the file's `allocated` is the sum of their lengths.

pub(crate) mod filled;
pub(crate) mod frayed;

use crate::branch::Undecided;
use crate::change::Change;
use crate::key::{Key, Named};
use crate::tree::{Missing, Tree};
use std::ops::{Bound, ControlFlow};
use tenure_model::codec::Codec;
use tenure_model::limits::INLINE_LEN_MAX;
use tenure_model::{Attr, Extent, Ino, Piece};

fn piece(key: &[u8], value: &[u8]) -> Piece {
    let Some(Named::Extent(_, offset)) = Named::parse(key) else {
        unreachable!("only extents lie between these keys")
    };
    Piece {
        offset,
        extent: Extent::parsed(value).expect("only valid extents are put"),
    }
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
    Piece {
        offset: from,
        extent: piece.extent.part(from - piece.offset, to - from),
    }
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
    pub(crate) fn clear(
        &mut self,
        ino: Ino,
        attr: &mut Attr,
        offset: u64,
        end: u64,
    ) -> Result<(), Undecided> {
        if offset == 0 && end >= attr.size {
            return self.clear_all(ino, attr);
        }
        let old = touching(&self.branch.tree, ino, offset, end)?;
        let new = uncovered(&old, &[(offset, end)]);
        self.replace(ino, attr, &old, new)
    }

    /// Makes a file one hole, whatever it holds, without looking at it.
    fn clear_all(&mut self, ino: Ino, attr: &mut Attr) -> Result<(), Undecided> {
        let (from, to) = (Key::extent(ino, 0), Key::extents_end(ino));
        if attr.allocated > 0 {
            // The pages at the two ends change; what lies between them is dropped unseen.
            self.branch.tree.get(&from, |_| ())?;
            self.branch.tree.get(&to, |_| ())?;
            self.edits.remove_range(&from, &to);
        }
        self.totals.bytes -= attr.allocated;
        attr.allocated = 0;
        Ok(())
    }

    /// Puts pieces, in rising order, over whatever is there. Counts in `attr`, which the caller puts.
    pub(crate) fn put_pieces(
        &mut self,
        ino: Ino,
        attr: &mut Attr,
        pieces: &[Piece],
    ) -> Result<(), Undecided> {
        let covered: Vec<_> = pieces.iter().map(|piece| (piece.offset, piece.end())).collect();
        self.put_over(ino, attr, &covered, pieces)
    }

    /// Lets the ranges `covered` of a file, in rising order, hold `pieces` and nothing else. Counts in `attr`, which
    /// the caller puts.
    pub(crate) fn put_over(
        &mut self,
        ino: Ino,
        attr: &mut Attr,
        covered: &[(u64, u64)],
        pieces: &[Piece],
    ) -> Result<(), Undecided> {
        let (Some((start, _)), Some((_, end))) = (covered.first(), covered.last()) else {
            return Ok(());
        };
        let old = near(&self.branch.tree, ino, *start, *end)?;
        let mut new = uncovered(&old, covered);
        new.extend_from_slice(pieces);
        new.sort_by_key(|piece| piece.offset);
        self.replace(ino, attr, &old, new)
    }

    /// Takes `start..end` out of a file and moves every byte behind it by `distance`. Counts in `attr`, which the
    /// caller puts.
    pub(crate) fn shift(
        &mut self,
        ino: Ino,
        attr: &mut Attr,
        (start, end): (u64, u64),
        distance: i64,
    ) -> Result<(), Undecided> {
        let old = near(&self.branch.tree, ino, start, u64::MAX)?;
        let mut new = Vec::with_capacity(old.len() + 1);
        for piece in &old {
            if piece.offset < start {
                new.push(part(piece, piece.offset, start));
            }
            if piece.end() > end {
                let mut moved = part(piece, end, u64::MAX);
                moved.offset = moved
                    .offset
                    .checked_add_signed(distance)
                    .expect("the caller checked the range");
                new.push(moved);
            }
        }
        self.replace(ino, attr, &old, new)
    }

    /// Lets a file have the extents `new` where it has `old`; both are in rising order.
    fn replace(
        &mut self,
        ino: Ino,
        attr: &mut Attr,
        old: &[Piece],
        new: Vec<Piece>,
    ) -> Result<(), Undecided> {
        let sum = |pieces: &[Piece]| pieces.iter().map(|piece| piece.extent.len()).sum::<u64>();
        let (freed, gained) = (sum(old), sum(&new));
        attr.allocated = attr.allocated + gained - freed;
        self.totals.bytes = self.totals.bytes + gained - freed;
        let new = joined(new);
        let find = |pieces: &[Piece], offset| pieces.binary_search_by_key(&offset, |piece| piece.offset);
        for piece in &new {
            if find(old, piece.offset).is_ok_and(|at| old[at] == *piece) {
                continue;
            }
            let key = Key::extent(ino, piece.offset);
            self.branch.tree.get(&key, |_| ())?;
            self.edits.put_value(&key, &piece.extent);
        }
        for piece in old {
            if find(&new, piece.offset).is_err() {
                self.edits.remove(&Key::extent(ino, piece.offset));
            }
        }
        Ok(())
    }
}

/// Returns the whole extents that touch `offset..end` or a byte beside it, so that what is put can join them.
fn near(tree: &Tree, ino: Ino, offset: u64, end: u64) -> Result<Vec<Piece>, Missing> {
    touching(tree, ino, offset.saturating_sub(1), end.saturating_add(1))
}

/// Returns what of `pieces` lies in none of the ranges; both are in rising order.
fn uncovered(pieces: &[Piece], mut ranges: &[(u64, u64)]) -> Vec<Piece> {
    let mut rest = Vec::with_capacity(pieces.len() + ranges.len());
    for piece in pieces {
        ranges = &ranges[ranges.partition_point(|(_, end)| *end <= piece.offset)..];
        let mut from = piece.offset;
        for (start, end) in ranges.iter().take_while(|(start, _)| *start < piece.end()) {
            if from < *start {
                rest.push(part(piece, from, *start));
            }
            from = *end;
        }
        if from < piece.end() {
            rest.push(part(piece, from, piece.end()));
        }
    }
    rest
}

/// Joins neighbours that are neighbours in one chunk as well, or that one record can hold.
fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let joins = |last: &mut Piece| last.end() == piece.offset && join(&mut last.extent, &piece.extent);
        if !joined.last_mut().is_some_and(joins) {
            joined.push(piece);
        }
    }
    joined
}

/// Lets an extent take in the one that follows it; tells whether it could.
fn join(extent: &mut Extent, next: &Extent) -> bool {
    match (extent, next) {
        (
            Extent::Chunk { at, start, len },
            Extent::Chunk {
                at: next_at,
                start: next,
                len: more,
            },
        ) if at == next_at && *start + *len == *next => {
            *len += more;
            true
        }
        (Extent::Inline(bytes), Extent::Inline(more)) if bytes.len() + more.len() <= INLINE_LEN_MAX => {
            *bytes = [&**bytes, &**more].concat().into();
            true
        }
        (Extent::Chunk { .. } | Extent::Inline(_), Extent::Chunk { .. } | Extent::Inline(_)) => false,
    }
}
