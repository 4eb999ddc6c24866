//! Branches that several sessions share: one order for all, whoever asks, however often, and whichever owner orders it.

use crate::world::{
    Holder, OWNER_WAIT, StillClock, content, create, drive_name, on_each_tier, open, options, says, who,
};
use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tenure_core::Branch;
use tenure_model::{
    ActId, Attr, AttrChange, Extent, Failure, Ino, InoRange, Kind, Lock, LockFamily, LockKind, LockOwner,
    LockRange, Locked, Name, NewNode, Op, Piece, Refusal, RenameMode, SessionId, Timestamp, XattrMode,
    XattrName,
};
use tenure_server::Drive;
use tenure_store::{Bucket, MemoryBucket};
use tenure_wire::shared::{Brought, Deed, Kept, LockAsk, Look, Ordered, Place, Seen, Sharer, WriteAt};
use tenure_wire::{Access, Error, Hold, Owner, Shared};

/// A session that shares a branch.
pub(crate) struct Member {
    pub(crate) drive: Arc<Drive>,
    pub(crate) who: Sharer,
    inos: InoRange,
    number: u64,
    kept: Vec<Kept>,
    open: Vec<Ino>,
}

impl Member {
    pub(crate) fn new(drive: &Arc<Drive>, agent: &str) -> Self {
        Self::try_new(drive, agent).unwrap()
    }

    fn try_new(drive: &Arc<Drive>, agent: &str) -> Result<Self, Error> {
        let session = drive.open(&who(agent, false))?.session;
        let lent = drive.lend(session, "main", Access::Shared)?;
        assert!(matches!(lent.state, Shared::Kept), "it stays at the owner");
        Ok(Self {
            drive: drive.clone(),
            who: Sharer {
                session,
                branch: lent.branch.unwrap(),
            },
            inos: lent.inos,
            number: 0,
            kept: Vec::new(),
            open: Vec::new(),
        })
    }

    fn act(&mut self, deed: Deed, hold: Hold) -> Result<Ordered, Error> {
        self.number += 1;
        let ordered = self.drive.act(self.who, self.number, &deed, hold)?;
        self.kept.push(Kept {
            number: self.number,
            place: Some(Place {
                behind: ordered.behind,
            }),
            deed,
        });
        if let (Hold::Open, Some((ino, _))) = (hold, ordered.inode) {
            self.open.push(ino);
        }
        Ok(ordered)
    }

    fn op(&mut self, op: Op) -> Result<Ordered, Error> {
        self.act(Deed::Op(op), Hold::No)
    }

    pub(crate) fn create(&mut self, name: &str, hold: Hold) -> Result<Ino, Error> {
        let op = create_op(Ino::ROOT, name, self.inos.take().unwrap(), Kind::File);
        let made = self.act(Deed::Op(op), hold)?;
        Ok(made.inode.unwrap().0)
    }

    pub(crate) fn unlink(&mut self, name: &str) -> Result<Ordered, Error> {
        self.op(Op::Unlink {
            parent: Ino::ROOT,
            name: named(name),
            time: time(9),
        })
    }

    pub(crate) fn write(&mut self, ino: Ino, at: WriteAt, bytes: &[u8]) -> Result<Ordered, Error> {
        let deed = Deed::Write {
            ino,
            at,
            bytes: bytes.into(),
            time: time(5),
        };
        self.act(deed, Hold::No)
    }

    pub(crate) fn attr(&self, ino: Ino) -> Result<Attr, Error> {
        let Seen::Inode(_, attr) = self.drive.look(self.who, &Look::Attr(ino), 0)? else {
            panic!("it is another answer")
        };
        Ok(attr)
    }

    pub(crate) fn read(&self, ino: Ino) -> Result<Vec<u8>, Error> {
        let (offset, len) = (0, 1 << 20);
        let Seen::Bytes(bytes) = self.drive.look(self.who, &Look::Read { ino, offset, len }, 0)? else {
            panic!("it is another answer")
        };
        Ok(bytes)
    }

