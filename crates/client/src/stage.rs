//! The stage: bytes that were written to files and are not settled as chunks yet.
//!
//! Invariant: of one file, the pieces never overlap each other, and they cover what is being settled below them.

use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;
use tenure_model::{ChunkPlace, Ino, Piece, Timestamp};

/// Pieces of one file by their offset; they do not overlap.
pub(crate) type Pieces = BTreeMap<u64, Bytes>;

/// Behind that nothing is staged.
const NEVER: (u64, Duration) = (u64::MAX, Duration::ZERO);

/// The staged bytes of all files.
#[derive(Default)]
pub(crate) struct Stage {
    files: HashMap<Ino, Staged>,
    bytes: u64,
    /// Bytes from which it is looked again what can be settled, after all that was staged could wait.
    look_at: u64,
}

/// Chunks that were placed for bytes that are still staged, without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) places: Vec<ChunkPlace>,
}

impl Ahead {
    /// Returns the first byte of the file that has its place.
    pub(crate) fn from(&self) -> u64 {
        self.pieces.first().map_or(0, |piece| piece.offset)
    }

    /// Returns the first byte of the file behind those that have their places.
    pub(crate) fn end(&self) -> u64 {
        self.pieces.last().map_or(0, Piece::end)
    }
}

/// The staged bytes of a file that are to be settled.
pub(crate) struct Taken {
    pub(crate) pieces: Pieces,
    /// Whether they came in the order of their offsets.
    pub(crate) is_in_order: bool,
    /// What of them has its place already.
    pub(crate) ahead: Option<Ahead>,
}

/// What of taken pieces stays staged when the others are settled.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) pieces: Pieces,
    /// What of them has its place already.
    pub(crate) ahead: Option<Ahead>,
}

/// The staged bytes of one file.
pub(crate) struct Staged {
    pieces: Pieces,
    settling: Pieces,
    /// Whether each piece came behind all others that were staged.
    is_in_order: bool,
    ahead: Option<Ahead>,
    /// When the last write was, unless a later `SetAttr` has said what the times are.
    pub(crate) time: Option<Timestamp>,
    /// When its oldest piece came.
    since: Duration,
    /// When its newest piece came.
    latest: Duration,
    /// What was taken to be settled: how far into the file that reached, and when that was. The last time, and the time before.
    taken: [(u64, Duration); 2],
}

impl Staged {
    /// Returns the first byte behind all that is staged.
    pub(crate) fn end(&self) -> u64 {
        let end = |pieces: &Pieces| {
            pieces
                .last_key_value()
                .map_or(0, |(at, bytes)| at + bytes.len() as u64)
        };
        end(&self.pieces).max(end(&self.settling))
    }

    /// Returns when its oldest piece came.
    pub(crate) fn since(&self) -> Duration {
        self.since
    }

    /// Returns how many bytes are staged.
    pub(crate) fn len(&self) -> u64 {
        sum(&self.pieces) + sum(&self.settling)
    }

    /// Visits the staged parts of `offset..end`; a later part covers an earlier one.
    pub(crate) fn visit(&self, offset: u64, end: u64, mut visit: impl FnMut(u64, Bytes)) {
        for pieces in [&self.settling, &self.pieces] {
            let first = pieces.range(..=offset).next_back().map_or(offset, |(at, _)| *at);
            for (at, bytes) in pieces.range(first..end) {
                let (from, to) = (offset.max(*at), end.min(at + bytes.len() as u64));
                if from < to {
                    visit(from, bytes.slice((from - at) as usize..(to - at) as usize));
                }
            }
        }
    }

    /// Tells whether some of it is being settled right now.
    pub(crate) fn is_settling(&self) -> bool {
        !self.settling.is_empty()
    }
}

impl Stage {
    /// Returns how many bytes are staged in all.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Tells whether so many bytes are staged that some should be settled, of which `limit` may stay.
    pub(crate) fn is_due(&self, limit: u64) -> bool {
        self.bytes >= limit.max(self.look_at)
    }

    /// Notes that all that is staged can wait, until there are so many bytes more.
    pub(crate) fn wait_for(&mut self, more: u64) {
        self.look_at = self.bytes + more;
    }

