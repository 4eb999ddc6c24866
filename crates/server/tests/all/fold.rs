//! Folding: while holders go on, in the background, and what is loaded afterwards.

use crate::world::{
    Holder, StillClock, beginning, content, create, drive_name, fork_ask, on_each_tier, open, options,
};
use std::sync::Arc;
use tenure_model::record::Source;
use tenure_model::{Ino, Kind};
use tenure_server::{Drive, Options, Threads};
use tenure_store::{Bucket, MemoryBucket};
use tenure_wire::{Access, Owner};

#[test]
fn after_a_fold_little_is_replayed_and_pages_are_loaded_when_they_are_read() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut holder = Holder::hosted(&drive, "main");
        let directory = holder.make(Ino::ROOT, "large", Kind::Directory);
        for number in 0..20_000 {
            holder.make(directory, &format!("file-{number}"), Kind::File);
        }
        holder.file("file", &content(1, 50_000));
        holder.ship();
        drive.fold().unwrap();
        drop((holder, drive));

        let drive = open(&bucket);
        let reader = Holder::reader(&drive, "main");
        let before = drive.status().unwrap().page_bytes;
        assert_eq!(reader.read("file"), content(1, 50_000));
        let loaded = drive.status().unwrap().page_bytes - before;
        assert!(loaded < 100_000, "one look-up loads {loaded} bytes");
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn batches_that_come_while_a_fold_runs_are_kept() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut holder = Holder::hosted(&drive, "main");
        std::thread::scope(|scope| {
            let folding = scope.spawn(|| (0..30).for_each(|_| drive.fold().unwrap()));
            for number in 0..300 {
                holder.file(&format!("file-{number}"), &content(number, 700));
                holder.ship();
            }
            folding.join().unwrap();
        });
        drop((holder, drive));
        let drive = open(&bucket);
        let reader = Holder::reader(&drive, "main");
        assert_eq!(reader.names().len(), 300);
        for number in 0..300 {
            assert_eq!(reader.read(&format!("file-{number}")), content(number, 700));
        }
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn a_long_journal_is_folded_without_being_asked() {
    on_each_tier(|bucket| {
        let clock = Arc::<StillClock>::default();
        let options = Options {
            fold_bytes: 20_000,
            ..options(&clock)
        };
        let drive = Drive::create(Arc::new(bucket.clone()), &drive_name(), &beginning(), options).unwrap();
        let mut holder = Holder::hosted(&drive, "main");
        for number in 0..500 {
            holder.file(&format!("file-{number}"), &content(number, 500));
            holder.ship();
        }
        let status = drive.status().unwrap();
        assert!(
            status.journal_bytes < 30_000,
            "{} bytes wait to be folded",
            status.journal_bytes
        );
        assert_eq!(status.trouble, None);
        drop((holder, drive));
        assert_eq!(Holder::reader(&open(&bucket), "main").names().len(), 500);
    });
}

/// Where segments are objects, each epoch is read by itself. Where they are files, it is not.
#[test]
fn a_drive_that_was_taken_over_again_and_again_is_folded() {
    on_each_tier(|bucket| {
        drop(create(&bucket));
        let manifests = || bucket.list("drives/work/manifests/").unwrap();
        let first = manifests();
        for number in 0..6 {
            let drive = open(&bucket);
            let mut holder = Holder::hosted(&drive, "main");
            holder.file(&format!("file-{number}"), &content(number, 500));
            holder.ship();
        }
        assert_eq!(manifests() != first, bucket.disk().is_none());
        assert_eq!(Holder::reader(&open(&bucket), "main").names().len(), 6);
    });
}

#[test]
fn the_worker_folds_beside_a_holder() {
    on_each_tier(|bucket| {
        let clock = Arc::<StillClock>::default();
        let options = Options {
            fold_bytes: 20_000,
            threads: Threads::Started,
            ..options(&clock)
        };
        let drive = Drive::create(Arc::new(bucket.clone()), &drive_name(), &beginning(), options).unwrap();
        let mut holder = Holder::hosted(&drive, "main");
        for number in 0..2000 {
            holder.file(&format!("file-{number}"), &content(number, 500));
            holder.ship();
        }
        holder.give_back();
        drive.close().unwrap();
        assert!(
            bucket.list("drives/work/manifests/").unwrap().len() < 5,
            "old manifests go"
        );
        let drive = open(&bucket);
        assert_eq!(Holder::reader(&drive, "main").names().len(), 2000);
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn pages_are_evicted_when_they_are_too_many() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut holder = Holder::hosted(&drive, "main");
        for number in 0..30_000 {
            holder.make(Ino::ROOT, &format!("file-{number}"), Kind::File);
        }
        holder.ship();
        holder.give_back();
        drive.close().unwrap();

        let options = Options {
            page_bytes_max: 200_000,
            ..options(&Arc::default())
        };
        let drive = Drive::open(Arc::new(bucket.clone()), &drive_name(), options).unwrap();
        let reader = Holder::reader(&drive, "main");
        for _ in 0..3 {
            assert_eq!(reader.names().len(), 30_000);
            let resident = drive.status().unwrap().page_bytes;
            assert!(resident < 400_000, "{resident} bytes of pages are in memory");
        }
    });
}

#[test]
fn many_holders_ship_at_once_while_the_worker_folds() {
    const HOLDERS: u64 = 6;
    const BATCHES: u64 = 60;
    let bucket = MemoryBucket::new();
    let options = Options {
        fold_bytes: 50_000,
        page_bytes_max: 300_000,
        threads: Threads::Started,
        ..options(&Arc::<StillClock>::default())
    };
    let drive = Drive::create(Arc::new(bucket.clone()), &drive_name(), &beginning(), options).unwrap();
    let main = Source::Branch(Holder::reader(&drive, "main").id.unwrap());
    std::thread::scope(|scope| {
        for number in 0..HOLDERS {
            let (drive, main) = (&drive, &main);
            scope.spawn(move || {
                let name = format!("try-{number}");
                drive.fork(&fork_ask(main, &name)).unwrap();
                let mut holder = Holder::new(drive, &name, Access::Exclusive, number % 2 == 0).unwrap();
                for batch in 0..BATCHES {
                    holder.file(&format!("file-{batch}"), &content(number * BATCHES + batch, 3000));
                    holder.ship();
                }
                holder.give_back();
            });
        }
    });
    drive.close().unwrap();
    let drive = open(&bucket);
    assert_eq!(drive.check(true).unwrap(), [""; 0]);
    for number in 0..HOLDERS {
        let reader = Holder::reader(&drive, &format!("try-{number}"));
        for batch in 0..BATCHES {
            assert_eq!(
                reader.read(&format!("file-{batch}")),
                content(number * BATCHES + batch, 3000)
            );
        }
    }
}