    pub(crate) fn names(&self) -> BTreeSet<String> {
        let look = Look::List {
            parent: Ino::ROOT,
            after: 0,
            len: 1 << 20,
        };
        let Seen::Entries(entries) = self.drive.look(self.who, &look, 0).unwrap() else {
            panic!("a listing has entries")
        };
        entries
            .iter()
            .map(|entry| String::from_utf8_lossy(&entry.name).into_owned())
            .collect()
    }

    pub(crate) fn sync(&mut self) {
        self.drive.sync(self.who).unwrap();
        self.kept.clear();
    }

    fn brought(&self) -> Brought {
        Brought {
            open: self.open.clone(),
            acts: self.kept.clone(),
            ..Brought::default()
        }
    }

    /// Goes on at another owner.
    pub(crate) fn rejoin(&mut self, drive: &Arc<Drive>) -> Result<(), Error> {
        self.drive = drive.clone();
        drive.rejoin(self.who, &self.brought())
    }

    pub(crate) fn lock(&self, ask: LockAsk) -> Locked {
        self.drive.lock(self.who, &ask).unwrap()
    }

    fn id(&self) -> ActId {
        ActId {
            session: self.who.session,
            number: self.number,
        }
    }
}

pub(crate) fn named(name: &str) -> Name {
    Name::parse(name.as_bytes()).unwrap()
}

pub(crate) fn time(secs: i64) -> Timestamp {
    Timestamp { secs, nanos: 0 }
}

pub(crate) fn create_op(parent: Ino, name: &str, ino: Ino, kind: Kind) -> Op {
    Op::Create {
        parent,
        name: named(name),
        ino,
        node: NewNode {
            kind,
            mode: 0o644,
            umask: 0,
            uid: 1,
            gid: 1,
            rdev: 0,
            target: Box::new([]),
        },
        time: time(3),
    }
}

pub(crate) fn refused<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Refusal {
    match outcome {
        Err(Error::Refused(refusal)) => refusal,
        outcome => panic!("it is not refused: {outcome:?}"),
    }
}

/// Opens a drive with a clock that can be moved.
pub(crate) fn open_with(bucket: &(impl Bucket + Clone + 'static), clock: &Arc<StillClock>) -> Arc<Drive> {
    let drive = Drive::open(Arc::new(bucket.clone()), &drive_name(), options(clock)).unwrap();
    clock.pass(OWNER_WAIT);
    drive
}

#[test]
fn what_one_session_does_another_sees_at_once_and_a_name_is_made_by_one_alone() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let (mut ada, mut bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
        let ino = ada.create("file", Hold::No).unwrap();
        assert_eq!(refused(bob.create("file", Hold::No)), Refusal::Exists);
        let long = content(7, 200_000);
        ada.write(ino, WriteAt::Offset(100), &long).unwrap();
        assert_eq!(bob.read(ino).unwrap(), [&[0; 100], &long[..]].concat());
        bob.write(ino, WriteAt::Offset(0), b"begin").unwrap();
        assert_eq!(ada.read(ino).unwrap()[..6], *b"begin\0");
        bob.op(Op::Rename {
            from: Ino::ROOT,
            name: named("file"),
            to: Ino::ROOT,
            new_name: named("moved"),
            mode: RenameMode::Replace,
            time: time(8),
        })
        .unwrap();
        assert_eq!(ada.names(), BTreeSet::from(["moved".to_owned()]));
        assert_eq!(refused(ada.unlink("file")), Refusal::NotFound);
    });
}

