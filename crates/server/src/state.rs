//! The drive's own state: branches, checkpoints, sessions, grants, numbers and packs, as rows of a tree; beside them the
//! branches that are in memory.
//!
//! A record is first held against [`State::permits`], then [`State::apply`] makes the change and cannot fail. Replay
//! does the same in a loop. Nothing here does I/O: the rows are all in memory, and what needs pages of a branch
//! (`crate::decide`) comes in as the branch that a record makes.
//!
//! Invariant: a line without a branch in memory has a root in its row.

mod ancestry;
mod apply;
mod changed;
mod condemned;
pub(crate) mod permit;
mod recent;
mod row;
pub(crate) mod sharing;

use ancestry::Ancestry;
pub(crate) use ancestry::FoldedEdge;
pub(crate) use changed::News;
pub(crate) use condemned::object;
use row::{GRANTS, KEYS, LINES, MARKS, NAMES, PACKS, SESSIONS, number_of};
pub(crate) use row::{Grant, Head, Keyed, Line, LineKind, Session};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::time::Duration;
use tenure_core::tree::Memory;
use tenure_core::{Branch, Totals, Tree};
use tenure_model::codec::{Codec, Malformed, malformed, put_bytes, put_option, put_varint};
use tenure_model::record::{Plan, Source};
use tenure_model::{
    Address, Batch, BranchId, Digest, Mark, Marking, PackNumber, Record, RequestKey, Seq, SessionId,
};
use tenure_store::pack::PackName;

/// What a drive is, but for the contents of its packs.
#[derive(Clone)]
pub(crate) struct State {
    rows: Tree,
    open: BTreeMap<BranchId, Open>,
    memory: Memory,
    changes: u64,
    recent: recent::OfBranches,
    shared: sharing::OfBranches,
    ancestry: Ancestry,
    /// The record that is applied, or was last.
    applied: Seq,
    changed: changed::Branches,
}

/// A branch in memory.
#[derive(Clone)]
pub(crate) struct Open {
    /// The branch.
    pub(crate) branch: Branch,
    /// Rises whenever the branch becomes another: two of one number are the same.
    pub(crate) version: u64,
}

/// What a record makes of a branch's content, where it makes something of it.
pub(crate) enum After {
    /// The branch is this from then on.
    Branch(Branch),
    /// No branch has other content.
    Same,
}

impl State {
    /// Returns the state of a drive that has not begun. Pages of branches are counted in `memory`.
    pub(crate) fn new(memory: Memory) -> Self {
        Self {
            rows: Tree::new(),
            open: BTreeMap::new(),
            memory,
            changes: 0,
            recent: BTreeMap::new(),
            shared: BTreeMap::new(),
            ancestry: Ancestry::default(),
            applied: Seq(0),
            changed: changed::Branches::default(),
        }
    }

