//! Merges files to whose end both sides appended: what ours has behind the base, then what theirs has.
//!
//! It is none of a file of which anything else changed. Lines with which both began to append are there once.

use crate::limits::TEXT_LEN_MAX;

/// Returns the union, or why it is none.
pub(crate) fn merge(base: Option<&[u8]>, ours: &[u8], theirs: &[u8]) -> Result<Vec<u8>, &'static str> {
    if ours.len() > TEXT_LEN_MAX || theirs.len() > TEXT_LEN_MAX {
        return Err("a side has more than 16 MiB");
    }
    let base = base.unwrap_or_default();
    if !base.is_empty() && !base.ends_with(b"\n") {
        return Err("its last line was not ended when both went on");
    }
    let (Some(our_added), Some(their_added)) = (ours.strip_prefix(base), theirs.strip_prefix(base)) else {
        return Err("a side did more than append");
    };
    let shared = shared_lines(our_added, their_added);
    let mut content = ours.to_vec();
    let theirs_alone = &their_added[shared..];
    if !theirs_alone.is_empty() && !content.is_empty() && !content.ends_with(b"\n") {
        let ending: &[u8] = if content.contains(&b'\r') { b"\r\n" } else { b"\n" };
        content.extend_from_slice(ending);
    }
    content.extend_from_slice(theirs_alone);
    Ok(content)
}

/// Returns the bytes of whole lines with which both begin.
fn shared_lines(one: &[u8], other: &[u8]) -> usize {
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    // All of one that ends within a line of the other is a line of its own.
    let is_whole = same == one.len() && same == other.len();
    let ended = one[..same].iter().rposition(|byte| *byte == b'\n');
    if is_whole {
        same
    } else {
        ended.map_or(0, |at| at + 1)
    }
}
