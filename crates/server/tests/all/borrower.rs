//! A session that shares a branch and borrows, as the tests of what is lent play it: what it decides on its copy, ships, shows, gives back
//! and brings.

use crate::shared::create_op;
use crate::world::{ship, who};
use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};
use tenure_core::tree::Memory;
use tenure_core::{Branch, Cover, Fate, Lent, Plan, Totals, Tree, Undecided};
use tenure_model::codec::Codec;
use tenure_model::{Attr, Batch, Digest, Epoch, Ino, InoRange, Kind, Op, Refusal};
use tenure_server::Drive;
use tenure_wire::shared::{
    Borrow, Borrowed, Brought, Claim, Deed, Demand, Kept, Loan, Look, Need, Ordered, Place, Seen, Sharer,
    Yield,
};
use tenure_wire::{Access, Error, Hold, Owner, Shared};

/// A session that shares a branch, and what is lent to it.
pub(crate) struct Member {
    pub(crate) drive: Arc<Drive>,
    pub(crate) who: Sharer,
    pub(crate) epoch: Epoch,
    pub(crate) inos: InoRange,
    pub(crate) copy: Option<(u64, Branch)>,
    pub(crate) cover: Cover,
    pub(crate) loan: u64,
    pub(crate) ops: Vec<u8>,
    pub(crate) removed: BTreeSet<Ino>,
    /// Inodes whose end was not told.
    pub(crate) ended: Vec<Ino>,
    pub(crate) number: u64,
    pub(crate) previous: Digest,
    /// Batches that are in order and not known to be durable.
    pub(crate) shown: Vec<Batch>,
    pub(crate) acts: u64,
    pub(crate) kept: Vec<Kept>,
    pub(crate) heard: Option<mpsc::Receiver<Vec<Demand>>>,
}

impl Member {
    pub(crate) fn new(drive: &Arc<Drive>, agent: &str) -> Self {
        let opened = drive.open(&who(agent, false)).unwrap();
        let lent = drive.lend(opened.session, "main", Access::Shared).unwrap();
        let who = Sharer {
            session: opened.session,
            branch: lent.branch.unwrap(),
        };
        Self {
            drive: drive.clone(),
            who,
            epoch: opened.epoch,
            inos: lent.inos,
            copy: None,
            cover: Cover::default(),
            loan: 0,
            ops: Vec::new(),
            removed: BTreeSet::new(),
            ended: Vec::new(),
            number: 0,
            previous: Digest([0; 32]),
            shown: Vec::new(),
            acts: 0,
            kept: Vec::new(),
            heard: None,
        }
    }

    pub(crate) fn ask(&self, directory: Ino, is_shipped: bool) -> Result<Borrowed<Branch>, Error> {
        let copy = self.copy.as_ref().map(|(version, _)| *version);
        let ask = Borrow {
            directory,
            copy,
            is_shipped,
        };
        self.drive.borrow(self.who, &ask)
    }

    /// Borrows a directory; tells whether it is lent.
    pub(crate) fn borrow(&mut self, directory: Ino) -> bool {
        self.try_borrow(directory).unwrap()
    }

    pub(crate) fn try_borrow(&mut self, directory: Ino) -> Result<bool, Error> {
        let loan = match self.ask(directory, false)? {
            Borrowed::No => return Ok(false),
            Borrowed::Lent(loan) => loan,
            Borrowed::Behind => {
                self.ship()?;
                match self.ask(directory, true)? {
                    Borrowed::Lent(loan) => loan,
                    Borrowed::No | Borrowed::Behind => panic!("it was free before"),
                }
            }
        };
        self.take_up(loan);
        Ok(true)
    }

    pub(crate) fn take_up(&mut self, loan: Loan<Branch>) {
        if self.copy.is_none() {
            (self.number, self.previous) = loan.behind;
        }
        if let Some((version, state)) = loan.copy {
            assert!(self.ops.is_empty(), "a copy is taken of all");
            let Shared::Stored { root, inodes, bytes } = state else {
                panic!("it is another process")
            };
            let tree = Tree::stored(root, &Memory::new());
            self.copy = Some((version, Branch::stored([7; 16], tree, Totals { inodes, bytes })));
        }
        self.loan = self.loan.max(loan.number);
        for part in loan.parts {
            let lent = Lent {
                directory: part.directory,
                by: self.who.session,
            };
            self.cover.lend(lent, loan.number, part.inodes);
        }
    }

    pub(crate) fn local<R>(
        &mut self,
        mut ask: impl FnMut(&mut Branch) -> Result<R, Undecided>,
    ) -> Result<R, Refusal> {
        loop {
            let (_, branch) = self.copy.as_mut().unwrap();
            match ask(branch) {
                Ok(answer) => return Ok(answer),
                Err(Undecided::Refused(refusal)) => return Err(refusal),
                Err(Undecided::Missing(missing)) => {
                    missing.supply(&self.drive.page(missing.at()).unwrap()).unwrap();
                }
            }
        }
    }

    /// Does something here, if all that it touches is lent.
    pub(crate) fn try_here(&mut self, op: &Op) -> Option<Result<Option<(Ino, Attr)>, Refusal>> {
        self.copy.as_ref()?;
        let touched = self.local(|branch| Ok(branch.touched(op)?)).unwrap();
        let mut plan = Plan::default();
        if !self.cover.plan(self.who.session, &touched, &mut plan) {
            return None;
        }
        let outcome = match self.local(|branch| branch.change(op)) {
            Ok(outcome) => outcome,
            Err(refusal) => return Some(Err(refusal)),
        };
        self.cover.make(self.who.session, plan);
        for inode in touched.inodes().filter(|inode| inode.fate == Fate::Ends) {
            if inode.is_directory {
                self.removed.insert(inode.ino);
            } else {
                self.ended.push(inode.ino);
            }
        }
        op.write(&mut self.ops);
        Some(Ok(outcome.inode))
    }