    /// Returns the state whose rows `rows` has, all in memory; refuses rows that are none.
    pub(crate) fn stored(rows: Tree, memory: Memory) -> Result<Self, Malformed> {
        let mut looked_at = Ok(());
        let look = |key: &[u8], value: &[u8]| {
            looked_at = row::leads_to(key, value).map(drop);
            if looked_at.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        rows.scan(Bound::Unbounded, Bound::Unbounded, look)
            .expect(ROWS_ARE_LOADED);
        looked_at?;
        let mut state = Self {
            rows,
            open: BTreeMap::new(),
            memory,
            changes: 0,
            recent: BTreeMap::new(),
            shared: BTreeMap::new(),
            ancestry: Ancestry::default(),
            applied: Seq(0),
            changed: changed::Branches::default(),
        };
        if state.head().is_none() {
            return Err(malformed("state: it has no head"));
        }
        let names = state.all::<u64, _>(NAMES, <[u8]>::to_vec);
        if names.iter().any(|(_, id)| state.line(BranchId(*id)).is_none()) {
            return Err(malformed("state: a name stands for nothing"));
        }
        let keys = state.all::<Keyed, _>(KEYS, <[u8]>::to_vec);
        if keys.iter().any(|(_, keyed)| state.line(keyed.line).is_none()) {
            return Err(malformed("state: a key of a request stands for nothing"));
        }
        state.take_recent();
        state.take_shared();
        state.take_ancestry();
        state.take_changed();
        Ok(state)
    }

    /// Returns the rows, to be folded.
    pub(crate) fn rows(&self) -> &Tree {
        &self.rows
    }

    /// Returns the trees to which rows that were stored lead; their pages may be missing.
    pub(crate) fn trees(&self) -> Vec<Branch> {
        let hash_key = self.begun().hash_key;
        let mut trees = Vec::new();
        let visit = |key: &[u8], value: &[u8]| {
            if let Some(root) = row::leads_to(key, value).expect(ROWS_ARE_VALID) {
                let tree = Tree::stored(root, &self.memory);
                trees.push(Branch::stored(hash_key, tree, Totals::default()));
            }
            ControlFlow::Continue(())
        };
        let scanned = self.rows.scan(Bound::Unbounded, Bound::Unbounded, visit);
        scanned.expect(ROWS_ARE_LOADED);
        trees
    }

    /// Returns what there is about the drive itself; none before it has begun.
    pub(crate) fn head(&self) -> Option<Head> {
        self.row(&row::head_key())
    }

    /// Returns the branch or checkpoint of a number.
    pub(crate) fn line(&self, id: BranchId) -> Option<Line> {
        self.row(&row::line_key(id))
    }

    /// Returns the branch or checkpoint of a name.
    pub(crate) fn named(&self, name: &str) -> Option<(BranchId, Line)> {
        let id = BranchId(self.row(&row::name_key(name))?);
        Some((id, self.line(id).expect("a name stands for a line")))
    }

    /// Returns what was made by the request with a key, and the digest of what that asked for.
    pub(crate) fn keyed(&self, key: &RequestKey) -> Option<(Line, Keyed)> {
        let keyed: Keyed = self.row(&row::request_key(key))?;
        Some((self.line(keyed.line).expect("a key stands for a line"), keyed))
    }

    /// Returns when the owner makes checkpoints by itself.
    pub(crate) fn plan(&self) -> Plan {
        self.row(&row::plan_key()).unwrap_or_default()
    }

    /// Returns what is said of a branch.
    pub(crate) fn mark_of(&self, branch: BranchId) -> Option<Mark> {
        self.marking(branch)?.mark
    }

    /// Returns what is said of a branch, by whom and since when.
    pub(crate) fn marking(&self, branch: BranchId) -> Option<Marking> {
        self.row(&row::mark_key(branch))
    }

    /// Returns what is said of branches.
    pub(crate) fn marks(&self) -> Vec<Marking> {
        let marks = self.all::<Marking, _>(MARKS, |_| ());
        marks.into_iter().map(|((), marking)| marking).collect()
    }

    /// Returns all branches and checkpoints, by number.
    pub(crate) fn lines(&self) -> Vec<(BranchId, Line)> {
        self.all(LINES, |key| BranchId(number_of(key)))
    }

    /// Tells whether there is a branch beside one; strays are none.
    pub(crate) fn has_other_branch(&self, branch: BranchId) -> bool {
        let mut has = false;
        let visit = |key: &[u8], value: &[u8]| {
            let line = Line::parsed(value).expect(ROWS_ARE_VALID);
            has = BranchId(number_of(key)) != branch && line.kind == LineKind::Branch;
            if has {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let scanned = self
            .rows
            .scan(Bound::Included(LINES.0), Bound::Excluded(LINES.1), visit);
        scanned.expect(ROWS_ARE_LOADED);
        has
    }

    /// Returns who holds a branch.
    pub(crate) fn grant(&self, branch: BranchId) -> Option<Grant> {
        self.row(&row::grant_key(branch))
    }

    /// Returns the branches that a session holds.
    pub(crate) fn held_by(&self, session: SessionId) -> Vec<BranchId> {
        let grants = self.all::<Grant, _>(GRANTS, |key| BranchId(number_of(key)));
        grants
            .into_iter()
            .filter(|(_, grant)| grant.session == session)
            .map(|(branch, _)| branch)
            .collect()
    }

    /// Returns the line into which a batch goes, and the grant there: the branch that it names, which its session holds or shares, or
    /// the stray that took its place for the session when that had lost it.
    pub(crate) fn granted(&self, batch: &Batch) -> Option<(BranchId, Grant)> {
        let theirs = |line: BranchId| {
            let grant = self.grant(line)?;
            (grant.session == batch.session).then_some((line, grant))
        };
        let shared = || {
            let grant = self.sharing(batch.branch)?.grant(batch.session)?;
            Some((batch.branch, grant))
        };
        theirs(batch.branch).or_else(shared).or_else(|| {
            let held = self.held_by(batch.session).into_iter();
            let mut strays = held.filter(|line| self.stray_of(*line, batch.session) == Some(batch.branch));
            strays.next().and_then(theirs)
        })
    }

    /// Returns the branch that a session had held which has a stray for it, if the line is such a stray.
    pub(crate) fn stray_of(&self, line: BranchId, session: SessionId) -> Option<BranchId> {
        match self.line(line)?.kind {
            LineKind::Stray { of, by, .. } if by == session => Some(of),
            LineKind::Stray { .. } | LineKind::Branch | LineKind::Checkpoint { .. } => None,
        }
    }

    /// Tells whether a line is a stray that waits for its session, which has added nothing.
    pub(crate) fn is_bare(&self, id: BranchId, line: &Line) -> bool {
        let LineKind::Stray { by, base, .. } = line.kind else {
            return false;
        };
        self.grant(id)
            .is_some_and(|grant| grant.session == by && grant.number == base)
    }

    /// Returns the branch whose content a record may change.
    pub(crate) fn touched(&self, record: &Record) -> Option<BranchId> {
        match record {
            Record::Batch(batch) => self.granted(batch).map(|(line, _)| line),
            Record::Granted { branch, .. } | Record::Returned { branch } => Some(*branch),
            Record::DriveCreated { .. }
            | Record::SessionOpened { .. }
            | Record::SessionClosed { .. }
            | Record::InosLent { .. }
            | Record::Forked { .. }
            | Record::BranchDeleted { .. }
            | Record::CheckpointMade { .. }
            | Record::CheckpointDeleted { .. }
            | Record::Joined { .. }
            | Record::Left { .. }
            | Record::Revoked { .. }
            | Record::Ousted { .. }
            | Record::Renamed { .. }
            | Record::Planned(_)
            | Record::Condemned(_)
            | Record::Reclaimed(_)
            | Record::Marked(_)
            | Record::Turned(_) => None,
            Record::Act(act) => Some(act.branch),
            Record::Dropped { branch, .. } => Some(*branch),
        }
    }

    /// Returns a session.
    pub(crate) fn session(&self, session: SessionId) -> Option<Session> {
        self.row(&row::session_key(session))
    }

    /// Returns all sessions, by number.
    pub(crate) fn sessions(&self) -> Vec<(SessionId, Session)> {
        self.all(SESSIONS, |key| SessionId(number_of(key)))
    }

    /// Returns the packs that were sealed when the rows were folded last.
    pub(crate) fn packs(&self) -> Vec<PackName> {
        let packs = self.all::<row::Pack, _>(PACKS, |key| PackNumber(number_of(key)));
        packs
            .into_iter()
            .map(|(number, pack)| PackName {
                number,
                tag: pack.tag,
            })
            .collect()
    }

    /// Returns a line's branch as it is now; its pages may be missing.
    pub(crate) fn opened(&mut self, id: BranchId) -> Option<Open> {
        if let Some(open) = self.open.get(&id) {
            return Some(open.clone());
        }
        let line = self.line(id)?;
        let root = line.root.expect("a line that is not in memory has a root");
        let hash_key = self.begun().hash_key;
        let branch = Branch::stored(hash_key, Tree::stored(root, &self.memory), line.totals);
        let open = Open {
            branch,
            version: self.changes,
        };
        // It is kept, so that all who read it load its pages once.
        self.open.insert(id, open.clone());
        Some(open)
    }

    /// Returns what a line holds in all.
    pub(crate) fn totals(&self, id: BranchId, line: &Line) -> Totals {
        self.open
            .get(&id)
            .map_or(line.totals, |open| open.branch.totals())
    }

    /// Returns the branches in memory.
    pub(crate) fn open(&self) -> &BTreeMap<BranchId, Open> {
        &self.open
    }

    /// Returns the line that a source names.
    pub(crate) fn source(&self, from: &Source) -> Option<(BranchId, Line)> {
        match from {
            Source::Branch(id) => Some((*id, self.line(*id)?)),
            Source::Checkpoint(name) => self.named(name.as_str()),
        }
    }

    fn begun(&self) -> Head {
        self.head().expect("the drive has begun")
    }

    fn put(&mut self, key: &[u8], row: &impl Codec) {
        self.rows.insert(key, &row.written()).expect(ROWS_ARE_LOADED);
    }

    fn remove(&mut self, key: &[u8]) {
        self.rows.remove(key).expect(ROWS_ARE_LOADED);
    }

    fn row<T: Codec>(&self, key: &[u8]) -> Option<T> {
        let row = self.rows.get(key, T::parsed).expect(ROWS_ARE_LOADED);
        row.map(|row| row.expect(ROWS_ARE_VALID))
    }

    fn all<T: Codec, K>(&self, (from, to): (&[u8], &[u8]), key_of: impl Fn(&[u8]) -> K) -> Vec<(K, T)> {
        let mut all = Vec::new();
        let visit = |key: &[u8], value: &[u8]| {
            all.push((key_of(key), T::parsed(value).expect(ROWS_ARE_VALID)));
            ControlFlow::Continue(())
        };
        let scanned = self.rows.scan(Bound::Included(from), Bound::Excluded(to), visit);
        scanned.expect(ROWS_ARE_LOADED);
        all
    }
}

const ROWS_ARE_LOADED: &str = "the drive's own rows are loaded when it is opened and stay in memory";
const ROWS_ARE_VALID: &str = "the drive's own rows were looked at when it was opened";

/// Where a fold has written a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folded {
    /// The line.
    pub(crate) line: BranchId,
    /// Which state of it.
    pub(crate) version: u64,
    /// Its root page.
    pub(crate) root: Address,
    /// What it holds.
    pub(crate) totals: Totals,
}

/// Returns the digest of what a fork is asked for, by which the same request with one key is told from another.
pub(crate) fn asked(from: &Source, name: &str, length: Option<Duration>, is_staged: bool) -> Digest {
    let mut out = from.written();
    put_bytes(&mut out, name.as_bytes());
    put_option(&mut out, length.map(|length| length.as_secs()).as_ref());
    put_varint(
        &mut out,
        length.map_or(0, |length| u64::from(length.subsec_nanos())),
    );
    if is_staged {
        out.push(1);
    }
    Digest::of(&out)
}

/// Returns the digest by which the next batch names this one: of its bytes as its holder wrote them.
pub(crate) fn batch_digest(batch: &Batch) -> Digest {
    if batch.chunks.iter().all(|chunk| chunk.inline.is_none()) {
        return Digest::of(&batch.written());
    }
    let mut shipped = batch.clone();
    shipped.chunks.iter_mut().for_each(|chunk| chunk.inline = None);
    Digest::of(&shipped.written())
}
