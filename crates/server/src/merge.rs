//! Merges: what two lines have become of what both were is found outside the state's lock, and a branch becomes that by a turn.
//!
//! Contents that both have changed are read here and given to drivers; what they make is placed as any content is. Invariant: what is
//! merged is one state of the other line, and the base is one that both lines have.

mod drivers;

use crate::drive::Inner;
use crate::order::Live;
use crate::state::permit::because;
use crate::turn::{Before, Goal};
use drivers::{Contents, Named, driven};
use std::collections::BTreeSet;
use tenure_core::{Both, Branch, Conflicts, Merge, Merged, Settled, Terms};
use tenure_model::limits::{CHUNK_LEN_MAX, INLINE_LEN_MAX, MERGED_FILE_LEN_MAX, MERGED_INODES_MAX};
use tenure_model::{
    BranchId, Digest, Extent, FileOutcome, Ino, Past, Piece, Refusal, Root, Seq, Stretch, What, Why,
};
use tenure_wire::{Chunk, Error, MergeAsk, MergeTold, Standing, Standings, Unsettled, Who};

/// Bytes of what is told of files at once, about; it fits a message.
const TOLD_LEN_MAX: usize = 8 << 20;
/// Bytes that are told of a file besides its path, about.
const TOLD_LEN: usize = 16;

/// What is merged: a state of the other line, and what both have become of.
pub(crate) struct Other {
    stretch: Stretch,
    at: Seq,
    pub(crate) branch: Branch,
    pub(crate) base: Branch,
}

impl Inner {
    pub(crate) fn merge(&self, who: &Who, ask: &MergeAsk) -> Result<MergeTold, Error> {
        let into = self.with(|live| live.to_merge(ask))?;
        if ask.is_dry {
            let before = self.state_of(ask.into.as_str())?;
            let (_, merged) = self.merged(ask, into, (&before, Ino(u64::MAX >> 1)))?;
            return Ok(told(merged.files, merged.conflicts, None));
        }
        let mut found = (Vec::new(), 0);
        let turned = self.turn(who, &ask.into, "merge", |before| {
            let Before { branch, next_ino, .. } = before;
            let (other, merged) = self.merged(ask, into, (branch, *next_ino))?;
            let root = self.root_of(&merged.branch)?;
            found = (merged.files, merged.conflicts);
            if root.page.digest == self.root_of(branch)?.page.digest && merged.inos == 0 {
                return Ok(None);
            }
            Ok(Some(Goal {
                branch: merged.branch,
                inos: merged.inos,
                why: Why::Merged {
                    from: ask.from.clone(),
                    past: self.past(&other)?,
                },
            }))
        })?;
        let (files, conflicts) = found;
        Ok(told(files, conflicts, turned.map(|turned| turned.before)))
    }

    pub(crate) fn past(&self, other: &Other) -> Result<Past, Error> {
        let Root { page, inodes, bytes } = self.root_of(&other.branch)?;
        Ok(Past {
            stretch: other.stretch,
            at: other.at,
            root: Root { page, inodes, bytes },
        })
    }

    /// Returns what a branch becomes with what another line has made of what both were.
    fn merged(
        &self,
        ask: &MergeAsk,
        into: BranchId,
        (ours, next): (&Branch, Ino),
    ) -> Result<(Other, Merged), Error> {
        let other = self.other(ask, into)?;
        let carried = match ask.unsettled {
            Unsettled::Refused => self.refuse_unsettled(&ask.from, &other, &[]).map(|()| 0)?,
            Unsettled::Taken => self.unsettled_of(&other)?.len() as u64,
        };
        let mut merged = self.merged_with(ask, &other, (ours, next))?;
        merged.conflicts += carried;
        Ok((other, merged))
    }

