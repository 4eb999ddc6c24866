//! What a session to which directories are lent may do by itself: no more than what nobody else sees to.

use crate::stored::{KEY, ROOT};
use tenure_core::{Branch, Cover, Lent, Plan};
use tenure_model::{AttrChange, Ino, Kind, Name, NewNode, Op, RenameMode, SessionId, Timestamp};

const TIME: Timestamp = Timestamp { secs: 1, nanos: 0 };
const ADA: SessionId = SessionId(1);
/// Two directories that are lent, one that is not, and what is in them.
const ONE: Ino = Ino(20);
const OTHER: Ino = Ino(21);
const FOREIGN: Ino = Ino(22);
const FILE: Ino = Ino(30);
const TWICE: Ino = Ino(31);
const BELOW: Ino = Ino(32);

fn name(text: &str) -> Name {
    Name::parse(text.as_bytes()).expect("it is a name")
}

fn create(parent: Ino, text: &str, ino: Ino, kind: Kind) -> Op {
    Op::Create {
        parent,
        name: name(text),
        ino,
        node: NewNode {
            kind,
            ..NewNode::file()
        },
        time: TIME,
    }
}

fn link(ino: Ino, parent: Ino, text: &str) -> Op {
    Op::Link {
        ino,
        parent,
        name: name(text),
        time: TIME,
    }
}

fn unlink(parent: Ino, text: &str) -> Op {
    Op::Unlink {
        parent,
        name: name(text),
        time: TIME,
    }
}

fn rmdir(parent: Ino, text: &str) -> Op {
    Op::Rmdir {
        parent,
        name: name(text),
        time: TIME,
    }
}

fn rename((from, text): (Ino, &str), (to, new): (Ino, &str)) -> Op {
    Op::Rename {
        from,
        name: name(text),
        to,
        new_name: name(new),
        mode: RenameMode::Replace,
        time: TIME,
    }
}

fn touch(ino: Ino) -> Op {
    Op::SetAttr {
        ino,
        change: AttrChange::default(),
        time: TIME,
    }
}

/// A session with its copy.
struct Holder {
    branch: Branch,
    cover: Cover,
}

impl Holder {
    fn new() -> Self {
        let mut branch = Branch::new(KEY, ROOT);
        for op in [
            create(Ino::ROOT, "one", ONE, Kind::Directory),
            create(Ino::ROOT, "other", OTHER, Kind::Directory),
            create(Ino::ROOT, "foreign", FOREIGN, Kind::Directory),
            create(ONE, "file", FILE, Kind::File),
            create(ONE, "twice", TWICE, Kind::File),
            link(TWICE, ONE, "again"),
            create(ONE, "below", BELOW, Kind::Directory),
        ] {
            branch.change(&op).expect("no rule is against it");
        }
        let mut cover = Cover::default();
        let lent = |directory| Lent { directory, by: ADA };
        cover.lend(lent(ONE), 1, [FILE, TWICE]);
        cover.lend(lent(OTHER), 1, []);
        Self { branch, cover }
    }

    /// Does something, if the session may; tells whether it did.
    fn may(&mut self, op: &Op) -> bool {
        let touched = self.branch.touched(op).expect("all is in memory");
        let mut plan = Plan::default();
        let may = self.cover.plan(ADA, &touched, &mut plan);
        if may {
            self.branch.change(op).expect("no rule is against it");
            self.cover.make(ADA, plan);
        }
        may
    }
}

