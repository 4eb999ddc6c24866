//! Branches and checkpoints: made, renamed, deleted and told about. Each change is one record and costs the same at any size.

use crate::drive::Inner;
use crate::order::Live;
use crate::session;
use crate::state::permit::because;
use crate::state::{Line, LineKind, asked};
use tenure_model::record::{Maker, Source};
use tenure_model::{BranchId, BranchName, CheckpointName, Record, Staging};
use tenure_wire::{BranchInfo, CheckpointAsk, Created, Error, ForkAsk, IfThere, Who};

impl Inner {
    pub(crate) fn fork(&self, ask: &ForkAsk) -> Result<Created, Error> {
        if let Some(found) = self.found(ask)? {
            return Ok(found);
        }
        match self.make_fork(ask) {
            // The same request may have come twice, over two connections.
            Err(refused @ Error::Refused(_)) => self.found(ask)?.ok_or(refused),
            made => made,
        }
    }

    /// Returns the branch that is asked for and is there already; durable.
    fn found(&self, ask: &ForkAsk) -> Result<Option<Created>, Error> {
        let found = self.with(|live| live.found(ask))?;
        if found.is_some() {
            self.settle_all()?;
        }
        Ok(found)
    }

    fn make_fork(&self, ask: &ForkAsk) -> Result<Created, Error> {
        if let Source::Branch(branch) = &ask.from {
            self.gathered(*branch)?;
        }
        let time = self.options.clock.now();
        let until = ask.length.map(|length| time.after(length));
        let made = self.accept(|live| {
            let staged = ask
                .staged
                .as_ref()
                .map(|who| live.staging(ask, who))
                .transpose()?;
            let next = live
                .state
                .head()
                .expect("a drive that is served has begun")
                .next_line;
            let record = Record::Forked {
                from: ask.from.clone(),
                name: ask.name.clone(),
                time,
                until,
                key: ask.key.clone(),
                staged,
            };
            let made = Created {
                branch: next,
                found: None,
            };
            Ok((record, made))
        })?;
        self.work_on_passing_lines(until);
        Ok(made)
    }

    pub(crate) fn checkpoint(&self, ask: &CheckpointAsk) -> Result<Created, Error> {
        let (base, _) = self.with(|live| live.named(ask.branch.as_str()))?;
        self.gathered(base)?;
        let time = self.options.clock.now();
        let until = ask.length.map(|length| time.after(length));
        let made = self.accept(|live| {
            let (branch, _) = live.named(ask.branch.as_str())?;
            let record = Record::CheckpointMade {
                branch,
                name: ask.name.clone(),
                message: ask.message.clone(),
                time,
                until,
                maker: Maker::Asked,
            };
            let made = Created { branch, found: None };
            Ok((record, made))
        })?;
        self.work_on_passing_lines(until);
        Ok(made)
    }

    /// Gives a line another name. Who holds it knows it by its number, and goes on. A protected branch keeps its name: another could
    /// have that then, and so whoever relies on it would get what nobody has accepted.
    pub(crate) fn rename(&self, name: &str, to: &BranchName) -> Result<(), Error> {
        self.accept(|live| {
            let (line, _) = live.named(name)?;
            live.state.is_open_to_all(line)?;
            let name = to.clone();
            Ok((Record::Renamed { line, name }, ()))
        })
    }

    /// Deletes a branch that nobody holds, or a checkpoint.
    pub(crate) fn delete_branch(&self, name: &BranchName) -> Result<(), Error> {
        if let Some((branch, _)) = self.with(|live| Ok(live.state.named(name.as_str())))? {
            self.end_silent_holder(branch, None)?;
        }
        self.accept(|live| {
            let (branch, line) = live.named(name.as_str())?;
            self.note_deletion(live, branch);
            let record = match line.kind {
                LineKind::Branch | LineKind::Stray { .. } => Record::BranchDeleted { branch },
                LineKind::Checkpoint { .. } => Record::CheckpointDeleted {
                    name: CheckpointName::parse(&line.name).map_err(|why| because(&why))?,
                },
            };
            Ok((record, ()))
        })?;
        self.work_on_lines();
        Ok(())
    }

    /// Returns all branches and checkpoints, but no stray to which nothing was added: there may be nothing that is lost.
    pub(crate) fn branches(&self) -> Result<Vec<BranchInfo>, Error> {
        self.with(|live| {
            let info = |(id, line)| live.info(id, line);
            let mut lines = live.state.lines();
            lines.retain(|(id, line)| !live.state.is_bare(*id, line));
            let mut all: Vec<_> = lines.into_iter().map(info).collect();
            all.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(all)
        })
    }
}

impl Live {
    /// Returns the branch that is asked for and was made before, by the key or, where that will do, by its name.
    fn found(&self, ask: &ForkAsk) -> Result<Option<Created>, Error> {
        let found = |branch, line: Line| Created {
            branch,
            found: Some(line.name),
        };
        if let Some(key) = &ask.key
            && let Some((line, keyed)) = self.state.keyed(key)
        {
            if keyed.asked != asked(&ask.from, ask.name.as_str(), ask.length, ask.staged.is_some()) {
                return Err(because(&format!(
                    "another request had the key {key}: it has made {} from {}; a request that asks for something else needs a key \
                     of its own",
                    line.name, line.from
                ))
                .into());
            }
            return Ok(Some(found(keyed.line, line)));
        }
        let there = match ask.if_there {
            IfThere::Take => self.state.named(ask.name.as_str()),
            IfThere::Refuse => None,
        };
        Ok(there
            .filter(|(_, line)| line.kind.is_branch())
            .map(|(id, line)| found(id, line)))
    }

    /// Returns for which branch a fork waits for a review: for what it is made from, or for what that is a checkpoint of.
    fn staging(&self, ask: &ForkAsk, who: &Who) -> Result<Staging, Error> {
        let source = self.state.source(&ask.from);
        let into = source.and_then(|(id, line)| match line.kind {
            LineKind::Checkpoint { .. } => line.base,
            LineKind::Branch | LineKind::Stray { .. } => Some(id),
        });
        let into = into.filter(|into| self.state.line(*into).is_some_and(|line| line.kind.is_branch()));
        let into = into.ok_or_else(|| {
            because("what it is a checkpoint of is gone, so nothing can be accepted into it; fork a branch with `--staged`")
        })?;
        let by = session::words(who);
        Ok(Staging { into, by })
    }

    fn info(&self, id: BranchId, line: Line) -> BranchInfo {
        let totals = self.state.totals(id, &line);
        let base = line.base.and_then(|base| self.state.line(base));
        let is_stray = matches!(line.kind, LineKind::Stray { .. });
        // A stray's words also say whose work it is.
        let from = match base.filter(|_| !is_stray) {
            Some(base) => format!("{} {}", base.kind.noun(), base.name),
            None => line.from,
        };
        let (branch, message, maker) = match line.kind {
            LineKind::Branch | LineKind::Stray { .. } => (Some(id), String::new(), Maker::Asked),
            LineKind::Checkpoint { message, maker } => (None, message, maker),
        };
        BranchInfo {
            branch,
            is_stray,
            name: line.name,
            from,
            made: line.made,
            inodes: totals.inodes,
            bytes: totals.bytes,
            holder: self.state.holders(id),
            message,
            line: Some(id),
            base: line.base,
            until: line.until,
            is_automatic: maker == Maker::Owner,
            by: line.by,
            mark: self.marked(id),
        }
    }
}