    /// As `merged`, with what is given of the other line.
    pub(crate) fn merged_with(
        &self,
        ask: &MergeAsk,
        other: &Other,
        (ours, next): (&Branch, Ino),
    ) -> Result<Merged, Error> {
        let terms = Terms {
            from: ask.from.clone(),
            next,
            time: self.options.clock.now(),
        };
        let mut merge = Merge::new(other.base.clone(), ours.clone(), other.branch.clone(), terms);
        self.loader.ask(|| merge.compare(MERGED_INODES_MAX))?;
        if merge.touched() > MERGED_INODES_MAX {
            let why = format!(
                "{} has changed more than {MERGED_INODES_MAX} files since it was what {} is; take what is needed of it by hand",
                ask.from, ask.into
            );
            return Err(because(&why).into());
        }
        self.loader.ask(|| merge.judge())?;
        let (mut is_placed, mut named) = (false, Named::default());
        while let Some(both) = self.loader.ask(|| merge.next_both())? {
            let settled = self.settled(&both, [&other.base, ours, &other.branch], &mut named)?;
            is_placed |= matches!(settled, Settled::Merged { .. });
            self.loader.ask(|| merge.settle(&settled))?;
        }
        self.loader.ask(|| merge.finish())?;
        if is_placed {
            // No record says where they are.
            self.filling.seal_chunks()?;
        }
        self.work_on_pages();
        Ok(merge.answer())
    }

    /// Returns what is merged, as it is now.
    pub(crate) fn other(&self, ask: &MergeAsk, into: BranchId) -> Result<Other, Error> {
        let given = ask.base.as_ref().map(|base| self.state_of(base)).transpose()?;
        let (line, _) = self.with(|live| live.named(&ask.from))?;
        self.gathered(line)?;
        self.with(|live| {
            let open = live.state.opened(line);
            let open = open.ok_or_else(|| because("it was deleted just now"))?;
            let base = given.clone().or_else(|| live.state.common(into, line));
            let unknown = || {
                because(&format!(
                    "the drive does not know what {0} and {1} have both become of, because an earlier version has forked them; name that by \
                     `--base CHECKPOINT`, or fork {1} again and put there what {0} has changed",
                    ask.from, ask.into
                ))
            };
            Ok(Other {
                stretch: live.state.stretch(line),
                at: live.journal()?.last(),
                branch: open.branch,
                base: base.ok_or_else(unknown)?,
            })
        })
    }

    /// Returns what becomes of a file that both sides have changed.
    fn settled(
        &self,
        both: &Both,
        [base, ours, theirs]: [&Branch; 3],
        named: &mut Named,
    ) -> Result<Settled, Error> {
        let (Some(here), Some(there)) = (
            self.whole_file(ours, both.ours)?,
            self.whole_file(theirs, both.theirs)?,
        ) else {
            return Ok(Settled::Conflict);
        };
        let before = match both.base {
            Some(ino) => self.whole_file(base, ino)?,
            None => None,
        };
        let attributes = self.attributes(named, ours, &both.path)?;
        let contents = Contents {
            base: before.as_deref(),
            ours: &here,
            theirs: &there,
        };
        match driven(&both.path, &attributes, &contents) {
            None => Ok(Settled::Conflict),
            Some((driver, bytes)) => Ok(Settled::Merged {
                driver,
                pieces: self.pieces_of(&bytes)?,
                size: bytes.len() as u64,
            }),
        }
    }

