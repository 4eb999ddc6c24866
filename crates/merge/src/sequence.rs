//! Merges sequences of tokens: finds which runs only one side changed, and which both did.
//!
//! The runs are those of `git merge-file`: changes that overlap or touch are one, and it is a conflict unless both made the same of it.
//! How two sequences differ is found by Myers' algorithm with the heuristics of git (`imara-diff`).

pub(crate) use imara_diff::Token;
use imara_diff::{Algorithm, Diff, Hunk, NoSliderHeuristic};
use std::iter::Peekable;
use std::ops::Range;

/// Steps that are made to find out whether two sequences are near: some tenths of a second, and finding how they differ takes a few
/// times that.
const STEPS_MAX: usize = 1 << 27;
/// Changes from one sequence to the other up to which it is tried: that many ways are followed then, and each change follows all.
const WAYS_MAX: usize = 1 << 14;

/// A run of the merged sequence, and where it is in each of the three.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) by: By,
    pub(crate) base: Range<usize>,
    pub(crate) ours: Range<usize>,
    pub(crate) theirs: Range<usize>,
}

/// Who changed a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Nobody,
    Ours,
    Theirs,
    /// Both, and the same came of it.
    BothAlike,
    /// Both, and it is a conflict.
    Both,
}

/// Returns the runs of a merge, in order; none where a side has too little in common with the base to find out in bounded time.
pub(crate) fn merge(base: &[Token], ours: &[Token], theirs: &[Token]) -> Option<Vec<Run>> {
    if !is_near(base, ours) || !is_near(base, theirs) {
        return None;
    }
    let [our_hunks, their_hunks] = [ours, theirs].map(|side| hunks(base, side));
    let mut our_hunks = our_hunks.into_iter().peekable();
    let mut their_hunks = their_hunks.into_iter().peekable();
    let mut runs = Vec::new();
    // Where the last run ends.
    let mut at = Run {
        by: By::Nobody,
        base: 0..0,
        ours: 0..0,
        theirs: 0..0,
    };
    loop {
        let starts = [our_hunks.peek(), their_hunks.peek()].map(|hunk| hunk.map(|hunk| hunk.base.start));
        let Some(start) = starts.into_iter().flatten().min() else {
            break;
        };
        at = kept(&mut runs, &at, start - at.base.end);
        let cluster = cluster(start, &mut our_hunks, &mut their_hunks);
        let by = match (cluster.ours_changed, cluster.theirs_changed) {
            (true, false) => By::Ours,
            (false, true) => By::Theirs,
            (_, _) => By::Both,
        };
        let len = cluster.end - start;
        at = Run {
            by,
            base: start..cluster.end,
            ours: at.ours.end
                ..at.ours
                    .end
                    .saturating_add_signed(len as isize + cluster.ours_longer),
            theirs: at.theirs.end
                ..at.theirs
                    .end
                    .saturating_add_signed(len as isize + cluster.theirs_longer),
        };
        if by == By::Both && ours[at.ours.clone()] == theirs[at.theirs.clone()] {
            at.by = By::BothAlike;
        }
        runs.push(at.clone());
    }
    kept(&mut runs, &at, base.len() - at.base.end);
    Some(runs)
}

/// Puts `len` tokens that nobody changed behind `at`.
fn kept(runs: &mut Vec<Run>, at: &Run, len: usize) -> Run {
    let behind = |range: &Range<usize>| range.end..range.end + len;
    let run = Run {
        by: By::Nobody,
        base: behind(&at.base),
        ours: behind(&at.ours),
        theirs: behind(&at.theirs),
    };
    if len > 0 {
        runs.push(run.clone());
    }
    run
}

/// Changes that overlap or touch each other.
struct Cluster {
    /// Where it ends in the base.
    end: usize,
    ours_changed: bool,
    theirs_changed: bool,
    /// How many tokens more than the base the sides have in it.
    ours_longer: isize,
    theirs_longer: isize,
}

