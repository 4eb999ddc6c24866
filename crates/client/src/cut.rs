//! Where contents are cut into chunks: behind bytes that look a certain way, so that a file with bytes put in at its
//! front is cut as before behind them, and shares its chunks with what it was.
//!
//! FastCDC (Xia et al., USENIX ATC 2016) in its version of 2020. Nobody needs the cuts to read a file. Invariant: equal
//! bytes are cut equally, in every version of this program; else files stop sharing with what was stored before.

use fastcdc::v2020::FastCDC;
use tenure_model::limits::CHUNK_LEN_MAX;

/// Bytes of the shortest chunk that is cut off: what is skipped costs nothing, and cuts are found again as soon as with
/// an eighth of it.
const LEN_MIN: usize = CHUNK_LEN_MAX / 16 * 7;
/// Bytes that chunks have about: what one changed byte costs, against extents and digests for each.
const LEN_MEAN: usize = CHUNK_LEN_MAX / 2;

/// Bytes that are enough to cut at a time: a few chunks, and few enough to stay in a processor's cache until they are hashed
/// and copied.
pub(crate) const WINDOW: usize = 4 * CHUNK_LEN_MAX;

/// Returns where the chunks of `bytes` end. What one chunk can hold is not cut.
///
/// Where other bytes follow, `bytes` are at least a [`WINDOW`], and the last chunk is left out: they decide where it ends.
pub(crate) fn ends(bytes: &[u8], others_follow: bool) -> Vec<usize> {
    if bytes.len() <= CHUNK_LEN_MAX {
        return vec![bytes.len()];
    }
    let chunks = FastCDC::new(bytes, LEN_MIN, LEN_MEAN, CHUNK_LEN_MAX);
    let mut ends: Vec<_> = chunks.map(|chunk| chunk.offset + chunk.length).collect();
    if others_follow {
        ends.pop();
    }
    ends
}

/// Returns the parts of `bytes` that have these ends, each with its place in the file, where `bytes` begin at `offset`.
pub(crate) fn parts<'a>(offset: u64, bytes: &'a [u8], ends: &[usize]) -> Vec<(u64, &'a [u8])> {
    let begins = std::iter::once(0).chain(ends.iter().copied());
    let part = |(begin, end): (usize, &usize)| (offset + begin as u64, &bytes[begin..*end]);
    begins.zip(ends).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn content(len: usize) -> Vec<u8> {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn chunks_end_where_they_have_always_ended() {
        let always = [
            538_827, 1_103_629, 1_610_249, 2_658_825, 3_254_435, 3_802_077, 4_407_696, 4_984_798, 5_242_880,
        ];
        assert_eq!(ends(&content(5 << 20), false), always);
    }

    #[test]
    fn what_fits_one_chunk_is_not_cut_and_equal_bytes_are_cut_at_the_greatest_length() {
        assert_eq!(ends(&content(CHUNK_LEN_MAX), false), [CHUNK_LEN_MAX]);
        assert_eq!(
            ends(&[0; 2 * CHUNK_LEN_MAX + 7], false),
            [CHUNK_LEN_MAX, 2 * CHUNK_LEN_MAX, 2 * CHUNK_LEN_MAX + 7]
        );
    }

    #[test]
    fn bytes_at_the_front_move_the_ends_and_change_few() {
        let old = content(64 << 20);
        let new = [&b"some bytes"[..], &old].concat();
        let old: BTreeSet<_> = ends(&old, false).into_iter().map(|end| end + 10).collect();
        let new: BTreeSet<_> = ends(&new, false).into_iter().collect();
        assert!(new.difference(&old).count() <= 3, "{old:?} {new:?}");
    }

    #[test]
    fn what_is_cut_window_by_window_is_cut_as_the_whole() {
        let whole = content(33 << 20);
        let (mut at, mut cut) = (0, Vec::new());
        while at < whole.len() {
            let end = whole.len().min(at + WINDOW);
            let ends = ends(&whole[at..end], end < whole.len());
            cut.extend(ends.iter().map(|end| at + end));
            at = *cut.last().expect("a window has more than one chunk");
        }
        assert_eq!(cut, ends(&whole, false));
    }
}