    /// Returns a file's bytes, unless they are too many for a driver.
    fn whole_file(&self, branch: &Branch, ino: Ino) -> Result<Option<Vec<u8>>, Error> {
        let attr = self.loader.ask(|| branch.attr(ino))?;
        let size = attr.map_or(0, |attr| attr.size);
        if size > MERGED_FILE_LEN_MAX {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(size as usize);
        while (bytes.len() as u64) < size {
            let part = self.bytes_of(branch, ino, (bytes.len() as u64, CHUNK_LEN_MAX as u32))?;
            if part.is_empty() {
                return Err(Refusal::NotFound.into());
            }
            bytes.extend(part);
        }
        Ok(Some(bytes))
    }

    /// Gives bytes their places in a pack.
    pub(crate) fn pieces_of(&self, bytes: &[u8]) -> Result<Vec<Piece>, Error> {
        let mut pieces = Vec::new();
        for chunk in bytes.chunks(CHUNK_LEN_MAX) {
            let offset = pieces.last().map_or(0, Piece::end);
            let extent = if chunk.len() <= INLINE_LEN_MAX {
                Extent::Inline(chunk.into())
            } else {
                let chunk = Chunk {
                    digest: Digest::of(chunk),
                    bytes: chunk,
                };
                let placed = self.place_claimed(&[chunk], |places| self.holds.touch(places));
                let place = &placed?.0[0];
                Extent::Chunk {
                    at: place.at,
                    start: 0,
                    len: place.len,
                }
            };
            pieces.push(Piece { offset, extent });
        }
        self.work_on_full_packs();
        Ok(pieces)
    }

    /// Refuses what has conflicts that it had not when both lines were one, at or below some paths, or anywhere where none is named.
    pub(crate) fn refuse_unsettled(
        &self,
        from: &str,
        other: &Other,
        paths: &[Box<[u8]>],
    ) -> Result<(), Error> {
        let is_named = |one: &tenure_core::Standing| {
            let sides = [&one.ours, &one.theirs].into_iter().flatten();
            paths.is_empty()
                || sides
                    .into_iter()
                    .any(|side| paths.iter().any(|path| is_below(side, path)))
        };
        let unsettled = self.unsettled_of(other)?;
        let count = unsettled.iter().filter(|one| is_named(one)).count() as u64;
        if count == 0 {
            return Ok(());
        }
        let why = format!(
            "{from} has {} that nobody has settled; `tenure conflicts DRIVE@{from}` shows them, `tenure resolve` settles them",
            tenure_model::counted(count, "conflict")
        );
        Err(because(&why).into())
    }

    /// Returns the conflicts that a line has and had not when both lines were one.
    fn unsettled_of(&self, other: &Other) -> Result<Vec<tenure_core::Standing>, Error> {
        let before: BTreeSet<Ino> = self.standing(&other.base)?.iter().map(|one| one.number).collect();
        let mut after = self.standing(&other.branch)?;
        after.retain(|one| !before.contains(&one.number));
        Ok(after)
    }

    /// Returns every conflict that stands in a branch.
    pub(crate) fn standing(&self, branch: &Branch) -> Result<Vec<tenure_core::Standing>, Error> {
        let (mut all, mut behind) = (Vec::new(), Some(Ino(0)));
        while let Some(number) = behind {
            let mut conflicts = Conflicts::new(branch.clone(), number);
            self.loader.ask(|| conflicts.go_on())?;
            let (found, next) = conflicts.answer();
            all.extend(found);
            behind = next;
        }
        Ok(all)
    }

    pub(crate) fn conflicts(&self, name: &str, behind: Ino) -> Result<Standings, Error> {
        let mut conflicts = Conflicts::new(self.state_of(name)?, behind);
        self.loader.ask(|| conflicts.go_on())?;
        self.work_on_pages();
        let (found, behind) = conflicts.answer();
        let standing = |one: tenure_core::Standing| Standing {
            number: one.number,
            conflict: one.conflict,
            ours: one.ours,
            theirs: one.theirs,
        };
        Ok(Standings {
            found: found.into_iter().map(standing).collect(),
            behind,
        })
    }
}

impl Live {
    /// Returns the branch into which something is to be merged.
    fn to_merge(&self, ask: &MergeAsk) -> Result<BranchId, Error> {
        let (from, _) = self.named(&ask.from)?;
        let (into, line) = self.named(ask.into.as_str())?;
        if from == into {
            return Err(because(&format!(
                "{} is merged into another branch, not into itself",
                ask.from
            ))
            .into());
        }
        if !line.kind.is_branch() {
            let why = format!("{} is a checkpoint and never changes; fork it", ask.into);
            return Err(because(&why).into());
        }
        Ok(into)
    }
}

/// Tells whether a path is another, or below it.
fn is_below(path: &[u8], above: &[u8]) -> bool {
    let rest = path.strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Tells what has become of files, conflicts first, as many as fit.
pub(crate) fn told(mut files: Vec<FileOutcome>, conflicts: u64, before: Option<String>) -> MergeTold {
    let rank = |file: &FileOutcome| match file.what {
        What::Conflicted(_) => 0,
        What::Merged(_) => 1,
        What::Taken | What::Removed => 2,
    };
    files.sort_by(|one, other| (rank(one), &one.path).cmp(&(rank(other), &other.path)));
    let mut len = 0;
    let fits = |file: &&FileOutcome| {
        len += file.path.len() + TOLD_LEN;
        len <= TOLD_LEN_MAX
    };
    let count = files.iter().take_while(fits).count();
    let more = (files.len() - count) as u64;
    files.truncate(count);
    MergeTold {
        before,
        files,
        more,
        conflicts,
    }
}