    /// Returns when the oldest staged piece came.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.files.values().map(|file| file.since).min()
    }

    /// Returns the staged bytes of a file.
    pub(crate) fn file(&self, ino: Ino) -> Option<&Staged> {
        self.files.get(&ino)
    }

    /// Returns the staged bytes of a file, to change its time.
    pub(crate) fn file_mut(&mut self, ino: Ino) -> Option<&mut Staged> {
        self.files.get_mut(&ino)
    }

    /// Returns the files that have staged bytes, those with the oldest first.
    pub(crate) fn files(&self) -> Vec<Ino> {
        let mut files: Vec<_> = self.files.iter().map(|(ino, file)| (file.since, *ino)).collect();
        files.sort_unstable();
        files.into_iter().map(|(_, ino)| ino).collect()
    }

    /// Returns so many files that were written last, or all.
    pub(crate) fn written_last(&self, count: usize) -> HashSet<Ino> {
        let mut files: Vec<_> = self.files.iter().map(|(ino, file)| (file.latest, *ino)).collect();
        if files.len() > count {
            files.select_nth_unstable_by(count, |one, other| other.cmp(one));
            files.truncate(count);
        }
        files.into_iter().map(|(_, ino)| ino).collect()
    }

    /// Stages bytes, over whatever was staged there.
    pub(crate) fn put(&mut self, ino: Ino, offset: u64, bytes: Bytes, time: Timestamp, now: Duration) {
        let file = self.files.entry(ino).or_insert_with(|| Staged {
            pieces: Pieces::new(),
            settling: Pieces::new(),
            is_in_order: true,
            ahead: None,
            time: None,
            since: now,
            latest: now,
            taken: [NEVER; 2],
        });
        (file.time, file.latest) = (Some(time), now);
        let end = offset + bytes.len() as u64;
        file.is_in_order &= offset >= file.end();
        file.ahead
            .take_if(|ahead| offset < ahead.end() && end > ahead.from());
        self.bytes += bytes.len() as u64;
        self.bytes -= make_way(&mut file.pieces, offset, end);
        file.pieces.insert(offset, bytes);
    }

    /// Takes a file's pieces to settle them; they stay visible until `settled` or `unsettle`.
    pub(crate) fn settle(&mut self, ino: Ino, now: Duration) -> Option<Taken> {
        let file = self.files.get_mut(&ino)?;
        file.taken = [(file.end(), now), file.taken[0]];
        debug_assert!(
            file.settling.is_empty(),
            "a file is settled by one thread at a time"
        );
        file.settling = std::mem::take(&mut file.pieces);
        Some(Taken {
            pieces: file.settling.clone(),
            is_in_order: std::mem::replace(&mut file.is_in_order, true),
            ahead: file.ahead.take(),
        })
    }

    /// Forgets what was being settled: it is in the tree now, but for `kept`, which goes below what came since.
    pub(crate) fn settled(&mut self, ino: Ino, kept: &Kept, now: Duration) {
        let Some(file) = self.files.get_mut(&ino) else {
            return;
        };
        self.look_at = 0;
        self.bytes -= sum(&file.settling);
        file.settling.clear();
        if kept.pieces.is_empty() {
            file.since = now;
        } else {
            // What lies behind all that was taken the time before came later.
            let [_, (end, before)] = file.taken;
            if kept.pieces.keys().next().is_some_and(|begin| *begin >= end) {
                file.since = file.since.max(before);
            }
            self.bytes += sum(&kept.pieces);
            let covered = put_below(file, kept.pieces.clone());
            self.bytes -= covered;
            file.ahead = kept.ahead.clone().filter(|_| covered == 0);
        }
        if file.pieces.is_empty() {
            self.files.remove(&ino);
        }
    }

    /// Puts back what could not be settled, below what came since.
    pub(crate) fn unsettle(&mut self, ino: Ino) {
        let Some(file) = self.files.get_mut(&ino) else {
            return;
        };
        let settling = std::mem::take(&mut file.settling);
        self.bytes -= put_below(file, settling);
        file.is_in_order = false;
    }

    /// Forgets all of a file that is not being settled.
    pub(crate) fn discard(&mut self, ino: Ino) {
        if let Some(file) = self.files.get_mut(&ino) {
            self.bytes -= sum(&file.pieces);
            file.pieces.clear();
            file.ahead = None;
            if file.settling.is_empty() {
                self.files.remove(&ino);
            }
        }
    }
}

fn sum(pieces: &Pieces) -> u64 {
    pieces.values().map(|bytes| bytes.len() as u64).sum()
}

/// Puts older pieces below those of a file, and returns how many bytes of them are covered.
fn put_below(file: &mut Staged, older: Pieces) -> u64 {
    let newer = std::mem::replace(&mut file.pieces, older);
    let mut covered = 0;
    for (offset, bytes) in newer {
        covered += make_way(&mut file.pieces, offset, offset + bytes.len() as u64);
        file.pieces.insert(offset, bytes);
    }
    covered
}

