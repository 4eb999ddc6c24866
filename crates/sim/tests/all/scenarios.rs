//! What worlds have found, step by step: a drive and its client together, without chance.

use bytes::Bytes;
use std::sync::Arc;
use tenure_client::Branch;
use tenure_model::{BranchName, DriveName, Ino, Name, NewNode, RenameMode};
use tenure_server::{Beginning, Drive};
use tenure_sim::clock::SimClock;
use tenure_store::faulty::{CallKind, Fault, Plan};
use tenure_store::{FaultyBucket, MemoryBucket};
use tenure_wire::{Access, Error, Owner, Who};

/// Names that fill more than a small segment.
const LINKS: usize = 1000;

struct Scene {
    bucket: Arc<FaultyBucket>,
    branch: Branch,
}

fn name(text: &str) -> Name {
    Name::parse(text.as_bytes()).expect("a literal name")
}

fn drive_name() -> DriveName {
    DriveName::parse("work").expect("a literal name")
}

fn options(clock: &Arc<SimClock>, nonce: u8) -> tenure_server::Options {
    tenure_server::Options {
        threads: tenure_server::Threads::None,
        journal_sizes: tenure_server::JournalSizes {
            first: 64 << 10,
            next: 128 << 10,
            reserve: 16 << 10,
        },
        ..tenure_server::Options::new(clock.clone(), Arc::new(move || [nonce; 16]), "box", 1)
    }
}

fn hold(drive: &Arc<Drive>, clock: &Arc<SimClock>) -> Branch {
    let who = Who {
        agent: "ada".into(),
        host: "box".into(),
        pid: 1,
        purpose: "a scene".into(),
        hosted: true,
    };
    let options = tenure_client::Options {
        threads: tenure_client::Threads::None,
        ..tenure_client::Options::default()
    };
    let opened = Owner::open(&**drive, &who).expect("nothing fails yet");
    let (clock, witness) = (clock.clone(), Arc::new(()));
    Branch::hold(
        drive.clone(),
        (clock, witness),
        opened,
        ("main", Access::Exclusive),
        options,
    )
    .expect("nothing fails yet")
}

impl Scene {
    fn new(memory: &MemoryBucket) -> Self {
        let clock = Arc::new(SimClock::default());
        let bucket = Arc::new(FaultyBucket::new(Arc::new(memory.clone()), Plan::none()));
        let beginning = Beginning {
            hash_key: [7; 16],
            branch: BranchName::parse("main").expect("a literal name"),
            uid: 0,
            gid: 0,
        };
        let drive = Drive::create(bucket.clone(), &drive_name(), &beginning, options(&clock, 1));
        let branch = hold(&drive.expect("nothing fails yet"), &clock);
        Self { bucket, branch }
    }

    fn file(&self, at: &str, bytes: &[u8]) -> Ino {
        let node = NewNode::file();
        let made = self.branch.create(Ino::ROOT, &name(at), &node);
        let ino = made.expect("the name is free").0;
        self.branch
            .write(ino, 0, Bytes::copy_from_slice(bytes))
            .expect("there is room");
        ino
    }

    fn sync(&self, ino: Ino) -> Result<(), Error> {
        let (send, receive) = std::sync::mpsc::channel();
        self.branch
            .sync(ino, Box::new(move |synced| drop(send.send(synced))));
        receive.recv().expect("a sync is answered")
    }
}

/// Returns what a name holds after the power has failed.
fn after_power_loss(memory: &MemoryBucket, at: &str) -> Vec<u8> {
    let clock = Arc::new(SimClock::default());
    let left = Arc::new(memory.after_power_loss(1));
    let drive = Drive::open(left, &drive_name(), options(&clock, 2)).expect("nothing fails");
    let branch = hold(&drive, &clock);
    let (ino, attr) = branch
        .lookup(Ino::ROOT, &name(at))
        .expect("the names were synced");
    let mut bytes = Vec::new();
    branch
        .read(ino, 0, attr.size as usize, &mut bytes)
        .expect("nothing fails");
    bytes
}

#[test]
fn an_exchange_goes_out_with_the_bytes_of_both_files() {
    let memory = MemoryBucket::new();
    let scene = Scene::new(&memory);
    let (one, other) = (vec![1; 50_000], vec![2; 50_000]);
    scene.file("one", &one);
    scene.file("other", &other);
    let synced = scene.file("synced", b"a file of its own");
    let ends = ((Ino::ROOT, &name("one")), (Ino::ROOT, &name("other")));
    scene
        .branch
        .rename(ends.0, ends.1, RenameMode::Exchange)
        .expect("both are there");
    // So much is staged that a sync of another file takes only what it must.
    scene.sync(synced).expect("nothing fails");
    assert!(after_power_loss(&memory, "one") == other);
    assert!(after_power_loss(&memory, "other") == one);
}

#[test]
fn what_fails_before_a_batch_is_in_order_fails_a_sync_and_not_the_mount() {
    for (kind, part) in [
        (CallKind::Create, "packs"),
        (CallKind::Create, "next-"),
        (CallKind::Write, "next-"),
    ] {
        let memory = MemoryBucket::new();
        let scene = Scene::new(&memory);
        let bytes = vec![3; 300_000];
        let ino = scene.file("file", &bytes);
        // So many names that they need a segment of their own.
        for number in 0..LINKS {
            let long = name(&format!("{number:0200}"));
            let linked = scene.branch.link(ino, Ino::ROOT, &long);
            linked.expect("the name is free");
        }
        scene
            .bucket
            .set_plan(Plan::none().on(kind, part, Fault::LoseReply));
        assert!(scene.sync(ino).is_err(), "{kind:?} of {part}");
        assert_eq!(scene.branch.broken(), None, "{kind:?} of {part}");
        scene.bucket.set_plan(Plan::none());
        scene.sync(ino).expect("the fault is over, and the drive goes on");
        assert!(after_power_loss(&memory, "file") == bytes);
    }
}

#[test]
fn a_segment_that_could_not_be_made_fails_a_sync_of_names_and_not_the_mount() {
    for kind in [CallKind::Create, CallKind::Write] {
        let memory = MemoryBucket::new();
        let scene = Scene::new(&memory);
        let ino = scene.file("file", b"bytes");
        scene.sync(ino).expect("nothing fails yet");
        scene
            .bucket
            .set_plan(Plan::none().on(kind, "next-", Fault::LoseReply));
        // Batches of names alone, which are small: they take the last of the room before they need a segment.
        let mut failed = false;
        for number in 0..LINKS {
            let long = name(&format!("{number:0200}"));
            let linked = scene.branch.link(ino, Ino::ROOT, &long);
            linked.expect("the name is free");
            failed = scene.sync(ino).is_err();
            if failed {
                break;
            }
        }
        assert!(failed, "{kind:?}: a segment was needed");
        assert_eq!(scene.branch.broken(), None, "{kind:?}");
        scene.bucket.set_plan(Plan::none());
        scene.sync(ino).expect("the fault is over, and the drive goes on");
    }
}
