//! Chunks in groups: as many as one message carries.
//!
//! Invariant: none is left out, and their order is kept.

use crate::owner::Chunk;

/// Bytes of chunks in one message: a chunk is never longer, and a small one need not wait for much.
const PLACE_BYTES_MAX: usize = tenure_model::limits::CHUNK_LEN_MAX;
/// Chunks in one message: the kernel takes at most 1024 pieces at once (`IOV_MAX`).
const PLACE_CHUNKS_MAX: usize = 256;

/// Divides chunks into messages.
pub(super) fn groups<'a, 'b>(chunks: &'b [Chunk<'a>]) -> impl Iterator<Item = &'b [Chunk<'a>]> {
    let mut rest = chunks;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |chunk: &&Chunk<'_>| {
            bytes += chunk.bytes.len();
            bytes <= PLACE_BYTES_MAX
        };
        let count = rest
            .iter()
            .take(PLACE_CHUNKS_MAX)
            .take_while(fits)
            .count()
            .max(1)
            .min(rest.len());
        let (group, behind) = rest.split_at(count);
        rest = behind;
        (!group.is_empty()).then_some(group)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_model::Digest;

    #[test]
    fn chunks_are_divided_by_bytes_and_by_number_and_none_is_left_out() {
        let bytes = vec![7; PLACE_BYTES_MAX];
        let chunk = |len: usize| Chunk {
            digest: Digest::of(&[]),
            bytes: &bytes[..len],
        };
        let sizes = |chunks: &[Chunk<'_>]| groups(chunks).map(<[_]>::len).collect::<Vec<_>>();
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&[chunk(PLACE_BYTES_MAX)]), [1]);
        assert_eq!(sizes(&[chunk(PLACE_BYTES_MAX - 1), chunk(1), chunk(1)]), [2, 1]);
        assert_eq!(sizes(&[chunk(1), chunk(PLACE_BYTES_MAX), chunk(1)]), [1, 1, 1]);
        assert_eq!(sizes(&vec![chunk(1); 600]), [256, 256, 88]);
    }
}
