//! What the owner does not believe: batches out of order, numbers that were not lent, bytes that are not there.

use crate::world::{Holder, content, create, open, says, ship};
use std::ops::ControlFlow;
use tenure_core::{Branch, Totals, Tree};
use tenure_model::{ChunkPlace, Digest, Epoch, Ino, Kind, Refusal};
use tenure_store::MemoryBucket;
use tenure_wire::{Chunk, Error, Owner};

#[test]
fn a_batch_is_accepted_only_right_behind_the_last_one() {
    let drive = create(&MemoryBucket::new());
    let mut holder = Holder::remote(&drive, "main");
    holder.make(Ino::ROOT, "first", Kind::File);
    holder.ship();
    holder.make(Ino::ROOT, "second", Kind::File);
    let good = holder.batch();
    let stale = |batch| assert_eq!(ship(&drive, batch, None), Err(Refusal::Stale.into()));
    let mut batch = good.clone();
    batch.number += 1;
    stale(batch);
    let mut batch = good.clone();
    batch.number -= 1;
    stale(batch);
    let mut batch = good.clone();
    batch.previous = Digest::of(b"another");
    stale(batch);
    let mut batch = good.clone();
    batch.epoch = Epoch(0);
    stale(batch);
    let mut batch = good.clone();
    batch.epoch = batch.epoch.next();
    stale(batch);
    let mut batch = good.clone();
    batch.session = batch.session.next();
    stale(batch);
    let mut batch = good.clone();
    batch.branch = batch.branch.next();
    stale(batch);
    ship(&drive, good, None).unwrap();
}

#[test]
fn a_batch_whose_answer_was_lost_is_acknowledged_again_and_not_applied_twice() {
    let bucket = MemoryBucket::new();
    let drive = create(&bucket);
    let mut holder = Holder::remote(&drive, "main");
    holder.make(Ino::ROOT, "file", Kind::File);
    let batch = holder.batch();
    let first = ship(&drive, batch.clone(), None).unwrap();
    assert_eq!(ship(&drive, batch.clone(), None), Ok(first));
    let drive = open(&bucket.copy());
    assert_eq!(ship(&drive, batch, None), Ok(first), "also by the next owner");
    assert_eq!(Holder::reader(&drive, "main").names(), ["file"]);
}

#[test]
fn numbers_that_were_not_lent_are_refused() {
    let drive = create(&MemoryBucket::new());
    let mut holder = Holder::remote(&drive, "main");
    holder.inos.next = holder.inos.end;
    holder.inos.end = holder.inos.end.next();
    holder.make(Ino::ROOT, "file", Kind::File);
    assert!(says(holder.try_ship()).contains("an inode number that was not lent"));
}

#[test]
fn a_refused_op_refuses_its_whole_batch() {
    let drive = create(&MemoryBucket::new());
    let mut holder = Holder::remote(&drive, "main");
    holder.make(Ino::ROOT, "file", Kind::File);
    let mut batch = holder.batch();
    batch.ops.extend(batch.ops.clone());
    assert_eq!(ship(&drive, batch, None), Err(Refusal::Exists.into()));
    assert_eq!(Holder::reader(&drive, "main").names(), [""; 0]);
}

#[test]
fn ops_that_are_none_are_refused_and_the_drive_goes_on() {
    let drive = create(&MemoryBucket::new());
    let mut holder = Holder::remote(&drive, "main");
    holder.make(Ino::ROOT, "file", Kind::File);
    let mut batch = holder.batch();
    batch.ops.truncate(batch.ops.len() - 1);
    assert!(matches!(ship(&drive, batch, None), Err(Error::Refused(_))));
    let mut holder = holder;
    holder.make(Ino::ROOT, "other", Kind::File);
    assert_eq!(ship(&drive, holder.batch(), None).map(drop), Ok(()));
}

#[test]
fn chunks_that_the_drive_does_not_have_are_refused() {
    let drive = create(&MemoryBucket::new());
    let mut holder = Holder::remote(&drive, "main");
    let ino = holder.file("file", &content(1, 5000));
    holder.ship();
    let place = |bytes: &[u8]| {
        let digest = Digest::of(bytes);
        drive
            .place(holder.session, &[Chunk { digest, bytes }])
            .map(|mut places| places.remove(0))
    };
    let real = place(&content(2, 5000)).unwrap();
    let lies = [
        ChunkPlace {
            at: tenure_model::Address {
                digest: Digest::of(b"x"),
                ..real.at
            },
            ..real.clone()
        },
        ChunkPlace {
            len: 6000,
            ..real.clone()
        },
        ChunkPlace {
            offset: real.offset + 1,
            ..real.clone()
        },
    ];
    let (session, branch) = (holder.session, holder.branch.clone());
    for lie in lies {
        holder.branch = branch.clone();
        holder.write_placed(ino, lie);
        let refused = holder.try_ship();
        assert!(
            matches!(refused, Err(Error::Refused(Refusal::NoChunk { .. }))),
            "{refused:?}"
        );
    }
    let bytes = content(3, 5000);
    let wrong = drive.place(
        session,
        &[Chunk {
            digest: Digest::of(b"y"),
            bytes: &bytes,
        }],
    );
    assert!(says(wrong).contains("a chunk's digest is not that of its bytes"));
}

#[test]
fn a_bug_stops_the_drive_at_its_epoch_and_says_how_to_go_on() {
    let bucket = MemoryBucket::new();
    let drive = create(&bucket);
    let mut good = Holder::hosted(&drive, "main");
    good.make(Ino::ROOT, "file", Kind::File);
    good.ship();
    // A holder of this process is believed; this one has a bug and hands over a tree with a malformed record.
    let mut tree = Tree::new();
    let mut key = Vec::new();
    good.branch
        .tree()
        .scan(
            std::ops::Bound::Unbounded,
            std::ops::Bound::Unbounded,
            |first, _| {
                key = first.to_vec();
                ControlFlow::Break(())
            },
        )
        .unwrap();
    tree.insert(&key, b"not an attribute").unwrap();
    let at = tree.fold(&mut |_| {
        Ok::<_, ()>(tenure_model::Address {
            pack: tenure_model::PackNumber(1),
            digest: Digest::of(b""),
        })
    });
    at.unwrap();
    let broken = Branch::stored([7; 16], tree, Totals { inodes: 1, bytes: 0 });
    good.make(Ino::ROOT, "other", Kind::File);
    let last = good.batch();
    let digest = ship(&drive, last, Some(broken)).unwrap().digest;
    good.number += 1;
    good.previous = digest;
    good.make(Ino::ROOT, "third", Kind::File);
    let said = says(ship(&drive, good.batch(), None));
    assert!(said.contains("a bug has stopped the drive at epoch 1"), "{said}");
    assert!(said.contains("open the drive again"), "{said}");
    assert_eq!(
        says(drive.branches()),
        said,
        "everybody is told the same from then on"
    );
    assert!(drive.status().unwrap().trouble.is_some());
    drop((good, drive));

    let drive = open(&bucket);
    assert_eq!(Holder::reader(&drive, "main").names(), ["file", "other"]);
}