#[test]
fn bytes_that_are_appended_by_two_sessions_are_all_there() {
    let drive = create(&MemoryBucket::new());
    let (mut ada, mut bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
    let ino = ada.create("log", Hold::No).unwrap();
    for number in 0..20 {
        ada.write(ino, WriteAt::End, format!("a{number};").as_bytes())
            .unwrap();
        bob.write(ino, WriteAt::End, format!("b{number};").as_bytes())
            .unwrap();
    }
    let expected: String = (0..20).map(|number| format!("a{number};b{number};")).collect();
    assert_eq!(String::from_utf8_lossy(&ada.read(ino).unwrap()), expected);
}

#[test]
fn an_act_that_is_asked_again_is_done_once_and_another_under_its_number_ends_in_a_refusal() {
    let drive = create(&MemoryBucket::new());
    let mut ada = Member::new(&drive, "ada");
    let ino = ada.create("log", Hold::No).unwrap();
    ada.write(ino, WriteAt::End, b"once;").unwrap();
    let kept = ada.kept.last().unwrap().clone();
    let again = drive.act(ada.who, kept.number, &kept.deed, Hold::No).unwrap();
    assert_eq!(
        (Some(Place { behind: again.behind }), again.inode.unwrap().0),
        (kept.place, ino)
    );
    assert_eq!(ada.read(ino).unwrap(), b"once;");
    let other = Deed::Write {
        ino,
        at: WriteAt::End,
        bytes: Box::from(*b"twin;"),
        time: time(5),
    };
    assert_eq!(
        refused(drive.act(ada.who, kept.number, &other, Hold::No)),
        Refusal::Stale
    );
    assert_eq!(ada.read(ino).unwrap(), b"once;");
}

#[test]
fn an_inode_without_an_entry_stays_while_any_session_has_it_open() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let (mut ada, mut bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
        let ino = ada.create("file", Hold::Open).unwrap();
        ada.write(ino, WriteAt::End, b"still there").unwrap();
        drive.hold(bob.who, ino).unwrap();
        bob.unlink("file").unwrap();
        drive.let_go(ada.who, &[ino]).unwrap();
        assert_eq!(ada.read(ino).unwrap(), b"still there");
        drive.let_go(bob.who, &[ino]).unwrap();
        assert_eq!(refused(bob.read(ino)), Refusal::NotFound);
        let other = bob.create("other", Hold::No).unwrap();
        bob.unlink("other").unwrap();
        assert_eq!(refused(bob.attr(other)), Refusal::NotFound, "nobody had it open");
        let third = ada.create("third", Hold::Open).unwrap();
        bob.unlink("third").unwrap();
        bob.attr(third).unwrap();
        drive.give_back(ada.who.session, ada.who.branch).unwrap();
        assert_eq!(
            refused(bob.attr(third)),
            Refusal::NotFound,
            "who had it open has gone"
        );
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn a_branch_is_held_or_shared_and_who_is_refused_learns_by_whom() {
    let drive = create(&MemoryBucket::new());
    let holder = Holder::remote(&drive, "main");
    let said = says(Member::try_new(&drive, "ada").map(drop));
    assert!(said.contains("mount at /work/ada"), "{said}");
    holder.give_back();
    let (ada, bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
    let said = says(Holder::new(&drive, "main", Access::Exclusive, false).map(drop));
    for words in ["mount at /work/ada", "mount at /work/bob", "--shared"] {
        assert!(said.contains(words), "{said}");
    }
    drive.give_back(ada.who.session, ada.who.branch).unwrap();
    Owner::close(&*drive, bob.who.session).unwrap();
    assert_eq!(refused(bob.attr(Ino::ROOT)), Refusal::Stale);
    Holder::remote(&drive, "main");
}

#[test]
fn what_sessions_synced_is_there_after_a_fold_and_after_their_owner_was_lost() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut ada = Member::new(&drive, "ada");
        let ino = ada.create("file", Hold::No).unwrap();
        ada.write(ino, WriteAt::End, &content(3, 100_000)).unwrap();
        drive.fold().unwrap();
        ada.write(ino, WriteAt::End, &content(4, 100_000)).unwrap();
        ada.sync();
        drop((ada.drive.clone(), drive));
        let mut left = ada;
        left.drive = create(&MemoryBucket::new());
        let drive = open(&bucket);
        left.rejoin(&drive).unwrap();
        let expected = [content(3, 100_000), content(4, 100_000)].concat();
        assert_eq!(left.read(ino).unwrap(), expected);
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

/// Sessions, and the one tree that they should have made.
struct World {
    bucket: MemoryBucket,
    members: Vec<Member>,
    tree: Branch,
    made: Vec<Ino>,
    draw: u64,
}

impl World {
    fn draw(&mut self, below: u64) -> u64 {
        self.draw ^= self.draw << 13;
        self.draw ^= self.draw >> 7;
        self.draw ^= self.draw << 17;
        self.draw % below
    }

    fn any_made(&mut self) -> Ino {
        let at = self.draw(self.made.len() as u64) as usize;
        self.made[at]
    }

    /// Draws something to do, and the op that it is on the tree as it is.
    fn deed(&mut self, member: usize) -> (Deed, Op) {
        let (name, parent, other) = (format!("n{}", self.draw(6)), self.any_made(), self.any_made());
        let time = time(self.draw(1000) as i64);
        let op = match self.draw(9) {
            0 | 1 => {
                let kind = if self.draw(3) == 0 {
                    Kind::Directory
                } else {
                    Kind::File
                };
                let ino = self.members[member].inos.take().unwrap();
                self.made.push(ino);
                create_op(parent, &name, ino, kind)
            }
            2 => Op::Unlink {
                parent,
                name: named(&name),
                time,
            },
            3 => Op::Rmdir {
                parent,
                name: named(&name),
                time,
            },
            4 => Op::Link {
                ino: other,
                parent,
                name: named(&name),
                time,
            },
            5 => Op::Rename {
                from: parent,
                name: named(&name),
                to: other,
                new_name: named(&format!("n{}", self.draw(6))),
                mode: [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange]
                    [self.draw(3) as usize],
                time,
            },
            6 => {
                let size = Some(self.draw(300));
                let change = AttrChange {
                    size,
                    ..AttrChange::default()
                };
                Op::SetAttr {
                    ino: parent,
                    change,
                    time,
                }
            }
            7 => Op::SetXattr {
                ino: parent,
                name: XattrName::parse(b"user.k").unwrap(),
                value: Box::from(name.as_bytes()),
                mode: XattrMode::Set,
                time,
            },
            _ => return self.write(parent, time),
        };
        (Deed::Op(op.clone()), op)
    }

    fn write(&mut self, ino: Ino, time: Timestamp) -> (Deed, Op) {
        let bytes: Box<[u8]> = content(self.draw, 1 + self.draw(100) as usize).into();
        let end = self.tree.attr(ino).ok().flatten().map_or(0, |attr| attr.size);
        let (at, offset) = match self.draw(2) {
            0 => (WriteAt::End, end),
            _ => {
                let offset = self.draw(300);
                (WriteAt::Offset(offset), offset)
            }
        };
        let op = Op::Write {
            ino,
            pieces: vec![Piece {
                offset,
                extent: Extent::Inline(bytes.clone()),
            }],
            size: 0,
            time: Some(time),
        };
        (Deed::Write { ino, at, bytes, time }, op)
    }

    fn step(&mut self) {
        let member = self.draw(self.members.len() as u64) as usize;
        let (deed, op) = self.deed(member);
        let before = self.tree.clone();
        let expected = self.tree.change(&op);
        let ordered = self.members[member].act(deed, Hold::No);
        match (expected, ordered) {
            (Ok(outcome), Ok(ordered)) => {
                assert_eq!(ordered.inode, outcome.inode, "{op:?}");
                if let Some(ino) = outcome.orphan {
                    // Nobody has it open.
                    self.tree.change(&Op::Drop { ino }).unwrap();
                }
            }
            (Err(_), Err(Error::Refused(_))) => self.tree = before,
            (expected, ordered) => panic!("{op:?}: {expected:?} and {ordered:?}"),
        }
    }

    /// Ends the owner without a word, and goes on at the next.
    fn lose_owner(&mut self) {
        let nowhere = create(&MemoryBucket::new());
        self.members
            .iter_mut()
            .for_each(|member| member.drive = nowhere.clone());
        let drive = open(&self.bucket);
        let order = self.draw(2);
        if order == 1 {
            self.members.reverse();
        }
        self.members
            .iter_mut()
            .for_each(|member| member.rejoin(&drive).unwrap());
    }

    fn check(&self) {
        for member in &self.members {
            for ino in &self.made {
                let expected = self.tree.attr(*ino).unwrap();
                assert_eq!(member.attr(*ino).ok(), expected, "inode {ino}");
                if expected.is_some_and(|attr| attr.kind == Kind::File) {
                    let mut bytes = vec![0; expected.unwrap().size as usize];
                    let pieces = self.tree.pieces(*ino, 0, bytes.len() as u64).unwrap();
                    tenure_core::fill(&pieces, 0, &mut bytes, |piece, into| match &piece.extent {
                        Extent::Inline(bytes) => {
                            into.copy_from_slice(bytes);
                            Ok(())
                        }
                        Extent::Chunk { .. } => Err("it has only short contents"),
                    })
                    .unwrap();
                    assert_eq!(member.read(*ino).unwrap(), bytes, "inode {ino}");
                }
            }
        }
        let drive = &self.members[0].drive;
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    }
}

#[test]
fn acts_of_any_sessions_make_what_one_tree_makes_of_them_also_when_owners_are_lost() {
    for seed in 1..=40 {
        on_each_tier(|bucket| {
            let drive = create(&bucket);
            let members: Vec<_> = ["ada", "bob", "eve"]
                .iter()
                .map(|agent| Member::new(&drive, agent))
                .collect();
            let reader = Holder::reader(&drive, "main");
            let mut world = World {
                bucket: bucket.clone(),
                members,
                tree: reader.branch.clone(),
                made: vec![Ino::ROOT],
                draw: 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed) | 1,
            };
            Owner::close(&*drive, reader.session).unwrap();
            drop((reader, drive));
            for _ in 0..120 {
                match world.draw(30) {
                    0 => world.lose_owner(),
                    1 => {
                        let at = world.draw(3) as usize;
                        world.members[at].sync();
                    }
                    2 => world.members[0].drive.fold().unwrap(),
                    _ => world.step(),
                }
            }
            world.check();
            world.lose_owner();
            world.check();
        });
    }
}

#[test]
fn acts_that_are_durable_and_that_their_session_keeps_are_not_done_again_however_many() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let (mut ada, mut bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
        let ino = ada.create("log", Hold::No).unwrap();
        for number in 0..600 {
            ada.write(ino, WriteAt::End, format!("{number};").as_bytes())
                .unwrap();
        }
        // Of this sync only its own session hears.
        bob.sync();
        ada.write(ino, WriteAt::End, b"behind").unwrap();
        let nowhere = create(&MemoryBucket::new());
        (ada.drive, bob.drive) = (nowhere.clone(), nowhere);
        drop(drive);
        let drive = open(&bucket);
        ada.rejoin(&drive).unwrap();
        bob.rejoin(&drive).unwrap();
        let expected: String = (0..600).map(|number| format!("{number};")).collect();
        assert_eq!(
            String::from_utf8_lossy(&bob.read(ino).unwrap()),
            expected + "behind"
        );
        let first = ada.kept[1].clone();
        assert_eq!(
            refused(drive.act(ada.who, first.number, &first.deed, Hold::No)),
            Refusal::InvalidArgument,
            "a late copy of it is not done again"
        );
    });
}

