//! The drive's own state: branches, checkpoints, sessions, grants, numbers and packs, as rows of a tree; beside them the
//! branches that are in memory.
//!
//! A record is first held against [`State::permits`], then [`State::apply`] makes the change and cannot fail. Replay
//! does the same in a loop. Nothing here does I/O: the rows are all in memory, and what needs pages of a branch
//! (`crate::decide`) comes in as the branch that a record makes.
//!
//! Invariant: a line without a branch in memory has a root in its row.

pub(crate) mod permit;
mod row;

use row::{GRANTS, LINES, PACKS, SESSIONS};
pub(crate) use row::{Grant, Head, Line, LineKind, Session};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use tenure_core::tree::Memory;
use tenure_core::{Branch, Totals, Tree};
use tenure_model::attr::{Attr, Kind, Xattrs};
use tenure_model::batch::chain_start;
use tenure_model::codec::{Codec, Malformed};
use tenure_model::record::{FIRST_LENT_INO, Source};
use tenure_model::{
    Address, Batch, BranchId, Digest, Ino, InoRange, PackNumber, Record, SessionId, Timestamp,
};
use tenure_store::pack::PackName;

/// The first branch's number; checkpoints and later branches follow.
const FIRST_LINE: BranchId = BranchId(1);
/// Permissions of a drive's root directory.
const ROOT_MODE: u32 = 0o755;

