//! What is lent of a shared branch: who has it decides there alone, others see what he has done, and get it when they need it.

use crate::owners::made;
use crate::shared::{create_op, named, refused, time};
use crate::world::{
    OWNER_WAIT, StillClock, create_by, drive_name, on_each_tier, options, salvage, ship, who,
};
use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tenure_core::tree::Memory;
use tenure_core::{Branch, Cover, Fate, Lent, Plan, Totals, Tree, Undecided};
use tenure_model::codec::Codec;
use tenure_model::{Attr, Batch, Digest, Epoch, Failure, Ino, InoRange, Kind, Op, Refusal};
use tenure_server::Drive;
use tenure_store::MemoryBucket;
use tenure_store::faulty::{self, FaultyBucket};
use tenure_wire::shared::{
    Borrow, Borrowed, Brought, Claim, Deed, Demand, Kept, Loan, Look, Need, Ordered, Place, Seen, Sharer,
    Yield,
};
use tenure_wire::{Access, Error, Hold, Owner, Shared};

const STALE: Error = Error::Refused(Refusal::Stale);

/// A session that shares a branch, and what is lent to it.
pub(crate) struct Member {
    pub(crate) drive: Arc<Drive>,
    pub(crate) who: Sharer,
    epoch: Epoch,
    pub(crate) inos: InoRange,
    copy: Option<(u64, Branch)>,
    pub(crate) cover: Cover,
    loan: u64,
    pub(crate) ops: Vec<u8>,
    removed: BTreeSet<Ino>,
    /// Inodes whose end was not told.
    ended: Vec<Ino>,
    number: u64,
    previous: Digest,
    acts: u64,
    kept: Vec<Kept>,
    heard: Option<mpsc::Receiver<Vec<Demand>>>,
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
            acts: 0,
            kept: Vec::new(),
            heard: None,
        }
    }

    fn ask(&self, directory: Ino, is_shipped: bool) -> Result<Borrowed<Branch>, Error> {
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

    fn try_borrow(&mut self, directory: Ino) -> Result<bool, Error> {
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

    fn take_up(&mut self, loan: Loan<Branch>) {
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

    fn here(&mut self, op: &Op) -> Option<(Ino, Attr)> {
        self.try_here(op).expect("it is lent").unwrap()
    }

    fn create_here(&mut self, parent: Ino, name: &str, kind: Kind) -> Ino {
        let op = create_op(parent, name, self.inos.take().unwrap(), kind);
        self.here(&op).unwrap().0
    }

    fn batch(&self) -> Batch {
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
        }
        let ended = std::mem::take(&mut self.ended);
        ended.iter().for_each(|ino| self.cover.uncover(*ino));
        self.drive.let_go(self.who, &ended)
    }

    fn give_back(&mut self, directories: &[Ino], answered: u64) {
        self.ship().unwrap();
        for directory in directories {
            self.cover.take_back(*directory);
        }
        let given = Yield {
            answered,
            loan: self.loan,
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
        let answered = demands
            .iter()
            .map(|demand| demand.number)
            .max()
            .unwrap_or_default();
        self.give_back(&directories, answered);
    }

    fn hear(&self) -> mpsc::Receiver<Vec<Demand>> {
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
        self.ship()?;
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

    fn create(&mut self, parent: Ino, name: &str, kind: Kind) -> Result<Ino, Error> {
        let op = create_op(parent, name, self.inos.take().unwrap(), kind);
        Ok(self.act(&Deed::Op(op))?.inode.unwrap().0)
    }

    pub(crate) fn look(&self, look: &Look, asked: u64) -> Result<Seen, Error> {
        self.drive.look(self.who, look, asked)
    }

    fn names(&self, directory: Ino) -> Result<BTreeSet<String>, Error> {
        let (parent, after, len) = (directory, 0, 1 << 20);
        let Seen::Entries(entries) = self.look(&Look::List { parent, after, len }, 0)? else {
            panic!("a listing has entries")
        };
        let name = |entry: &tenure_wire::shared::Entry| String::from_utf8_lossy(&entry.name).into_owned();
        Ok(entries.iter().map(name).collect())
    }

    fn brought(&self) -> Brought {
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
        }
    }

    pub(crate) fn rejoin(&mut self, drive: &Arc<Drive>) {
        self.drive = drive.clone();
        self.heard = None;
        drive.rejoin(self.who, &self.brought()).unwrap();
    }
}

/// Returns the number by which another was asked.
fn asked<T: std::fmt::Debug>(outcome: Result<T, Error>) -> u64 {
    let refusal = refused(outcome);
    let Refusal::Elsewhere { asked } = refusal else {
        panic!("it is refused for good: {refusal}")
    };
    asked
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn two(bucket: &MemoryBucket) -> (Arc<StillClock>, Arc<Drive>, Member, Member) {
    let clock = Arc::<StillClock>::default();
    let drive = create_by(&clock, bucket);
    let (ada, bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
    (clock, drive, ada, bob)
}

fn listing(directory: Ino) -> Look {
    Look::List {
        parent: directory,
        after: 0,
        len: 1 << 20,
    }
}

#[test]
fn who_works_alone_in_a_directory_decides_there_and_others_see_it_once_it_is_shipped() {
    on_each_tier(|bucket| {
        let (_, drive, mut ada, bob) = two(&bucket);
        assert!(ada.borrow(Ino::ROOT));
        let below = ada.create_here(Ino::ROOT, "below", Kind::Directory);
        ada.pump();
        let number = asked(bob.names(Ino::ROOT));
        ada.create_here(below, "file", Kind::File);
        ada.pump();
        let Seen::Entries(entries) = bob.look(&listing(Ino::ROOT), number).unwrap() else {
            panic!("a listing has entries")
        };
        assert_eq!((&*entries[0].name, entries[0].ino), (&b"below"[..], below));
        asked(bob.names(below));
        ada.create_here(below, "later", Kind::File);
        let again = asked(bob.names(below));
        ada.pump();
        assert!(matches!(bob.look(&listing(below), again), Ok(Seen::Entries(entries)) if entries.len() == 2));
        assert_eq!(ada.names(below), Ok(names(&["file", "later"])), "its own");
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn a_directory_that_another_needs_is_given_back_first_and_lent_again_when_he_is_done() {
    on_each_tier(|bucket| {
        let (clock, drive, mut ada, mut bob) = two(&bucket);
        assert!(ada.borrow(Ino::ROOT));
        let mine = ada.create_here(Ino::ROOT, "mine", Kind::Directory);
        ada.create_here(mine, "unshipped", Kind::File);
        ada.pump();
        asked(bob.create(Ino::ROOT, "theirs", Kind::File));
        asked(bob.create(Ino::ROOT, "theirs", Kind::File));
        ada.pump();
        bob.create(Ino::ROOT, "theirs", Kind::File).unwrap();
        assert_eq!(bob.names(Ino::ROOT), Ok(names(&["mine", "theirs"])));
        assert!(
            ada.try_here(&create_op(Ino::ROOT, "x", Ino(1 << 40), Kind::File))
                .is_none()
        );
        ada.create_here(mine, "still lent", Kind::File);
        assert!(!ada.borrow(Ino::ROOT), "another works there");
        clock.pass(Duration::from_secs(3));
        assert!(
            matches!(ada.ask(Ino::ROOT, false), Ok(Borrowed::Behind)),
            "it has no copy of that"
        );
        assert!(ada.borrow(Ino::ROOT));
        let copied = ada.local(|branch| branch.lookup(Ino::ROOT, &named("theirs")));
        assert!(copied.is_ok());
        assert!(!bob.borrow(Ino::ROOT), "it is another's");
        ada.ship().unwrap();
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn a_directory_is_lent_without_a_new_copy_where_nobody_has_changed_anything_in_it() {
    let (clock, _, mut ada, mut bob) = two(&MemoryBucket::new());
    let one = ada.create(Ino::ROOT, "one", Kind::Directory).unwrap();
    let other = ada.create(Ino::ROOT, "other", Kind::Directory).unwrap();
    ada.create(one, "file", Kind::File).unwrap();
    clock.pass(Duration::from_secs(3));
    assert!(ada.borrow(one));
    ada.create_here(one, "mine", Kind::File);
    bob.create(Ino::ROOT, "theirs", Kind::File).unwrap();
    assert!(matches!(ada.ask(other, false), Ok(Borrowed::Lent(loan)) if loan.copy.is_none()));
    clock.pass(Duration::from_secs(3));
    assert!(matches!(ada.ask(Ino::ROOT, false), Ok(Borrowed::Behind)));
}

#[test]
fn directories_below_come_along_where_nobody_else_has_touched_them() {
    let (clock, _, mut ada, mut bob) = two(&MemoryBucket::new());
    let top = ada.create(Ino::ROOT, "top", Kind::Directory).unwrap();
    let quiet = ada.create(top, "quiet", Kind::Directory).unwrap();
    let busy = ada.create(top, "busy", Kind::Directory).unwrap();
    clock.pass(Duration::from_secs(3));
    bob.create(busy, "file", Kind::File).unwrap();
    assert!(ada.borrow(top));
    let lent: Vec<_> = ada.cover.of(ada.who.session).collect();
    assert_eq!(lent, [top, quiet]);
}

#[test]
fn a_file_with_entries_in_two_directories_and_a_large_directory_stay_at_the_owner() {
    let (clock, drive, mut ada, mut bob) = two(&MemoryBucket::new());
    let one = ada.create(Ino::ROOT, "one", Kind::Directory).unwrap();
    let file = ada.create(one, "file", Kind::File).unwrap();
    let link = |ino, name| Op::Link {
        ino,
        parent: Ino::ROOT,
        name: named(name),
        time: time(4),
    };
    ada.act(&Deed::Op(link(file, "elsewhere"))).unwrap();
    let twice = ada.create(Ino::ROOT, "twice", Kind::File).unwrap();
    ada.act(&Deed::Op(link(twice, "again"))).unwrap();
    clock.pass(Duration::from_secs(3));
    assert!(ada.borrow(Ino::ROOT));
    let unlink = |parent, name| Op::Unlink {
        parent,
        name: named(name),
        time: time(5),
    };
    assert!(ada.try_here(&unlink(Ino::ROOT, "elsewhere")).is_none());
    ada.here(&unlink(Ino::ROOT, "again"));
    ada.here(&unlink(Ino::ROOT, "twice"));
    ada.ship().unwrap();
    bob.act(&Deed::Op(unlink(one, "file"))).unwrap_err();
    let large = Member::new(&drive, "eve");
    drop(large);
    assert_eq!(drive.check(true).unwrap(), [""; 0]);
}

#[test]
fn a_batch_that_touches_what_is_not_lent_ends_its_session_and_is_a_strays() {
    on_each_tier(|bucket| {
        let (_, drive, mut ada, bob) = two(&bucket);
        assert!(ada.borrow(Ino::ROOT));
        ada.create_here(Ino::ROOT, "file", Kind::File);
        let given = Yield {
            loan: ada.loan,
            directories: vec![Ino::ROOT],
            ..Yield::default()
        };
        drive.take_back(ada.who, &given).unwrap();
        assert_eq!(ada.ship(), Err(STALE));
        assert_eq!(drive.renew(ada.who.session), Err(STALE));
        assert_eq!(bob.names(Ino::ROOT), Ok(names(&[])));
        // What it brings is what it had decided when it was lent the directory.
        let stray = salvage(&drive, ada.batch(), None).unwrap().stray;
        assert_eq!(stray, "stray-main-box-1-2");
    });
}

#[test]
fn what_a_silent_holder_had_not_shipped_becomes_a_stray_when_another_needs_what_is_lent_to_him() {
    on_each_tier(|bucket| {
        let (clock, drive, mut ada, mut bob) = two(&bucket);
        assert!(ada.borrow(Ino::ROOT));
        ada.create_here(Ino::ROOT, "shipped", Kind::File);
        ada.ship().unwrap();
        ada.create_here(Ino::ROOT, "unshipped", Kind::File);
        clock.pass(Duration::from_secs(5));
        asked(bob.names(Ino::ROOT));
        drive.prolong(bob.who).unwrap();
        clock.pass(Duration::from_secs(1));
        asked(bob.create(Ino::ROOT, "theirs", Kind::File));
        bob.create(Ino::ROOT, "theirs", Kind::File).unwrap();
        assert_eq!(bob.names(Ino::ROOT), Ok(names(&["shipped", "theirs"])));
        assert_eq!(ada.ship(), Err(STALE));
        assert_eq!(drive.prolong(ada.who), Err(STALE));
        let stray = salvage(&drive, ada.batch(), None).unwrap().stray;
        Owner::close(&*drive, ada.who.session).unwrap();
        let reader = crate::world::Holder::reader(&drive, &stray);
        assert_eq!(reader.names(), ["shipped", "unshipped"]);
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

/// Opens the drive again, as after its owner was killed.
pub(crate) fn next_owner(bucket: &MemoryBucket) -> (Arc<StillClock>, Arc<Drive>) {
    let clock = Arc::<StillClock>::default();
    let drive = Drive::open(Arc::new(bucket.clone()), &drive_name(), options(&clock)).unwrap();
    clock.pass(OWNER_WAIT);
    (clock, drive)
}

#[test]
fn a_new_owner_lends_again_what_sessions_say_was_lent_to_them_and_takes_what_they_had_not_shipped() {
    on_each_tier(|bucket| {
        let (_, drive, mut ada, mut bob) = two(&bucket);
        assert!(ada.borrow(Ino::ROOT));
        let below = ada.create_here(Ino::ROOT, "below", Kind::Directory);
        ada.ship().unwrap();
        ada.create_here(below, "unshipped", Kind::File);
        let last = ada.create_here(Ino::ROOT, "last", Kind::Directory);
        let nowhere = create_by(&Arc::default(), &MemoryBucket::new());
        (ada.drive, bob.drive) = (nowhere.clone(), nowhere);
        drop(drive);
        let (_, drive) = next_owner(&bucket);
        assert_eq!(refused(drive.prolong(ada.who)), Refusal::Unjoined);
        assert_eq!(refused(ship(&drive, ada.batch(), None)), Refusal::Unjoined);
        ada.rejoin(&drive);
        drive.prolong(ada.who).unwrap();
        let early = ship(&drive, ada.batch(), None);
        assert!(
            matches!(early, Err(Error::Failed(Failure::DidNotHappen(_)))),
            "{early:?}"
        );
        bob.rejoin(&drive);
        asked(bob.create(below, "theirs", Kind::File));
        ada.pump();
        assert_eq!(bob.names(below), Ok(names(&["unshipped"])));
        ada.create_here(last, "here", Kind::File);
        ada.ship().unwrap();
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn of_two_sessions_that_say_the_same_is_lent_to_them_neither_goes_on() {
    let bucket = MemoryBucket::new();
    let (_, drive, mut ada, mut bob) = two(&bucket);
    let mut eve = Member::new(&drive, "eve");
    assert!(ada.borrow(Ino::ROOT));
    let lent = Lent {
        directory: Ino::ROOT,
        by: bob.who.session,
    };
    bob.cover.lend(lent, 1, []);
    let nowhere = create_by(&Arc::default(), &MemoryBucket::new());
    for member in [&mut ada, &mut bob, &mut eve] {
        member.drive = nowhere.clone();
    }
    drop(drive);
    let (clock, drive) = next_owner(&bucket);
    for member in [&mut ada, &mut bob, &mut eve] {
        member.rejoin(&drive);
    }
    asked(eve.create(Ino::ROOT, "free", Kind::File));
    assert_eq!(
        (drive.prolong(ada.who), drive.prolong(bob.who)),
        (Err(STALE), Err(STALE))
    );
    clock.pass(Duration::from_secs(6));
    asked(eve.create(Ino::ROOT, "free", Kind::File));
    eve.create(Ino::ROOT, "free", Kind::File).unwrap();
}

#[test]
fn what_is_lent_to_a_session_that_is_over_is_nobody_elses_until_it_relies_on_it_no_more() {
    on_each_tier(|bucket| {
        let (_, drive, mut ada, mut bob) = two(&bucket);
        let mut eve = Member::new(&drive, "eve");
        let lent = ada.create(Ino::ROOT, "lent", Kind::Directory).unwrap();
        assert!(ada.borrow(lent));
        eve.create(Ino::ROOT, "lost", Kind::File).unwrap();
        ada.create(Ino::ROOT, "followed", Kind::File).unwrap();
        let nowhere = create_by(&Arc::default(), &MemoryBucket::new());
        for member in [&mut ada, &mut bob, &mut eve] {
            member.drive = nowhere.clone();
        }
        drop(drive);
        let (clock, drive) = next_owner(&bucket);
        ada.rejoin(&drive);
        bob.rejoin(&drive);
        clock.pass(Duration::from_secs(3));
        drive.prolong(ada.who).unwrap();
        clock.pass(Duration::from_secs(3));
        asked(bob.create(lent, "theirs", Kind::File));
        asked(bob.names(lent));
        assert_eq!(bob.names(Ino::ROOT), Ok(names(&["lent"])), "it was not lent");
        assert_eq!(drive.renew(ada.who.session), Err(STALE));
        clock.pass(Duration::from_secs(3));
        asked(bob.create(lent, "theirs", Kind::File));
        bob.create(lent, "theirs", Kind::File).unwrap();
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn a_session_that_does_not_come_to_the_next_owner_leaves_what_it_brings_later_in_a_stray() {
    let bucket = MemoryBucket::new();
    let (_, drive, mut ada, mut bob) = two(&bucket);
    assert!(ada.borrow(Ino::ROOT));
    ada.create_here(Ino::ROOT, "unshipped", Kind::File);
    let nowhere = create_by(&Arc::default(), &MemoryBucket::new());
    (ada.drive, bob.drive) = (nowhere.clone(), nowhere);
    drop(drive);
    let (clock, drive) = next_owner(&bucket);
    bob.rejoin(&drive);
    clock.pass(Duration::from_secs(6));
    bob.create(Ino::ROOT, "theirs", Kind::File).unwrap();
    assert_eq!(refused(drive.rejoin(ada.who, &ada.brought())), Refusal::Stale);
    let stray = salvage(&drive, ada.batch(), None).unwrap().stray;
    let reader = crate::world::Holder::reader(&drive, &stray);
    assert_eq!(reader.names(), ["unshipped"]);
}

/// Else nobody would hear of it when it is to be given back.
#[test]
fn who_was_not_told_that_something_is_lent_to_him_is_told_also_when_another_needs_it_by_then() {
    let (_, _drive, mut ada, mut bob) = two(&MemoryBucket::new());
    assert!(matches!(ada.ask(Ino::ROOT, true), Ok(Borrowed::Lent(_))));
    asked(bob.create(Ino::ROOT, "theirs", Kind::File));
    assert!(ada.borrow(Ino::ROOT));
    ada.pump();
    bob.create(Ino::ROOT, "theirs", Kind::File).unwrap();
    assert!(!ada.borrow(Ino::ROOT), "he needs it");
}

#[test]
fn who_is_ousted_while_the_bucket_fails_keeps_nothing_and_brings_what_it_had_into_a_stray() {
    let faulty = Arc::new(FaultyBucket::new(Arc::new(made()), faulty::Plan::none()));
    let clock = Arc::<StillClock>::default();
    let drive = Drive::open(faulty.clone(), &drive_name(), options(&clock)).unwrap();
    let (mut ada, mut bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
    assert!(ada.borrow(Ino::ROOT));
    ada.create_here(Ino::ROOT, "unshipped", Kind::File);
    clock.pass(Duration::from_secs(6));
    drive.renew(bob.who.session).unwrap();
    faulty.set_outage(true);
    for _ in 0..2 {
        let failed = bob.names(Ino::ROOT);
        assert!(matches!(failed, Err(Error::Failed(_))), "{failed:?}");
    }
    faulty.set_outage(false);
    asked(bob.names(Ino::ROOT));
    assert_eq!(bob.names(Ino::ROOT).unwrap(), names(&[]));
    bob.create(Ino::ROOT, "theirs", Kind::File).unwrap();
    let stray = salvage(&drive, ada.batch(), None).unwrap().stray;
    let reader = crate::world::Holder::reader(&drive, &stray);
    assert_eq!(reader.names(), ["unshipped"]);
}

#[test]
fn what_is_lent_is_told_with_its_session() {
    let (_, drive, mut ada, _bob) = two(&MemoryBucket::new());
    assert!(ada.borrow(Ino::ROOT));
    ada.create_here(Ino::ROOT, "below", Kind::Directory);
    ada.ship().unwrap();
    let told: Vec<_> = drive.delegations().unwrap();
    let lent: Vec<_> = told.iter().map(|lent| lent.directories).collect();
    assert_eq!(lent, [2, 0]);
}