/// Takes `offset..end` out of `pieces` and returns how many bytes that were.
fn make_way(pieces: &mut Pieces, offset: u64, end: u64) -> u64 {
    // The usual write appends: nothing lies at or behind its beginning.
    if pieces
        .last_key_value()
        .is_none_or(|(at, bytes)| at + bytes.len() as u64 <= offset)
    {
        return 0;
    }
    let first = pieces.range(..=offset).next_back().map_or(offset, |(at, _)| *at);
    let touched: Vec<u64> = pieces.range(first..end).map(|(at, _)| *at).collect();
    let mut taken = 0;
    for at in touched {
        let bytes = pieces.remove(&at).expect("the key was just found");
        let (len, skip) = (bytes.len() as u64, offset.saturating_sub(at));
        if skip >= len {
            pieces.insert(at, bytes);
            continue;
        }
        if skip > 0 {
            pieces.insert(at, bytes.slice(..skip as usize));
        }
        let stop = (end - at).min(len);
        if stop < len {
            pieces.insert(end, bytes.slice(stop as usize..));
        }
        taken += stop - skip;
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(stage: &Stage, ino: Ino, len: usize) -> Vec<u8> {
        let mut out = vec![b'.'; len];
        if let Some(file) = stage.file(ino) {
            file.visit(0, len as u64, |at, bytes| {
                out[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
            });
        }
        out
    }

    fn put(stage: &mut Stage, offset: u64, text: &'static str) {
        let bytes = Bytes::from_static(text.as_bytes());
        stage.put(Ino(5), offset, bytes, Timestamp::default(), Duration::ZERO);
    }

    #[test]
    fn later_writes_cover_earlier_ones_piece_by_piece() {
        let mut stage = Stage::default();
        put(&mut stage, 0, "aaaaaaaa");
        put(&mut stage, 2, "bb");
        put(&mut stage, 7, "ccc");
        put(&mut stage, 1, "d");
        assert_eq!(contents(&stage, Ino(5), 12), b"adbbaaaccc..");
        assert_eq!(stage.bytes(), 10);
    }

    #[test]
    fn what_is_being_settled_stays_visible_below_what_is_written_meanwhile() {
        let mut stage = Stage::default();
        put(&mut stage, 0, "aaaa");
        let taken = stage.settle(Ino(5), Duration::ZERO).expect("the file is staged");
        assert_eq!(taken.pieces.len(), 1);
        put(&mut stage, 1, "b");
        assert_eq!(contents(&stage, Ino(5), 4), b"abaa");
        assert_eq!(stage.bytes(), 5);
        stage.settled(Ino(5), &Kept::default(), Duration::ZERO);
        assert_eq!(contents(&stage, Ino(5), 4), b".b..");
        assert_eq!(stage.bytes(), 1);
    }

    #[test]
    fn what_is_kept_when_the_rest_is_settled_stays_below_what_was_written_meanwhile() {
        let mut stage = Stage::default();
        put(&mut stage, 0, "aaaaaa");
        stage.settle(Ino(5), Duration::ZERO);
        put(&mut stage, 5, "bb");
        let kept = Kept {
            pieces: Pieces::from([(3, Bytes::from_static(b"aaa"))]),
            ahead: None,
        };
        stage.settled(Ino(5), &kept, Duration::from_secs(1));
        assert_eq!(contents(&stage, Ino(5), 8), b"...aabb.");
        assert_eq!(stage.bytes(), 4);
        assert_eq!(stage.oldest(), Some(Duration::ZERO));
    }

    #[test]
    fn what_is_kept_is_no_older_than_the_time_before_at_which_the_file_ended_there() {
        let mut stage = Stage::default();
        let second = Duration::from_secs;
        let kept = |begin| Kept {
            pieces: Pieces::from([(begin, Bytes::from_static(b"aa"))]),
            ahead: None,
        };
        let put = |stage: &mut Stage, offset, at| {
            let bytes = Bytes::from_static(b"aaaa");
            stage.put(Ino(5), offset, bytes, Timestamp::default(), second(at));
        };
        for (round, begin, since) in [(1, 2, 1), (2, 5, 1), (3, 11, 2), (4, 14, 3), (5, 10, 3)] {
            put(&mut stage, (round - 1) * 4, round);
            stage.settle(Ino(5), second(round));
            stage.settled(Ino(5), &kept(begin), second(round));
            assert_eq!(stage.oldest(), Some(second(since)), "{round}");
        }
    }

    #[test]
    fn what_was_placed_ahead_is_forgotten_once_it_is_written_over() {
        for (offset, is_known) in [(6, true), (5, false), (2, true), (3, false)] {
            let mut stage = Stage::default();
            put(&mut stage, 0, "aaaaaa");
            let taken = stage.settle(Ino(5), Duration::ZERO).expect("the file is staged");
            assert!(taken.is_in_order && taken.ahead.is_none());
            let extent = tenure_model::Extent::Inline(Box::from(*b"aaa"));
            let ahead = Ahead {
                pieces: vec![Piece { offset: 3, extent }],
                places: Vec::new(),
            };
            let kept = Kept {
                pieces: Pieces::from([(3, Bytes::from_static(b"aaa"))]),
                ahead: Some(ahead.clone()),
            };
            stage.settled(Ino(5), &kept, Duration::ZERO);
            put(&mut stage, offset, "b");
            let taken = stage.settle(Ino(5), Duration::ZERO).expect("the file is staged");
            assert_eq!(taken.ahead, is_known.then_some(ahead));
            assert_eq!(taken.is_in_order, offset >= 6);
        }
    }

    #[test]
    fn what_could_not_be_settled_comes_back_below_what_was_written_meanwhile() {
        let mut stage = Stage::default();
        put(&mut stage, 0, "aaaa");
        stage.settle(Ino(5), Duration::ZERO);
        put(&mut stage, 3, "bb");
        stage.unsettle(Ino(5));
        assert_eq!(contents(&stage, Ino(5), 5), b"aaabb");
        assert_eq!(stage.bytes(), 5);
        stage.discard(Ino(5));
        assert_eq!(stage.bytes(), 0);
        assert!(stage.file(Ino(5)).is_none());
    }
}