#[test]
fn a_new_owner_answers_nothing_before_all_have_come_or_were_waited_for() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let (mut ada, mut bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
        let ino = ada.create("of-ada", Hold::No).unwrap();
        bob.create("of-bob", Hold::No).unwrap();
        ada.write(ino, WriteAt::End, b"behind bob's").unwrap();
        let nowhere = create(&MemoryBucket::new());
        (ada.drive, bob.drive) = (nowhere.clone(), nowhere);
        drop(drive);
        let drive = open(&bucket);
        let looked = refused(drive.look(ada.who, &Look::Attr(ino), 0));
        let renewed = refused(drive.renew(ada.who.session));
        assert!(looked == Refusal::Unjoined && renewed == Refusal::Unjoined);
        ada.rejoin(&drive).unwrap();
        let early = ada.attr(ino);
        assert!(
            matches!(early, Err(Error::Failed(Failure::DidNotHappen(_)))),
            "{early:?}"
        );
        assert_eq!(drive.renew(ada.who.session), Ok(()), "only others are waited for");
        assert_eq!(refused(drive.renew(bob.who.session)), Refusal::Unjoined);
        bob.rejoin(&drive).unwrap();
        assert_eq!(ada.read(ino).unwrap(), b"behind bob's");
        assert_eq!(
            bob.names(),
            BTreeSet::from(["of-ada".to_owned(), "of-bob".to_owned()])
        );
    });
}

