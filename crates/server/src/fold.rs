//! Folding: every page and a manifest are written, so that older segments of the journal may go.
//!
//! It works on a snapshot, so holders go on shipping meanwhile. Invariant: a manifest names only sealed packs, and the
//! state behind its root is the one right after the record at its place in the order.

use crate::drive::Inner;
use crate::outset::row_pages;
use crate::state::{Folded, FoldedEdge, State};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tenure_core::Tree;
use tenure_journal::{Journal, Position};
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_varint};
use tenure_model::{Address, Failure, PackNumber, Seq};
use tenure_store::pack::PackName;
use tenure_wire::Error;

/// A drive at a place in its order.
struct Snapshot {
    state: State,
    /// Bytes of records up to there since the manifest before.
    bytes: u64,
    seq: Seq,
    /// Segments that were begun up to there.
    segments: u64,
    journal: Arc<Journal>,
}

impl Inner {
    /// Writes every page and a manifest, unless the newest manifest says it all.
    pub(crate) fn fold(&self) -> Result<(), Error> {
        let mut last = self.folding.lock();
        let mut snapshot = self.snapshot()?;
        if *last == Some(snapshot.seq) {
            return Ok(());
        }
        let at = self.place_of(&snapshot)?;
        let folded = self.fold_lines(&snapshot.state)?;
        let edges = self.fold_edges(&snapshot.state)?;
        self.filling.seal_chunks()?;
        let (root, packs) = self.fold_rows(&mut snapshot.state, (&folded, &edges))?;
        let journal = &snapshot.journal;
        journal.publish(&journal.manifest(at, Some(root), RowPacks(packs).written()))?;
        *last = Some(snapshot.seq);
        self.work.note_folded(snapshot.segments);
        self.unfolded.fetch_sub(snapshot.bytes, Ordering::Relaxed);
        self.with(|live| {
            live.state.note_folded(&folded);
            edges.iter().for_each(|edge| live.state.put_edge_root(*edge));
            Ok(())
        })
    }

    /// Writes a tree's pages into packs that are sealed when it returns.
    pub(crate) fn store_pages(&self, tree: &Tree) -> Result<Address, Error> {
        if let Some(at) = tree.address() {
            return Ok(at);
        }
        let _alone = self.folding.lock();
        let at = tree.fold(&mut |page| self.filling.put_page(page))?;
        self.filling.seal_pages()?;
        Ok(at)
    }

    /// Writes the pages of every branch that nobody holds.
    pub(crate) fn store_unheld(&self) -> Result<(), Error> {
        let unheld = self.with(|live| {
            let open = live.state.open().iter();
            let state = &live.state;
            let unheld = open.filter(|(id, _)| state.grant(**id).is_none() && state.sharing(**id).is_none());
            Ok(unheld.map(|(_, open)| open.branch.clone()).collect::<Vec<_>>())
        })?;
        unheld
            .iter()
            .try_for_each(|branch| self.store_pages(branch.tree()).map(drop))
    }

    fn snapshot(&self) -> Result<Snapshot, Error> {
        self.with(|live| {
            let journal = live.journal()?.clone();
            let seq = journal.last();
            self.places.want(seq);
            Ok(Snapshot {
                state: live.state.clone(),
                bytes: self.unfolded.load(Ordering::Relaxed),
                seq,
                segments: journal.segments(),
                journal,
            })
        })
    }

    fn place_of(&self, snapshot: &Snapshot) -> Result<Position, Error> {
        self.commit_through(&snapshot.journal, snapshot.seq)?;
        Ok(self
            .places
            .found()
            .expect("a record that is durable has told its place"))
    }

    fn fold_lines(&self, state: &State) -> Result<Vec<Folded>, Error> {
        let mut folded = Vec::with_capacity(state.open().len());
        for (line, open) in state.open() {
            let root = open.branch.tree().fold(&mut |page| self.filling.put_page(page))?;
            folded.push(Folded {
                line: *line,
                version: open.version,
                root,
                totals: open.branch.totals(),
            });
        }
        Ok(folded)
    }

    /// Writes the states that other lines were when lines began.
    fn fold_edges(&self, state: &State) -> Result<Vec<FoldedEdge>, Error> {
        let mut folded = Vec::new();
        for (edge, branch) in state.unfolded_edges() {
            let root = branch.tree().fold(&mut |page| self.filling.put_page(page))?;
            folded.push((edge, root));
        }
        Ok(folded)
    }

    /// Writes the rows; returns their root and the packs that they lie in.
    fn fold_rows(
        &self,
        state: &mut State,
        (folded, edges): (&[Folded], &[FoldedEdge]),
    ) -> Result<(Address, Vec<PackName>), Error> {
        folded.iter().for_each(|one| state.put_root(one));
        edges.iter().for_each(|edge| state.put_edge_root(*edge));
        state.put_packs(&self.packs.table());
        state.put_recent();
        let root = state.rows().fold(&mut |page| self.filling.put_page(page))?;
        self.filling.seal_pages()?;
        let numbers: BTreeSet<PackNumber> = row_pages(state).iter().map(|at| at.pack).collect();
        let table = self.packs.table().into_iter();
        let packs: Vec<_> = table.filter(|pack| numbers.contains(&pack.number)).collect();
        let there: BTreeSet<_> = packs.iter().map(|pack| pack.number).collect();
        // The manifests before are better than one that leads nowhere.
        if let Some(lost) = numbers.difference(&there).next() {
            return Err(Failure::Corrupt(format!(
                "drives/{}/packs: there is no pack {lost}, and the drive's own state is in it: nothing is folded, and the journal is kept",
                self.name
            ))
            .into());
        }
        Ok((root, packs))
    }
}

/// What a manifest says besides the root: the packs in which the rows' pages lie, so that they can be read before
/// the pack table among them is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowPacks(pub(crate) Vec<PackName>);

const VERSION: u8 = 1;

impl Codec for RowPacks {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        put_varint(out, self.0.len() as u64);
        for pack in &self.0 {
            put_varint(out, pack.number.0);
            out.extend_from_slice(&pack.tag);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        if input.byte()? != VERSION {
            return Err(malformed("manifest: its state is of another version"));
        }
        let count: usize = input.number()?;
        // Each takes nine bytes at least, so a count beyond what is left is a lie.
        if count > input.remaining() / 9 {
            return Err(malformed("manifest"));
        }
        let pack = |_| {
            let number = PackNumber(input.varint()?);
            Ok(PackName {
                number,
                tag: input.take(8)?.try_into().expect("8 bytes were taken"),
            })
        };
        (0..count).map(pack).collect::<Result<_, _>>().map(Self)
    }
}

/// Says that a stored page or manifest of the drive's own state is none.
pub(crate) fn not_a_state(error: &Malformed) -> Failure {
    Failure::Corrupt(format!("the drive's own state: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packs_of_the_rows_are_written_as_ever() {
        let packs = RowPacks(vec![
            PackName {
                number: PackNumber(1 << 24 | 2),
                tag: [1; 8],
            },
            PackName {
                number: PackNumber(2 << 24 | 1),
                tag: [0xfe; 8],
            },
        ]);
        let bytes = packs.written();
        let golden = include_str!("../tests/golden/row_packs.hex");
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, golden.trim());
        assert_eq!(RowPacks::parsed(&bytes), Ok(packs));
        assert!((0..bytes.len()).all(|len| RowPacks::parsed(&bytes[..len]).is_err()));
    }
}