/// What a drive is, but for the contents of its packs.
#[derive(Clone)]
pub(crate) struct State {
    rows: Tree,
    open: BTreeMap<BranchId, Open>,
    memory: Memory,
    changes: u64,
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
        }
    }

    /// Returns the state whose rows `rows` has, all in memory; refuses rows that are none.
    pub(crate) fn stored(rows: Tree, memory: Memory) -> Result<Self, Malformed> {
        let state = Self {
            rows,
            open: BTreeMap::new(),
            memory,
            changes: 0,
        };
        let found = state.row::<Head>(&row::head_key());
        found.map(|_| state)
    }

    /// Returns the rows, to be folded.
    pub(crate) fn rows(&self) -> &Tree {
        &self.rows
    }

    /// Returns what there is about the drive itself; none before it has begun.
    pub(crate) fn head(&self) -> Option<Head> {
        self.valid_row(&row::head_key())
    }

    /// Returns the branch or checkpoint of a number.
    pub(crate) fn line(&self, id: BranchId) -> Option<Line> {
        self.valid_row(&row::line_key(id))
    }

    /// Returns the branch or checkpoint of a name.
    pub(crate) fn named(&self, name: &str) -> Option<(BranchId, Line)> {
        let id = BranchId(self.valid_row(&row::name_key(name))?);
        Some((id, self.line(id).expect("a name stands for a line")))
    }

    /// Returns all branches and checkpoints, by number.
    pub(crate) fn lines(&self) -> Vec<(BranchId, Line)> {
        self.all(LINES, BranchId)
    }

    /// Returns who holds a branch.
    pub(crate) fn grant(&self, branch: BranchId) -> Option<Grant> {
        self.valid_row(&row::grant_key(branch))
    }

    /// Returns the branches that a session holds.
    pub(crate) fn held_by(&self, session: SessionId) -> Vec<BranchId> {
        let grants = self.all::<Grant, _>(GRANTS, BranchId);
        grants
            .into_iter()
            .filter(|(_, grant)| grant.session == session)
            .map(|(branch, _)| branch)
            .collect()
    }

    /// Returns a session.
    pub(crate) fn session(&self, session: SessionId) -> Option<Session> {
        self.valid_row(&row::session_key(session))
    }

    /// Returns all sessions, by number.
    pub(crate) fn sessions(&self) -> Vec<(SessionId, Session)> {
        self.all(SESSIONS, SessionId)
    }

    /// Returns the packs that were sealed when the rows were folded last.
    pub(crate) fn packs(&self) -> Vec<PackName> {
        let packs = self.all::<row::Pack, _>(PACKS, PackNumber);
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

    /// Makes the change that an accepted record says. `after` is what it makes of a branch, as `crate::decide` found.
    pub(crate) fn apply(&mut self, record: &Record, after: After) {
        match record {
            Record::DriveCreated {
                hash_key,
                branch,
                uid,
                gid,
                time,
            } => {
                self.begin(*hash_key, branch.as_str(), (*uid, *gid), *time);
            }
            Record::SessionOpened {
                session,
                who,
                hosted,
                time,
            } => {
                let row = Session {
                    who: who.clone(),
                    hosted: *hosted,
                    opened: *time,
                    inos: Vec::new(),
                };
                self.put(&row::session_key(*session), &row);
            }
            Record::SessionClosed { session } => self.remove(&row::session_key(*session)),
            Record::Granted {
                session,
                branch,
                inos,
            } => {
                let grant = Grant {
                    session: *session,
                    number: 0,
                    digest: chain_start(*session, *branch, self.begun().next_ino),
                };
                self.put(&row::grant_key(*branch), &grant);
                self.become_after(*branch, after);
                self.lend_inos(*session, *inos);
            }
            Record::InosLent { session, count } => self.lend_inos(*session, *count),
            Record::Returned { branch } => {
                self.become_after(*branch, after);
                self.remove(&row::grant_key(*branch));
            }
            Record::Batch(batch) => self.adopt(batch, batch_digest(batch), after),
            Record::Forked { from, name, time } => self.fork(from, name.as_str(), *time),
            Record::BranchDeleted { branch } => self.delete(*branch),
            Record::CheckpointMade {
                branch,
                name,
                message,
                time,
            } => {
                let kind = LineKind::Checkpoint {
                    message: message.clone(),
                };
                let from = Source::Branch(*branch);
                self.derive(&from, name.as_str(), kind, *time);
            }
            Record::CheckpointDeleted { name } => {
                let (id, _) = self.named(name.as_str()).expect("the record was permitted");
                self.delete(id);
            }
        }
    }

    /// Takes a holder's branch as it is after a batch whose digest is `digest`.
    pub(crate) fn adopt(&mut self, batch: &Batch, digest: Digest, after: After) {
        self.become_after(batch.branch, after);
        let grant = Grant {
            session: batch.session,
            number: batch.number,
            digest,
        };
        self.put(&row::grant_key(batch.branch), &grant);
    }

    /// Notes where a fold has written the lines that are still what they were then, and forgets those that nobody
    /// holds: they are loaded again when they are needed.
    pub(crate) fn note_folded(&mut self, folded: &[Folded]) {
        for one in folded {
            if self
                .open
                .get(&one.line)
                .is_none_or(|open| open.version != one.version)
            {
                continue;
            }
            self.put_root(one);
            if self.grant(one.line).is_none() {
                self.open.remove(&one.line);
            }
        }
    }

    /// Writes into the rows where a line's root is.
    pub(crate) fn put_root(&mut self, folded: &Folded) {
        let Some(mut line) = self.line(folded.line) else {
            return;
        };
        if line.root != Some(folded.root) || line.totals != folded.totals {
            line.root = Some(folded.root);
            line.totals = folded.totals;
            self.put(&row::line_key(folded.line), &line);
        }
    }

    /// Writes into the rows which packs are sealed.
    pub(crate) fn put_packs(&mut self, packs: &[PackName]) {
        let known: Vec<PackName> = self.packs();
        for pack in packs.iter().filter(|pack| known.binary_search(pack).is_err()) {
            self.put(&row::pack_key(pack.number), &row::Pack { tag: pack.tag });
        }
    }

    fn begun(&self) -> Head {
        self.head().expect("the drive has begun")
    }

    fn begin(&mut self, hash_key: [u8; 16], name: &str, owner: (u32, u32), time: Timestamp) {
        let head = Head {
            hash_key,
            next_line: FIRST_LINE.next(),
            next_ino: FIRST_LENT_INO,
            made: time,
        };
        self.put(&row::head_key(), &head);
        let branch = Branch::new(hash_key, root_attr(owner, time));
        let line = Line {
            name: name.to_owned(),
            kind: LineKind::Branch,
            from: String::new(),
            made: time,
            root: None,
            totals: branch.totals(),
        };
        self.add_line(FIRST_LINE, &line, Some(branch));
    }

    fn fork(&mut self, from: &Source, name: &str, time: Timestamp) {
        self.derive(from, name, LineKind::Branch, time);
    }

    fn derive(&mut self, from: &Source, name: &str, kind: LineKind, time: Timestamp) {
        let (base, base_line) = self.source(from).expect("the record was permitted");
        let noun = if base_line.kind == LineKind::Branch {
            "branch"
        } else {
            "checkpoint"
        };
        let branch = self.open.get(&base).map(|open| open.branch.clone());
        let line = Line {
            name: name.to_owned(),
            kind,
            from: format!("{noun} {}", base_line.name),
            made: time,
            root: base_line.root,
            totals: base_line.totals,
        };
        let mut head = self.begun();
        let id = head.next_line;
        head.next_line = id.next();
        self.put(&row::head_key(), &head);
        self.add_line(id, &line, branch);
    }

    /// Returns the line that a source names.
    pub(crate) fn source(&self, from: &Source) -> Option<(BranchId, Line)> {
        match from {
            Source::Branch(id) => Some((*id, self.line(*id)?)),
            Source::Checkpoint(name) => self.named(name.as_str()),
        }
    }

    fn add_line(&mut self, id: BranchId, line: &Line, branch: Option<Branch>) {
        self.put(&row::line_key(id), line);
        self.put(&row::name_key(&line.name), &id.0);
        if let Some(branch) = branch {
            self.changes += 1;
            self.open.insert(
                id,
                Open {
                    branch,
                    version: self.changes,
                },
            );
        }
    }

    fn delete(&mut self, id: BranchId) {
        let line = self.line(id).expect("the record was permitted");
        self.remove(&row::name_key(&line.name));
        self.remove(&row::line_key(id));
        self.open.remove(&id);
    }

    fn become_after(&mut self, id: BranchId, after: After) {
        if let After::Branch(branch) = after {
            self.changes += 1;
            self.open.insert(
                id,
                Open {
                    branch,
                    version: self.changes,
                },
            );
        }
    }

    fn lend_inos(&mut self, session: SessionId, count: u64) {
        let mut head = self.begun();
        let range = InoRange {
            next: head.next_ino,
            end: Ino(head.next_ino.0 + count),
        };
        head.next_ino = range.end;
        self.put(&row::head_key(), &head);
        let mut row = self.session(session).expect("the record was permitted");
        match row.inos.last_mut() {
            Some(last) if last.0.end == range.next => last.0.end = range.end,
            Some(_) | None => row.inos.push(row::Lent(range)),
        }
        self.put(&row::session_key(session), &row);
    }

    fn put(&mut self, key: &[u8], row: &impl Codec) {
        self.rows.insert(key, &row.written()).expect(ROWS_ARE_LOADED);
    }

    fn remove(&mut self, key: &[u8]) {
        self.rows.remove(key).expect(ROWS_ARE_LOADED);
    }

    fn row<T: Codec>(&self, key: &[u8]) -> Result<Option<T>, Malformed> {
        self.rows.get(key, T::parsed).expect(ROWS_ARE_LOADED).transpose()
    }

    fn valid_row<T: Codec>(&self, key: &[u8]) -> Option<T> {
        self.row(key).expect(ROWS_ARE_VALID)
    }

    fn all<T: Codec, N>(&self, (from, to): (&[u8], &[u8]), number: impl Fn(u64) -> N) -> Vec<(N, T)> {
        let mut all = Vec::new();
        let visit = |key: &[u8], value: &[u8]| {
            all.push((
                number(row::number_of(key)),
                T::parsed(value).expect(ROWS_ARE_VALID),
            ));
            ControlFlow::Continue(())
        };
        self.rows
            .scan(Bound::Included(from), Bound::Excluded(to), visit)
            .expect(ROWS_ARE_LOADED);
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

/// Returns the digest by which the next batch names this one: of its bytes as its holder wrote them.
pub(crate) fn batch_digest(batch: &Batch) -> Digest {
    if batch.chunks.iter().all(|chunk| chunk.inline.is_none()) {
        return Digest::of(&batch.written());
    }
    let mut shipped = batch.clone();
    shipped.chunks.iter_mut().for_each(|chunk| chunk.inline = None);
    Digest::of(&shipped.written())
}

fn root_attr((uid, gid): (u32, u32), time: Timestamp) -> Attr {
    Attr {
        kind: Kind::Directory,
        mode: ROOT_MODE,
        nlink: 2,
        uid,
        gid,
        rdev: 0,
        size: 0,
        allocated: 0,
        parent: Ino::ROOT,
        xattrs: Xattrs::default(),
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
    }
}
