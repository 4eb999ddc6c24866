//! Any sessions that share a branch, with any loans, recalls and losses, against the one tree that they should have made.

use crate::borrower::Member;
use crate::lent::next_owner;
use crate::shared::{create_op, named, time};
use crate::world::{StillClock, content, create_by, on_each_tier};
use std::sync::Arc;
use std::time::Duration;
use tenure_core::Branch;
use tenure_model::{
    Attr, AttrChange, Extent, Ino, Kind, Op, Piece, Refusal, RenameMode, SessionId, XattrMode, XattrName,
};
use tenure_server::Drive;
use tenure_store::MemoryBucket;
use tenure_wire::Error;
use tenure_wire::Owner;
use tenure_wire::shared::{Deed, Look, Seen, WriteAt};

/// Times that somebody asks again: each other session gives back what it has in one turn.
const TURNS_MAX: usize = 20;

/// Something that was done.
struct Done {
    by: SessionId,
    op: Op,
    /// Whether it outlives who has done it.
    is_kept: bool,
}

struct World {
    bucket: MemoryBucket,
    drive: Arc<Drive>,
    clock: Arc<StillClock>,
    members: Vec<Member>,
    first: Branch,
    done: Vec<Done>,
    tree: Branch,
    made: Vec<Ino>,
    draw: u64,
    /// How often something was decided by who had borrowed.
    here: usize,
}

impl World {
    fn new(bucket: MemoryBucket, seed: u64) -> Self {
        let clock = Arc::<StillClock>::default();
        let drive = create_by(&clock, &bucket);
        let members: Vec<_> = ["ada", "bob", "eve"]
            .iter()
            .map(|agent| Member::new(&drive, agent))
            .collect();
        let reader = crate::world::Holder::reader(&drive, "main");
        let first = reader.branch.clone();
        Owner::close(&*drive, reader.session).unwrap();
        Self {
            bucket,
            drive,
            clock,
            members,
            tree: first.clone(),
            first,
            done: Vec::new(),
            made: vec![Ino::ROOT],
            draw: 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed) | 1,
            here: 0,
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.draw ^= self.draw << 13;
        self.draw ^= self.draw >> 7;
        self.draw ^= self.draw << 17;
        self.draw % below
    }

    fn any_member(&mut self) -> usize {
        self.draw(self.members.len() as u64) as usize
    }

    /// Draws an inode that is there.
    fn any_made(&mut self) -> Ino {
        loop {
            let at = self.draw(self.made.len() as u64) as usize;
            let ino = self.made[at];
            if self.tree.attr(ino).unwrap().is_some() {
                return ino;
            }
        }
    }

    fn op(&mut self, at: usize) -> Op {
        let name = format!("n{}", self.draw(6));
        let (parent, other) = (self.any_made(), self.any_made());
        let time = time(self.draw(1000) as i64);
        match self.draw(9) {
            0 | 1 => {
                let kind = match self.draw(2) {
                    0 => Kind::Directory,
                    _ => Kind::File,
                };
                let ino = self.members[at].inos.take().unwrap();
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
                to: if self.draw(2) == 0 { parent } else { other },
                new_name: named(&format!("n{}", self.draw(6))),
                mode: [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange]
                    [self.draw(3) as usize],
                time,
            },
            6 => Op::SetAttr {
                ino: parent,
                change: AttrChange {
                    size: Some(self.draw(300)),
                    ..AttrChange::default()
                },
                time,
            },
            7 => Op::SetXattr {
                ino: parent,
                name: XattrName::parse(b"user.k").unwrap(),
                value: Box::from(name.as_bytes()),
                mode: XattrMode::Set,
                time,
            },
            _ => self.write(parent),
        }
    }

    fn write(&mut self, ino: Ino) -> Op {
        let (offset, len) = (self.draw(300), 1 + self.draw(100) as usize);
        let extent = Extent::Inline(content(self.draw, len).into());
        Op::Write {
            ino,
            pieces: vec![Piece { offset, extent }],
            size: 0,
            time: Some(time(self.draw(1000) as i64)),
        }
    }

    fn pump(&mut self) {
        self.members.iter_mut().for_each(Member::pump);
        self.note_shipped();
    }

    /// Notes what has been shipped: it outlives who has done it.
    fn note_shipped(&mut self) {
        for member in self.members.iter().filter(|member| member.ops.is_empty()) {
            let theirs = self.done.iter_mut().filter(|done| done.by == member.who.session);
            theirs.for_each(|done| done.is_kept = true);
        }
    }

    fn step(&mut self) {
        let at = self.any_member();
        let op = self.op(at);
        if self.draw(3) == 0 {
            let directory = self.any_made();
            self.members[at].borrow(directory);
            self.note_shipped();
        }
        let mut with = self.tree.clone();
        let expected = with.change(&op);
        let (outcome, is_kept) = match self.members[at].try_here(&op) {
            Some(outcome) => {
                self.here += 1;
                (outcome, false)
            }
            None => (self.act(at, &op), true),
        };
        match (expected, outcome) {
            (Ok(expected), Ok(inode)) => {
                assert_eq!(inode, expected.inode, "{op:?}");
                let by = self.members[at].who.session;
                self.done.push(Done { by, op, is_kept });
                if let Some(ino) = expected.orphan {
                    with.change(&Op::Drop { ino }).unwrap();
                }
                self.tree = with;
            }
            (Err(_), Err(_)) => {}
            (expected, outcome) => panic!("{op:?}: {expected:?} and {outcome:?}"),
        }
    }

