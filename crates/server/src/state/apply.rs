//! Making the changes that records say, once they are permitted.
//!
//! Invariant: equal records in equal order make equal rows; nothing here is drawn, and no clock is read.

use super::recent::Recent;
use super::{After, Folded, Grant, Head, Line, LineKind, Open, Session, State, asked, batch_digest, row};
use tenure_core::{Branch, Totals, Tree};
use tenure_model::attr::{Attr, Kind, Xattrs};
use tenure_model::batch::{chain_start, chain_turned};
use tenure_model::record::{FIRST_LENT_INO, Maker, Source};
use tenure_model::{
    Batch, BranchId, Digest, Ino, InoRange, Mark, Marking, Record, RequestKey, Root, Seq, SessionId, Staging,
    Timestamp, Turn, Why,
};
use tenure_store::pack::PackName;

/// The first branch's number; checkpoints and later branches follow.
const FIRST_LINE: BranchId = BranchId(1);
/// Permissions of a drive's root directory.
const ROOT_MODE: u32 = 0o755;

/// A line that is made from another.
struct New<'a> {
    name: &'a str,
    kind: LineKind,
    time: Timestamp,
    until: Option<Timestamp>,
    key: Option<RequestKey>,
    is_staged: bool,
}

impl State {
    /// Makes the change that an accepted record says, which has its place in the order. `after` is what it makes of a branch, as was found before.
    pub(crate) fn apply(&mut self, record: &Record, seq: Seq, after: After) {
        self.applied = seq;
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
            } => self.open_session(*session, who, *hosted, *time),
            Record::SessionClosed { session } => self.remove(&row::session_key(*session)),
            Record::Granted {
                session,
                branch,
                inos,
            } => self.grant_whole(*session, *branch, *inos, after),
            Record::InosLent { session, count } => self.lend_inos(*session, *count),
            Record::Returned { branch } => self.take_back(*branch, after),
            Record::Batch(batch) => self.adopt(batch, batch_digest(batch), after),
            Record::Forked { .. } => self.fork(record),
            Record::BranchDeleted { branch } => self.delete(*branch),
            Record::CheckpointMade {
                branch,
                name,
                message,
                time,
                until,
                maker,
            } => self.name_state(*branch, (name.as_str(), message), *time, (*until, *maker)),
            Record::CheckpointDeleted { name } => {
                let (id, _) = self.named(name.as_str()).expect("the record was permitted");
                self.delete(id);
            }
            Record::Joined {
                session,
                branch,
                inos,
            } => {
                let start = chain_start(*session, *branch, self.begun().next_ino);
                self.join(*branch, *session, start);
                self.lend_inos(*session, *inos);
            }
            Record::Left { session, branch } => drop(self.leave(*branch, *session)),
            Record::Act(act) => {
                self.become_after(act.branch, after);
                self.note_change(act.branch);
                self.remember_act(act);
            }
            Record::Dropped { branch, .. } => self.become_after(*branch, after),
            Record::Revoked { branch, stray, time } => self.revoke(*branch, stray.as_str(), *time),
            Record::Ousted {
                session,
                branch,
                stray,
                time,
            } => self.oust((*session, *branch), stray.as_str(), *time),
            Record::Turned(turn) => self.turn(turn, after),
            Record::Renamed { line, name } => self.rename(*line, name.as_str()),
            Record::Planned(plan) => self.put(&row::plan_key(), plan),
            Record::Condemned(objects) => self.condemn(objects),
            Record::Reclaimed(reclaimed) => self.note_reclaimed(*reclaimed),
            Record::Marked(marking) => self.mark(marking),
        }
    }

    fn fork(&mut self, record: &Record) {
        let Record::Forked {
            from,
            name,
            time,
            until,
            key,
            staged,
        } = record
        else {
            return;
        };
        let new = New {
            name: name.as_str(),
            kind: LineKind::Branch,
            time: *time,
            until: *until,
            key: key.clone(),
            is_staged: staged.is_some(),
        };
        let branch = self.derive(from, new);
        if let Some(Staging { into, by }) = staged.clone() {
            let (mark, time) = (Some(Mark::Staged { into }), *time);
            self.mark(&Marking {
                branch,
                mark,
                by,
                time,
            });
        }
    }

    fn mark(&mut self, marking: &Marking) {
        let key = row::mark_key(marking.branch);
        match marking.mark {
            Some(_) => self.put(&key, marking),
            None => self.remove(&key),
        }
    }

    fn open_session(&mut self, session: SessionId, who: &str, hosted: bool, opened: Timestamp) {
        let row = Session {
            who: who.to_owned(),
            hosted,
            is_over: false,
            opened,
            inos: Vec::new(),
        };
        self.put(&row::session_key(session), &row);
    }

    fn grant_whole(&mut self, session: SessionId, branch: BranchId, inos: u64, after: After) {
        let grant = Grant {
            session,
            number: 0,
            digest: chain_start(session, branch, self.begun().next_ino),
        };
        self.put(&row::grant_key(branch), &grant);
        self.recent.remove(&branch);
        self.become_after(branch, after);
        self.lend_inos(session, inos);
    }

    fn name_state(
        &mut self,
        branch: BranchId,
        (name, message): (&str, &str),
        time: Timestamp,
        (until, maker): (Option<Timestamp>, Maker),
    ) {
        let message = message.to_owned();
        let kind = LineKind::Checkpoint { message, maker };
        let key = None;
        let new = New {
            name,
            kind,
            time,
            until,
            key,
            is_staged: false,
        };
        self.derive(&Source::Branch(branch), new);
        if maker == Maker::Owner {
            self.forget_change(branch);
        }
    }

    /// Takes a holder's branch as it is after a batch whose digest is `digest`.
    pub(crate) fn adopt(&mut self, batch: &Batch, digest: Digest, after: After) {
        let (line, _) = self.granted(batch).expect("the batch was permitted");
        self.become_after(line, after);
        self.note_change(line);
        if line == batch.branch && self.remember_shipped(batch, digest) {
            return;
        }
        let grant = Grant {
            session: batch.session,
            number: batch.number,
            digest,
        };
        self.put(&row::grant_key(line), &grant);
        self.remember(line, batch.number, digest);
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
            if self.grant(one.line).is_none() && self.sharing(one.line).is_none() {
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

    /// Writes into the rows which packs are sealed, and no more those that were given up.
    pub(crate) fn put_packs(&mut self, packs: &[PackName]) {
        let known: Vec<PackName> = self.packs();
        for pack in known.iter().filter(|pack| packs.binary_search(pack).is_err()) {
            if self.is_condemned(*pack) {
                self.remove(&row::pack_key(pack.number));
            }
        }
        for pack in packs.iter().filter(|pack| known.binary_search(pack).is_err()) {
            self.put(&row::pack_key(pack.number), &row::Pack { tag: pack.tag });
        }
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
            base: None,
            until: None,
            key: None,
            is_changed: false,
            by: None,
        };
        self.add_line(FIRST_LINE, &line, Some(branch));
    }

    fn take_back(&mut self, id: BranchId, after: After) {
        let line = self.line(id).expect("what is held is there");
        let is_bare = self.is_bare(id, &line);
        self.become_after(id, after);
        self.remove(&row::grant_key(id));
        self.recent.remove(&id);
        if is_bare {
            // Nothing of it is not in the branch.
            self.delete(id);
        }
    }

    fn revoke(&mut self, id: BranchId, name: &str, time: Timestamp) {
        let grant = self.grant(id).expect("the record was permitted");
        let of = match self.line(id).expect("what is held is there").kind {
            LineKind::Stray { of, by, .. } if by == grant.session => of,
            LineKind::Stray { .. } | LineKind::Branch | LineKind::Checkpoint { .. } => id,
        };
        self.remove(&row::grant_key(id));
        let recent = self.recent.remove(&id);
        self.make_stray((id, of), (grant, recent), name, time);
    }

    fn oust(&mut self, (session, id): (SessionId, BranchId), name: &str, time: Timestamp) {
        let sharing = self.sharing(id).expect("the record was permitted");
        let grant = sharing.grant(session).expect("the record was permitted");
        let recent = self.leave(id, session);
        self.make_stray((id, id), (grant, recent), name, time);
    }

    /// Makes a stray of what a line is, which has the grant of a session that is over from then on. Its batches name `of`.
    fn make_stray(
        &mut self,
        (id, of): (BranchId, BranchId),
        (grant, recent): (Grant, Option<Recent>),
        name: &str,
        time: Timestamp,
    ) {
        let mut session = self.session(grant.session).expect("who holds something is known");
        let kind = LineKind::Stray {
            of,
            by: grant.session,
            base: grant.number,
        };
        let new = New {
            name,
            kind,
            time,
            until: None,
            key: None,
            is_staged: false,
        };
        let stray = self.derive(&Source::Branch(id), new);
        let mut line = self.line(stray).expect("it was made just now");
        line.from = format!("{} of {}", line.from, session.who);
        self.put(&row::line_key(stray), &line);
        self.put(&row::grant_key(stray), &grant);
        if let Some(recent) = recent {
            self.recent.insert(stray, recent);
        }
        session.is_over = true;
        self.put(&row::session_key(grant.session), &session);
    }

    fn derive(&mut self, from: &Source, new: New<'_>) -> BranchId {
        let (base, base_line) = self.source(from).expect("the record was permitted");
        let branch = self.open.get(&base).map(|open| open.branch.clone());
        let by = match &new.kind {
            LineKind::Checkpoint { .. } => self.holders(base),
            LineKind::Branch | LineKind::Stray { .. } => None,
        };
        let asked = asked(
            from,
            new.name,
            new.until.map(|until| until.since(new.time)),
            new.is_staged,
        );
        let line = Line {
            name: new.name.to_owned(),
            kind: new.kind,
            from: format!("{} {}", base_line.kind.noun(), base_line.name),
            made: new.time,
            root: base_line.root,
            totals: base_line.totals,
            base: Some(base),
            until: new.until,
            key: new.key,
            is_changed: false,
            by,
        };
        let mut head = self.begun();
        let id = head.next_line;
        head.next_line = id.next();
        self.put(&row::head_key(), &head);
        self.add_line(id, &line, branch);
        self.descend(id, base, self.applied);
        if let Some(key) = &line.key {
            self.put(&row::request_key(key), &row::Keyed { line: id, asked });
        }
        id
    }

    fn rename(&mut self, id: BranchId, name: &str) {
        let mut line = self.line(id).expect("the record was permitted");
        self.remove(&row::name_key(&line.name));
        name.clone_into(&mut line.name);
        self.put(&row::name_key(name), &id.0);
        self.put(&row::line_key(id), &line);
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
        if let Some(key) = &line.key {
            self.remove(&row::request_key(key));
        }
        self.remove(&row::line_key(id));
        self.remove(&row::mark_key(id));
        self.open.remove(&id);
        self.changed.remove(&id);
        self.forget_stretch(id);
    }

    fn turn(&mut self, turn: &Turn, after: After) {
        let Root { page, inodes, bytes } = turn.to;
        let mut head = self.begun();
        let after = match after {
            After::Branch(branch) => branch,
            After::Same => {
                let tree = Tree::stored(page, &self.memory);
                Branch::stored(head.hash_key, tree, Totals { inodes, bytes })
            }
        };
        self.become_after(turn.branch, After::Branch(after));
        self.note_change(turn.branch);
        if let Some(grant) = self.grant(turn.branch) {
            // Its holder goes on from here, once it has heard so.
            let digest = chain_turned(grant.digest, page.digest);
            self.put(&row::grant_key(turn.branch), &Grant { digest, ..grant });
        }
        head.next_ino = Ino(head.next_ino.0 + turn.inos);
        self.put(&row::head_key(), &head);
        match &turn.why {
            Why::Merged { past, .. } => self.take_in(turn.branch, past, self.applied),
            Why::Undone { past, .. } => self.go_back(turn.branch, past, self.applied),
            Why::Restored { .. } | Why::Resolved { .. } | Why::Accepted { .. } => {}
        }
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