    pub(crate) fn here(&mut self, op: &Op) -> Option<(Ino, Attr)> {
        self.try_here(op).expect("it is lent").unwrap()
    }

    pub(crate) fn create_here(&mut self, parent: Ino, name: &str, kind: Kind) -> Ino {
        let op = create_op(parent, name, self.inos.take().unwrap(), kind);
        self.here(&op).unwrap().0
    }

    pub(crate) fn batch(&self) -> Batch {
        Batch {
            session: self.who.session,
            branch: self.who.branch,
            epoch: self.epoch,
            number: self.number + 1,
            previous: self.previous,
            chunks: Vec::new(),
            ops: self.ops.clone(),
        }
    }

    pub(crate) fn ship(&mut self) -> Result<(), Error> {
        if !self.ops.is_empty() {
            let shipped = ship(&self.drive, self.batch(), None)?;
            self.number += 1;
            self.previous = shipped.digest;
            self.ops.clear();
            self.removed.clear();
            self.shown.clear();
        }
        if !self.shown.is_empty() {
            self.drive.sync(self.who)?;
            self.shown.clear();
        }
        let ended = std::mem::take(&mut self.ended);
        ended.iter().for_each(|ino| self.cover.uncover(*ino));
        self.drive.let_go(self.who, &ended)
    }

    /// Shows others what it has done: they see it, and it is not durable.
    pub(crate) fn show(&mut self) {
        if !self.ops.is_empty() {
            let batch = self.batch();
            let shown = self.drive.order(&batch).unwrap();
            self.number += 1;
            self.previous = shown.digest;
            self.ops.clear();
            self.shown.push(batch);
        }
    }

    pub(crate) fn give_back(&mut self, directories: &[Ino], (answered, loan): (u64, u64)) {
        if directories.is_empty() {
            self.show();
        } else {
            self.ship().unwrap();
        }
        for directory in directories {
            self.cover.take_back(*directory);
        }
        let given = Yield {
            answered,
            loan: self.loan.max(loan),
            directories: directories.to_vec(),
            open: Vec::new(),
        };
        self.drive.take_back(self.who, &given).unwrap();
    }

    /// Hears what others need, and does it.
    pub(crate) fn pump(&mut self) {
        let heard = self.heard.take().unwrap_or_else(|| self.hear());
        let Ok(demands) = heard.try_recv() else {
            self.heard = Some(heard);
            return;
        };
        let returns = demands.iter().filter(|demand| demand.need == Need::Return);
        let directories: Vec<Ino> = returns.map(|demand| demand.directory).collect();
        let last = |of: fn(&Demand) -> u64| demands.iter().map(of).max().unwrap_or_default();
        let answered = last(|demand| demand.number);
        self.give_back(&directories, (answered, last(|demand| demand.loan)));
    }

    pub(crate) fn hear(&self) -> mpsc::Receiver<Vec<Demand>> {
        let (told, heard) = mpsc::channel();
        let tell = move |news: Result<tenure_wire::shared::Heard, Error>| {
            if let Ok(news) = news {
                let _ = told.send(news.demands);
            }
        };
        self.drive.hear(self.who, Box::new(tell));
        heard
    }

    pub(crate) fn act(&mut self, deed: &Deed) -> Result<Ordered, Error> {
        self.show();
        let number = self.acts + 1;
        let ordered = self.drive.act(self.who, number, deed, Hold::No)?;
        self.acts = number;
        self.kept.push(Kept {
            number,
            place: Some(Place {
                behind: ordered.behind,
            }),
            deed: deed.clone(),
        });
        Ok(ordered)
    }

    /// Makes everything durable that it has done.
    pub(crate) fn sync(&mut self) {
        self.ship().unwrap();
        self.drive.sync(self.who).unwrap();
        self.kept.clear();
    }

    pub(crate) fn create(&mut self, parent: Ino, name: &str, kind: Kind) -> Result<Ino, Error> {
        let op = create_op(parent, name, self.inos.take().unwrap(), kind);
        Ok(self.act(&Deed::Op(op))?.inode.unwrap().0)
    }

    pub(crate) fn look(&self, look: &Look, asked: u64) -> Result<Seen, Error> {
        self.drive.look(self.who, look, asked)
    }

    pub(crate) fn names(&self, directory: Ino) -> Result<BTreeSet<String>, Error> {
        let (parent, after, len) = (directory, 0, 1 << 20);
        let Seen::Entries(entries) = self.look(&Look::List { parent, after, len }, 0)? else {
            panic!("a listing has entries")
        };
        let name = |entry: &tenure_wire::shared::Entry| String::from_utf8_lossy(&entry.name).into_owned();
        Ok(entries.iter().map(name).collect())
    }

    pub(crate) fn brought(&self) -> Brought {
        let directories = self
            .cover
            .of(self.who.session)
            .chain(self.removed.iter().copied());
        let claim = |directory| Claim {
            directory,
            orphans: self.cover.inodes(directory).collect(),
        };
        Brought {
            open: Vec::new(),
            locks: Vec::new(),
            acts: self.kept.clone(),
            claims: directories.map(claim).collect(),
            batches: self.shown.clone(),
        }
    }

    pub(crate) fn rejoin(&mut self, drive: &Arc<Drive>) {
        self.drive = drive.clone();
        self.heard = None;
        drive.rejoin(self.who, &self.brought()).unwrap();
    }
}