#[test]
fn whose_acts_followed_what_was_lost_with_another_is_over_and_others_go_on() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let (mut ada, mut bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
        let mut eve = Member::new(&drive, "eve");
        eve.create("first", Hold::No).unwrap();
        bob.create("lost", Hold::No).unwrap();
        ada.create("behind", Hold::No).unwrap();
        let nowhere = create(&MemoryBucket::new());
        for member in [&mut ada, &mut bob, &mut eve] {
            member.drive = nowhere.clone();
        }
        drop(drive);
        let clock = Arc::<StillClock>::default();
        let drive = open_with(&bucket, &clock);
        ada.rejoin(&drive).unwrap();
        eve.rejoin(&drive).unwrap();
        clock.pass(Duration::from_secs(6));
        assert_eq!(eve.names(), BTreeSet::from(["first".to_owned()]));
        assert_eq!(refused(ada.attr(Ino::ROOT)), Refusal::Stale);
        assert_eq!(refused(bob.rejoin(&drive)), Refusal::Stale);
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn what_nobody_was_answered_is_found_by_what_followed_it_or_done_at_the_end() {
    let bucket = MemoryBucket::new();
    let drive = create(&bucket);
    let (mut ada, mut bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
    ada.create("one", Hold::No).unwrap();
    bob.unlink("one").unwrap();
    ada.create("two", Hold::No).unwrap();
    // Neither has heard of its last act but one.
    let id = ada.id();
    bob.kept.last_mut().unwrap().place = None;
    ada.kept.last_mut().unwrap().place = None;
    let nowhere = create(&MemoryBucket::new());
    (ada.drive, bob.drive) = (nowhere.clone(), nowhere);
    drop(drive);
    let drive = open(&bucket);
    bob.rejoin(&drive).unwrap();
    ada.rejoin(&drive).unwrap();
    assert_eq!(ada.names(), BTreeSet::from(["two".to_owned()]));
    let kept = ada.kept.last().unwrap();
    let again = drive.act(ada.who, id.number, &kept.deed, Hold::No).unwrap();
    assert!(again.inode.is_some(), "it is known under its number");
}

pub(crate) fn lock(member: &Member, range: (u64, u64), kind: LockKind) -> Lock {
    Lock {
        ino: Ino(20),
        family: LockFamily::Posix,
        owner: LockOwner {
            session: SessionId(0),
            number: 1,
        },
        range: LockRange {
            first: range.0,
            last: range.1,
        },
        kind,
        pid: member.who.session.0 as u32,
    }
}

#[test]
fn locks_hold_between_sessions_are_waited_for_and_end_with_their_holder() {
    let drive = create(&MemoryBucket::new());
    let (ada, bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
    let take = |member: &Member, range, ticket| LockAsk::Take {
        lock: lock(member, range, LockKind::Exclusive),
        ticket,
    };
    assert_eq!(ada.lock(take(&ada, (0, 9), None)), Locked::Taken);
    assert_eq!(bob.lock(take(&bob, (20, 29), None)), Locked::Taken);
    let Locked::Blocked(blocker) = bob.lock(take(&bob, (5, 5), None)) else {
        panic!("ada has it")
    };
    assert_eq!((blocker.owner.session, blocker.range.last), (ada.who.session, 9));
    assert_eq!(bob.lock(take(&bob, (5, 5), Some(77))), Locked::Queued);
    assert_eq!(ada.lock(take(&ada, (25, 25), Some(1))), Locked::Deadlock);
    let (told, hears) = mpsc::channel();
    drive.hear(bob.who, Box::new(move |tickets| told.send(tickets).unwrap()));
    assert!(hears.try_recv().is_err(), "nothing has become of it");
    Owner::close(&*drive, ada.who.session).unwrap();
    assert_eq!(hears.try_recv().unwrap().unwrap().tickets, [77]);
    let test = LockAsk::Test(lock(&bob, (0, 9), LockKind::Exclusive));
    assert_eq!(
        bob.lock(test),
        Locked::Taken,
        "what is one's own is in nobody's way"
    );
    let eve = Member::new(&drive, "eve");
    assert!(matches!(eve.lock(take(&eve, (5, 5), None)), Locked::Blocked(_)));
    assert_eq!(eve.lock(take(&eve, (5, 5), Some(3))), Locked::Queued);
    assert_eq!(eve.lock(LockAsk::Forget { ticket: 3 }), Locked::Queued);
}
