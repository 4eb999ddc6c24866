//! A bucket without room, or without an answer: what fails, what is kept, how it goes on.

use crate::world::{Holder, beginning, content, drive_name, fork_ask, options, says, try_open};
use std::sync::Arc;
use tenure_model::record::Source;
use tenure_model::{Ino, Kind};
use tenure_server::{Drive, Options};
use tenure_store::faulty::{CallKind, Fault, FaultyBucket, Plan};
use tenure_store::{Bucket, MemoryBucket};
use tenure_wire::Owner;

fn faulty() -> (MemoryBucket, Arc<FaultyBucket>, Arc<Drive>) {
    faulty_with(options(&Arc::default()))
}

/// Returns a drive that folds often.
fn folding() -> (MemoryBucket, Arc<FaultyBucket>, Arc<Drive>) {
    faulty_with(Options {
        fold_bytes: 10_000,
        ..options(&Arc::default())
    })
}

fn faulty_with(options: Options) -> (MemoryBucket, Arc<FaultyBucket>, Arc<Drive>) {
    let bucket = MemoryBucket::new();
    let faulty = Arc::new(FaultyBucket::new(Arc::new(bucket.clone()), Plan::none()));
    let drive = Drive::create(faulty.clone(), &drive_name(), &beginning(), options).unwrap();
    (bucket, faulty, drive)
}

/// Returns a plan in which nothing more has room.
fn full() -> Plan {
    [CallKind::Create, CallKind::Resize, CallKind::Put]
        .into_iter()
        .fold(Plan::none(), |plan, kind| plan.on(kind, "", Fault::NoSpace))
}

#[test]
fn without_room_nothing_is_accepted_and_nothing_is_lost_and_it_goes_on_when_there_is_some() {
    let (bucket, faulty, drive) = faulty();
    let mut holder = Holder::hosted(&drive, "main");
    holder.file("before", &content(1, 5000));
    holder.ship();
    faulty.set_plan(full());
    let mut shipped = 0;
    let error = loop {
        let bytes = content(shipped + 2, 1 << 20);
        let digest = tenure_model::Digest::of(&bytes);
        match drive.place(
            holder.session,
            &[tenure_wire::Chunk {
                digest,
                bytes: &bytes,
            }],
        ) {
            Err(error) => break error,
            Ok(mut places) => {
                let ino = holder.make(Ino::ROOT, &format!("file-{shipped}"), Kind::File);
                holder.write_placed(ino, places.remove(0));
            }
        }
        if let Err(error) = holder.try_ship() {
            break error;
        }
        shipped += 1;
        assert!(shipped < 2000, "room is asked for at some time");
    };
    assert_eq!(error.errno(), 28, "{error}");
    assert_eq!(drive.status().unwrap().trouble, None, "the drive has not stopped");
    assert_eq!(Holder::reader(&drive, "main").names().len() as u64, shipped + 1);

    faulty.set_plan(Plan::none());
    holder.file("after", &content(1, 5000));
    holder.ship();
    let names = holder.names();
    drop((holder, drive));
    let drive = try_open(Arc::new(bucket)).unwrap();
    assert_eq!(Holder::reader(&drive, "main").names(), names);
    assert_eq!(drive.check(true).unwrap(), [""; 0]);
}

#[test]
fn what_was_accepted_while_the_journal_fails_waits_and_is_durable_when_it_heals() {
    let (bucket, faulty, drive) = faulty();
    let mut holder = Holder::hosted(&drive, "main");
    holder.file("before", &content(1, 5000));
    holder.ship();
    faulty.set_plan(Plan::none().on(CallKind::Write, "journal/", Fault::Refuse));
    holder.file("waits", &content(2, 5000));
    let said = says(holder.try_ship());
    assert!(said.contains("accepted and is not durable yet"), "{said}");
    let trouble = drive.status().unwrap().trouble.expect("it is said");
    assert!(trouble.contains("what was accepted waits"), "{trouble}");
    // Who asks for more hears the same, and gets nothing wrong.
    let main = Source::Branch(holder.id.unwrap());
    let said = says(drive.fork(&fork_ask(&main, "try")));
    assert!(said.contains("not durable yet"), "{said}");
    faulty.set_plan(Plan::none());
    drive.fold().unwrap();
    assert_eq!(drive.status().unwrap().trouble, None);
    drop((holder, drive));
    let drive = try_open(Arc::new(bucket)).unwrap();
    assert_eq!(Holder::reader(&drive, "main").names(), ["before", "waits"]);
    assert_eq!(drive.check(true).unwrap(), [""; 0]);
}