/// A change of one side.
struct Change {
    base: Range<usize>,
    longer: isize,
}

fn cluster<I: Iterator<Item = Change>>(
    start: usize,
    our_hunks: &mut Peekable<I>,
    their_hunks: &mut Peekable<I>,
) -> Cluster {
    let mut cluster = Cluster {
        end: start,
        ours_changed: false,
        theirs_changed: false,
        ours_longer: 0,
        theirs_longer: 0,
    };
    loop {
        if let Some(change) = our_hunks.next_if(|change| change.base.start <= cluster.end) {
            cluster.ours_changed = true;
            cluster.ours_longer += change.longer;
            cluster.end = cluster.end.max(change.base.end);
        } else if let Some(change) = their_hunks.next_if(|change| change.base.start <= cluster.end) {
            cluster.theirs_changed = true;
            cluster.theirs_longer += change.longer;
            cluster.end = cluster.end.max(change.base.end);
        } else {
            return cluster;
        }
    }
}

fn hunks(base: &[Token], side: &[Token]) -> Vec<Change> {
    let mut diff = Diff::default();
    // Only another algorithm asks how many tokens there are.
    diff.compute_with(Algorithm::Myers, base, side, 0);
    diff.postprocess_with(base, side, NoSliderHeuristic);
    let change = |hunk: Hunk| Change {
        base: hunk.before.start as usize..hunk.before.end as usize,
        longer: hunk.after.len() as isize - hunk.before.len() as isize,
    };
    diff.hunks().map(change).collect()
}

/// Returns whether two sequences differ so little that the way from one to the other is found in `STEPS_MAX` steps.
///
/// It goes the shortest ways forward and notes only how far they come (Myers, "An O(ND) Difference Algorithm and Its Variations"). What
/// the other has nowhere is no part of it: that costs nobody time.
fn is_near(base: &[Token], side: &[Token]) -> bool {
    let same_start = base.iter().zip(side).take_while(|(a, b)| a == b).count();
    let (base, side) = (&base[same_start..], &side[same_start..]);
    let same_end = base
        .iter()
        .rev()
        .zip(side.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let (base, side) = (&base[..base.len() - same_end], &side[..side.len() - same_end]);
    let [base, side] = [shared(base, side), shared(side, base)];
    // By diagonal, how far in the base the furthest way has come.
    let mut furthest = vec![0_usize; 2 * WAYS_MAX + 3];
    let mut steps = 0;
    for changes in 0..=WAYS_MAX {
        for diagonal in (WAYS_MAX + 1 - changes..=WAYS_MAX + 1 + changes).step_by(2) {
            let is_lowest = diagonal == WAYS_MAX + 1 - changes;
            let is_highest = diagonal == WAYS_MAX + 1 + changes;
            let down = furthest[diagonal + usize::from(!is_highest)];
            let mut x = if is_lowest || (!is_highest && furthest[diagonal - 1] < down) {
                down
            } else {
                furthest[diagonal - 1] + 1
            };
            // Never below zero: no way comes so far off without changes.
            let mut y = (x + WAYS_MAX + 1).saturating_sub(diagonal);
            while x < base.len() && y < side.len() && base[x] == side[y] {
                (x, y, steps) = (x + 1, y + 1, steps + 1);
            }
            furthest[diagonal] = x;
            steps += 1;
            if x >= base.len() && y >= side.len() {
                return true;
            }
        }
        if steps > STEPS_MAX {
            return false;
        }
    }
    false
}

/// Returns the tokens that the other sequence has too.
fn shared(tokens: &[Token], other: &[Token]) -> Vec<Token> {
    let last = other.iter().map(|token| token.0).max().unwrap_or_default();
    let mut is_there = vec![false; last as usize + 1];
    other.iter().for_each(|token| is_there[token.0 as usize] = true);
    let has = |token: &Token| is_there.get(token.0 as usize) == Some(&true);
    tokens.iter().copied().filter(has).collect()
}