#[test]
fn who_has_directories_does_there_what_touches_nothing_else() {
    let mut ada = Holder::new();
    for op in [
        touch(ONE),
        touch(FILE),
        create(ONE, "new", Ino(40), Kind::File),
        create(ONE, "made", Ino(41), Kind::Directory),
        create(Ino(41), "in it", Ino(42), Kind::File),
        rename((Ino(41), "in it"), (OTHER, "moved")),
        rename((ONE, "file"), (OTHER, "moved")),
        unlink(ONE, "again"),
        rename((ONE, "twice"), (OTHER, "once")),
        link(TWICE, OTHER, "and again"),
        rmdir(ONE, "made"),
        touch(Ino(42)),
    ] {
        assert!(ada.may(&op), "{op:?}");
    }
    let homes = [FILE, TWICE, Ino(40), Ino(42)].map(|ino| ada.cover.home(ino));
    assert_eq!(
        homes,
        [OTHER, OTHER, ONE, OTHER].map(Some),
        "also of what has no entry any more"
    );
    assert_eq!(ada.cover.home(Ino(41)), None);
    assert_eq!(ada.cover.of(ADA).collect::<Vec<_>>(), [ONE, OTHER]);
}

/// What is open stays, also when all above it is removed; the owner plans a whole batch, the session op by op.
#[test]
fn what_has_no_entry_any_more_is_covered_as_before_though_its_directory_was_made_and_removed_meanwhile() {
    let ops = [
        create(ONE, "made", Ino(41), Kind::Directory),
        create(Ino(41), "in it", Ino(42), Kind::File),
        unlink(Ino(41), "in it"),
        rmdir(ONE, "made"),
        touch(Ino(42)),
    ];
    let mut ada = Holder::new();
    let (mut owner, mut plan) = (Holder::new(), Plan::default());
    for op in &ops {
        assert!(ada.may(op), "{op:?}");
        let touched = owner.branch.touched(op).expect("all is in memory");
        assert!(owner.cover.plan(ADA, &touched, &mut plan), "{op:?}");
        owner.branch.change(op).expect("no rule is against it");
    }
    owner.cover.make(ADA, plan);
    for holder in [&mut ada, &mut owner] {
        assert!(holder.may(&touch(Ino(42))));
        assert_eq!(holder.cover.home(Ino(41)), None, "it takes nothing more");
        holder.cover.uncover(Ino(42));
        assert_eq!(holder.cover.of(ADA).collect::<Vec<_>>(), [ONE, OTHER]);
    }
}

#[test]
fn what_touches_anything_else_is_not_for_who_has_directories() {
    for op in [
        touch(Ino::ROOT),
        touch(BELOW),
        create(FOREIGN, "new", Ino(40), Kind::File),
        create(BELOW, "new", Ino(40), Kind::File),
        rmdir(ONE, "below"),
        rename((ONE, "below"), (ONE, "renamed")),
        rename((ONE, "file"), (FOREIGN, "moved")),
        rename((ONE, "twice"), (OTHER, "one of two")),
        link(FILE, OTHER, "second"),
        link(FILE, FOREIGN, "second"),
        rmdir(Ino::ROOT, "one"),
    ] {
        assert!(!Holder::new().may(&op), "{op:?}");
    }
    let mut ada = Holder::new();
    assert!(ada.may(&create(ONE, "made", Ino(41), Kind::Directory)));
    let above = rename((ONE, "made"), (OTHER, "made"));
    assert!(!ada.may(&above), "what is above both decides whether that may be");
}

#[test]
fn what_is_taken_back_covers_nothing_any_more() {
    let mut ada = Holder::new();
    assert!(ada.may(&unlink(ONE, "file")));
    let lent = Lent {
        directory: ONE,
        by: ADA,
    };
    assert!(ada.cover.is_lent(lent, 1) && !ada.cover.is_lent(lent, 0));
    assert_eq!(ada.cover.over(FILE), Some(lent));
    let covered: Vec<_> = ada.cover.take_back(ONE).into_iter().collect();
    assert_eq!(covered, [FILE, TWICE]);
    assert_eq!((ada.cover.over(ONE), ada.cover.over(TWICE)), (None, None));
    assert!(!ada.may(&touch(TWICE)));
    ada.cover.take_back(OTHER);
    assert!(ada.cover.is_empty());
}