#[test]
fn an_outage_while_nothing_is_written_is_over_when_it_is_over() {
    let (_, faulty, drive) = faulty();
    let mut holder = Holder::hosted(&drive, "main");
    holder.file("file", &content(1, 500_000));
    holder.ship();
    drive.fold().unwrap();
    let reader = Holder::reader(&drive, "main");
    faulty.set_outage(true);
    assert!(says(reader.try_read("file")).contains("the bucket does not answer"));
    assert!(
        drive
            .check(true)
            .unwrap()
            .iter()
            .any(|fault| fault.contains("the bucket does not answer"))
    );
    faulty.set_outage(false);
    assert_eq!(reader.read("file"), content(1, 500_000));
    assert_eq!(drive.check(true).unwrap(), [""; 0]);
    holder.file("more", &content(2, 500));
    holder.ship();
}

#[test]
fn room_is_that_of_the_disk() {
    let (_, faulty, drive) = faulty();
    let room = drive.room().unwrap();
    let space = faulty.disk().unwrap().space().unwrap();
    assert_eq!((room.total, room.free), (space.total, space.free));
}

#[test]
fn on_a_full_disk_files_can_be_removed_and_branches_given_back() {
    let (bucket, faulty, drive) = faulty();
    let mut holder = Holder::hosted(&drive, "main");
    let names: Vec<_> = (0..10).map(|number| format!("file-{number}")).collect();
    for name in &names {
        holder.file(name, &content(1, 5000));
    }
    holder.ship();
    faulty.set_plan(full());
    // The usual room is used up by what brings contents.
    for number in 0.. {
        let bytes = content(1000 + number, 60_000);
        let digest = tenure_model::Digest::of(&bytes);
        let Ok(mut places) = drive.place(
            holder.session,
            &[tenure_wire::Chunk {
                digest,
                bytes: &bytes,
            }],
        ) else {
            break;
        };
        let ino = holder.make(Ino::ROOT, &format!("more-{number}"), Kind::File);
        holder.write_placed(ino, places.remove(0));
        if let Err(error) = holder.try_ship() {
            assert_eq!(error.errno(), 28, "{error}");
            break;
        }
    }
    holder.give_back();
    let mut holder = Holder::hosted(&drive, "main");
    for name in &names {
        holder.unlink(name);
        holder.ship();
    }
    holder.give_back();
    drop(drive);
    let drive = try_open(Arc::new(bucket)).unwrap();
    assert!(
        Holder::reader(&drive, "main")
            .names()
            .iter()
            .all(|name| name.starts_with("more-"))
    );
}

#[test]
fn a_fold_that_finds_no_room_is_told_and_done_when_there_is_some() {
    let (bucket, faulty, drive) = folding();
    let mut holder = Holder::hosted(&drive, "main");
    faulty.set_plan(Plan::none().on(CallKind::Create, "packs/", Fault::NoSpace));
    let mut names = Vec::new();
    let mut make = |holder: &mut Holder, count: usize| {
        for _ in 0..count {
            names.push(format!("file-{}", names.len()));
            holder.make(Ino::ROOT, names.last().unwrap(), Kind::File);
            holder.ship();
        }
    };
    make(&mut holder, 200);
    let status = drive.status().unwrap();
    let trouble = status.trouble.unwrap();
    assert!(
        trouble.contains("the journal waits to be folded") && trouble.contains("no space left"),
        "{trouble}"
    );
    assert!(says(drive.fold()).contains("no space left"));
    faulty.set_plan(Plan::none());
    make(&mut holder, 200);
    let status = drive.status().unwrap();
    assert_eq!(status.trouble, None);
    assert!(
        status.journal_bytes < 20_000,
        "{} bytes wait to be folded",
        status.journal_bytes
    );
    drop((holder, drive));
    let drive = try_open(Arc::new(bucket)).unwrap();
    assert_eq!(Holder::reader(&drive, "main").names().len(), names.len());
    assert_eq!(drive.check(true).unwrap(), [""; 0]);
}

#[test]
fn a_manifest_whose_reply_is_lost_is_found_again() {
    let (bucket, faulty, drive) = faulty();
    let mut holder = Holder::hosted(&drive, "main");
    for round in 0..4 {
        holder.file(&format!("file-{round}"), &content(round, 5000));
        holder.ship();
        faulty.set_plan(Plan::none().on(CallKind::Put, "manifests/", Fault::LoseReply));
        let first = drive.fold();
        faulty.set_plan(Plan::none());
        drive
            .fold()
            .unwrap_or_else(|error| panic!("after {first:?}: {error}"));
        assert_eq!(drive.status().unwrap().journal_bytes, 0);
    }
    drop((holder, drive));
    let drive = try_open(Arc::new(bucket)).unwrap();
    assert_eq!(Holder::reader(&drive, "main").names().len(), 4);
    assert_eq!(drive.check(true).unwrap(), [""; 0]);
}