    fn act(&mut self, at: usize, op: &Op) -> Result<Option<(Ino, Attr)>, Refusal> {
        let deed = if let Op::Write {
            ino, pieces, time, ..
        } = op
        {
            let Extent::Inline(bytes) = &pieces[0].extent else {
                panic!("it is short")
            };
            Deed::Write {
                ino: *ino,
                at: WriteAt::Offset(pieces[0].offset),
                bytes: bytes.clone(),
                time: time.unwrap(),
            }
        } else {
            Deed::Op(op.clone())
        };
        for _ in 0..TURNS_MAX {
            let ordered = self.members[at].act(&deed);
            self.note_shipped();
            match ordered {
                Ok(ordered) => return Ok(ordered.inode),
                Err(Error::Refused(Refusal::Elsewhere { .. })) => self.pump(),
                Err(Error::Refused(Refusal::NotFound)) if !self.is_all_known() => self.tell_all(),
                Err(Error::Refused(refusal)) => return Err(refusal),
                Err(error) => panic!("{op:?}: {error}"),
            }
        }
        panic!("{op:?} waits for ever")
    }

    /// Tells whether the owner knows of every inode: nobody else can name one of which it does not.
    fn is_all_known(&self) -> bool {
        self.members.iter().all(|member| member.ops.is_empty())
    }

    fn tell_all(&mut self) {
        self.members.iter_mut().for_each(|member| member.ship().unwrap());
        self.note_shipped();
    }

    fn attr(&mut self, at: usize, ino: Ino) -> Option<Attr> {
        if self.members[at].cover.home(ino).is_some() {
            return self.members[at].local(|branch| Ok(branch.attr(ino)?)).unwrap();
        }
        let mut asked = 0;
        for _ in 0..TURNS_MAX {
            match self.members[at].look(&Look::Attr(ino), asked) {
                Ok(Seen::Inode(_, attr)) => return Some(attr),
                Err(Error::Refused(Refusal::Elsewhere { asked: number })) => asked = number,
                Err(Error::Refused(Refusal::NotFound)) if self.is_all_known() => return None,
                Err(Error::Refused(Refusal::NotFound)) => self.tell_all(),
                other => panic!("{other:?}"),
            }
            self.pump();
        }
        panic!("a look waits for ever")
    }

    fn see(&mut self) {
        let (at, ino) = (self.any_member(), self.any_made());
        let expected = self.tree.attr(ino).unwrap();
        assert_eq!(self.attr(at, ino), expected, "inode {ino}");
    }

    /// Lets time pass in which everybody is heard.
    fn pass(&self) {
        for _ in 0..3 {
            self.clock.pass(Duration::from_secs(2));
            for member in &self.members {
                self.drive.prolong(member.who).unwrap();
            }
        }
    }

    /// Ends the owner without a word, and goes on at the next.
    fn lose_owner(&mut self) {
        let nowhere = create_by(&Arc::default(), &MemoryBucket::new());
        self.members
            .iter_mut()
            .for_each(|member| member.drive = nowhere.clone());
        self.drive = nowhere;
        (self.clock, self.drive) = next_owner(&self.bucket);
        if self.draw(2) == 0 {
            self.members.reverse();
        }
        let drive = self.drive.clone();
        self.members.iter_mut().for_each(|member| member.rejoin(&drive));
        self.pass();
    }

    /// Loses a session with all that it has not shipped; another comes.
    fn lose_member(&mut self) {
        let at = self.any_member();
        // What was put in order by the owner alone is not lost with it.
        self.drive.sync(self.members[at].who).unwrap();
        let gone = self.members.remove(at).who.session;
        self.done.retain(|done| done.by != gone || done.is_kept);
        self.tree = self.first.clone();
        for done in &self.done {
            let outcome = self.tree.change(&done.op).unwrap();
            if let Some(ino) = outcome.orphan {
                self.tree.change(&Op::Drop { ino }).unwrap();
            }
        }
        self.pass();
        self.members.push(Member::new(&self.drive, "new"));
    }

    fn check(&mut self) {
        self.members.iter_mut().for_each(|member| member.ship().unwrap());
        self.note_shipped();
        for at in 0..self.members.len() {
            for ino in self.made.clone() {
                let expected = self.tree.attr(ino).unwrap();
                assert_eq!(self.attr(at, ino), expected, "inode {ino}");
            }
        }
        assert_eq!(self.drive.check(true).unwrap(), [""; 0]);
    }
}

#[test]
fn sessions_with_any_loans_make_what_one_tree_makes_of_what_they_do_whoever_is_lost() {
    for seed in 1..=40 {
        on_each_tier(|bucket| {
            let mut world = World::new(bucket, seed);
            for _ in 0..150 {
                match world.draw(40) {
                    0 => world.lose_owner(),
                    1 => world.lose_member(),
                    2 => {
                        let at = world.any_member();
                        world.members[at].sync();
                        world.note_shipped();
                    }
                    3 => world.drive.fold().unwrap(),
                    4 | 5 => world.pass(),
                    6..=9 => world.see(),
                    _ => world.step(),
                }
            }
            world.check();
            world.lose_owner();
            world.check();
            assert!(world.here > 0, "something was decided by who had borrowed");
        });
    }
}
