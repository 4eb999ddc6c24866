//! What is too much: links, names of attributes, and names in one directory that cannot be too many.

use crate::stored::{KEY, Pages, ROOT};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use tenure_core::{Branch, Outcome, Undecided};
use tenure_model::{Ino, Name, NewNode, Op, Refusal, RenameMode, Timestamp, XattrMode, XattrName, limits};

const FILE: Ino = Ino(16);
const TIME: Timestamp = Timestamp { secs: 1, nanos: 0 };

fn name(number: u64) -> Name {
    Name::parse(format!("{number}").as_bytes()).expect("it is a name")
}

fn create(number: u64) -> Op {
    let node = NewNode::file();
    Op::Create {
        parent: Ino::ROOT,
        name: name(number),
        ino: Ino(FILE.0 + number),
        node,
        time: TIME,
    }
}

fn unlink(number: u64) -> Op {
    Op::Unlink {
        parent: Ino::ROOT,
        name: name(number),
        time: TIME,
    }
}

fn change(branch: &mut Branch, op: &Op) -> Result<Outcome, Refusal> {
    branch.change(op).map_err(|undecided| match undecided {
        Undecided::Refused(refusal) => refusal,
        Undecided::Missing(_) => unreachable!("everything is in memory"),
    })
}

#[test]
fn an_inode_has_as_many_links_as_it_may_and_no_more() {
    let mut branch = Branch::new(KEY, ROOT);
    change(&mut branch, &create(0)).expect("no rule is against it");
    let link = |number| Op::Link {
        ino: FILE,
        parent: Ino::ROOT,
        name: name(number),
        time: TIME,
    };
    let max = u64::from(limits::LINKS_MAX);
    for number in 1..max {
        change(&mut branch, &link(number)).expect("there may be one more");
    }
    assert_eq!(change(&mut branch, &link(max)), Err(Refusal::TooManyLinks));
    let outcome = change(&mut branch, &unlink(77)).expect("it is there");
    assert_eq!(
        outcome.inode.map(|(_, attr)| attr.nlink),
        Some(limits::LINKS_MAX - 1)
    );
    change(&mut branch, &link(max)).expect("there may be one more again");
}

#[test]
fn the_names_of_attributes_are_no_more_than_one_answer_can_list() {
    let mut branch = Branch::new(KEY, ROOT);
    let set = |number: u64, mode| Op::SetXattr {
        ino: Ino::ROOT,
        name: XattrName::parse(format!("user.{number:0>250}").as_bytes()).expect("it is a name"),
        value: Box::from(*b"value"),
        mode,
        time: TIME,
    };
    let count = limits::XATTR_LIST_LEN_MAX as u64 / 256;
    for number in 0..count {
        change(&mut branch, &set(number, XattrMode::Create)).expect("there may be one more");
    }
    assert_eq!(
        change(&mut branch, &set(count, XattrMode::Set)),
        Err(Refusal::NoSpace)
    );
    change(&mut branch, &set(7, XattrMode::Replace)).expect("it is listed already");
    let mut listed = 0;
    branch
        .xattrs(Ino::ROOT, |name| listed += name.len() + 1)
        .expect("everything is in memory");
    assert_eq!(listed, limits::XATTR_LIST_LEN_MAX);
}

#[test]
fn a_name_that_is_too_long_for_an_attribute_is_that_of_none() {
    let mut branch = Branch::new(KEY, ROOT);
    let name = XattrName::parse(b"user.a").expect("it is a name");
    let set = Op::SetXattr {
        ino: Ino::ROOT,
        name,
        value: Box::from([]),
        mode: XattrMode::Set,
        time: TIME,
    };
    change(&mut branch, &set).expect("no rule is against it");
    let read = branch.xattr(Ino::ROOT, &[b'x'; 300]);
    assert!(matches!(read, Err(Undecided::Refused(Refusal::NoAttribute))));
}

/// Entries of the directory that is listed.
const MANY: u64 = 100_000;
/// Entries that one listing takes.
const LISTED: usize = 700;

/// A program that lists a directory, and what it has been told.
#[derive(Default)]
struct Listing {
    after: u64,
    told: BTreeMap<Vec<u8>, Ino>,
}

impl Listing {
    /// Lists some more; tells whether there was any more.
    fn go_on(&mut self, branch: &Branch) -> bool {
        let mut count = 0;
        let listed = branch.list(Ino::ROOT, self.after, |entry| {
            assert!(
                entry.cookie > self.after && entry.cookie < 1 << 63,
                "cookies rise, and are offsets"
            );
            self.after = entry.cookie;
            let before = self.told.insert(entry.name.to_vec(), entry.ino);
            assert!(
                before.is_none_or(|before| before != entry.ino),
                "an entry is told once"
            );
            count += 1;
            if count == LISTED {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        listed.expect("everything is in memory");
        count > 0
    }
}

#[test]
fn a_listing_of_100_000_entries_is_stable_while_others_come_go_and_move() {
    let mut branch = Branch::new(KEY, ROOT);
    for number in 0..MANY {
        change(&mut branch, &create(number)).expect("no rule is against it");
    }
    let (mut listing, mut round, mut touched) = (Listing::default(), 0, BTreeSet::new());
    while listing.go_on(&branch) {
        // Each round removes an entry, makes one anew and moves one; all are far apart in the directory.
        let [removed, again, moved] = [7 * round, 7 * round + 1, 7 * round + 2];
        let rename = Op::Rename {
            from: Ino::ROOT,
            name: name(moved),
            to: Ino::ROOT,
            new_name: name(MANY + 2 * round),
            mode: RenameMode::NoReplace,
            time: TIME,
        };
        for op in [
            unlink(removed),
            rename,
            create(MANY + 2 * round + 1),
            unlink(again),
        ] {
            change(&mut branch, &op).expect("no rule is against it");
        }
        let Op::Create {
            parent,
            name: _,
            node,
            time,
            ..
        } = create(0)
        else {
            unreachable!()
        };
        let ino = Ino(10 * MANY + round);
        let anew = Op::Create {
            parent,
            name: name(again),
            ino,
            node,
            time,
        };
        change(&mut branch, &anew).expect("its name is free");
        touched.extend([removed, again, moved]);
        round += 1;
    }
    assert!(round > MANY / LISTED as u64, "it took {round} listings");
    for number in (0..MANY).filter(|number| !touched.contains(number)) {
        let told = listing.told.get(name(number).as_bytes());
        assert_eq!(told, Some(&Ino(FILE.0 + number)), "what nobody touched is listed");
    }
    let root = branch
        .attr(Ino::ROOT)
        .expect("everything is in memory")
        .expect("there is a root");
    assert_eq!(root.size, MANY, "one went and one came in each round");
    let pages = Pages::default();
    pages.check(&branch);
}
