//! Merges text by lines. A line is what it is with its end, so other line ends are other lines.

use crate::driver::is_text;
use crate::limits::{LINES_MAX, TEXT_LEN_MAX};
use crate::outcome::Why;
use crate::sequence::{self, By, Token};
use imara_diff::Interner;

/// Returns the merged text, or why there is none.
pub(crate) fn merge(base: Option<&[u8]>, ours: &[u8], theirs: &[u8]) -> Result<Vec<u8>, Why> {
    let base = base.ok_or(Why::NoBase)?;
    let texts = [base, ours, theirs];
    if texts.iter().any(|text| text.len() > TEXT_LEN_MAX) {
        return Err(Why::TooLong(TEXT_LEN_MAX));
    }
    if !texts.iter().all(|text| is_text(text)) {
        return Err(Why::Binary);
    }
    let lines = texts.map(|text| text.split_inclusive(|byte| *byte == b'\n').collect::<Vec<_>>());
    if lines.iter().any(|lines| lines.len() > LINES_MAX) {
        return Err(Why::TooManyLines(LINES_MAX));
    }
    let mut known = Interner::new(lines[0].len());
    let [base_tokens, our_tokens, their_tokens] = lines.each_ref().map(|lines| {
        let tokens = lines.iter().map(|line| known.intern(*line));
        tokens.collect::<Vec<Token>>()
    });
    let runs = sequence::merge(&base_tokens, &our_tokens, &their_tokens).ok_or(Why::TooDifferent)?;
    let mut merged = Vec::with_capacity(ours.len());
    for run in runs {
        let taken = match run.by {
            By::Nobody | By::Ours | By::BothAlike => &lines[1][run.ours],
            By::Theirs => &lines[2][run.theirs],
            By::Both => return Err(Why::Lines(run.ours.start + 1)),
        };
        taken.iter().for_each(|line| merged.extend_from_slice(line));
    }
    Ok(merged)
}
