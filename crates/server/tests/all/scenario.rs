//! A drive's usual life: made, lent, changed, closed, opened again.

use crate::world::{
    Holder, beginning, content, create, drive_name, on_each_tier, open, options, says, try_open,
};
use std::sync::Arc;
use tenure_model::Ino;
use tenure_model::Kind;
use tenure_server::Drive;
use tenure_store::MemoryBucket;
use tenure_wire::Owner;

#[test]
fn what_was_shipped_is_there_when_the_drive_is_opened_again() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut holder = Holder::hosted(&drive, "main");
        holder.file(
            "small",
            b"some bytes that are a chunk of their own, because they are placed",
        );
        holder.file("large", &content(1, 300_000));
        let directory = holder.make(Ino::ROOT, "directory", Kind::Directory);
        holder.make(directory, "inside", Kind::File);
        holder.ship();
        holder.give_back();
        drive.close().unwrap();

        let drive = open(&bucket);
        assert_eq!(
            drive.notices(),
            [""; 0],
            "a drive that was closed has nothing to tell"
        );
        let reader = Holder::reader(&drive, "main");
        assert_eq!(reader.names(), ["directory", "large", "small"]);
        assert_eq!(reader.read("large"), content(1, 300_000));
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn a_drive_is_made_once() {
    on_each_tier(|bucket| {
        create(&bucket).close().unwrap();
        let again = Drive::create(
            Arc::new(bucket.clone()),
            &drive_name(),
            &beginning(),
            options(&Arc::default()),
        );
        assert!(says(again).contains("there is a drive work already"));
        let drive = open(&bucket);
        let again = Drive::create(
            Arc::new(bucket.clone()),
            &drive_name(),
            &beginning(),
            options(&Arc::default()),
        );
        assert!(
            says(again).contains("there is a drive work already"),
            "also while somebody has it open"
        );
        drive.close().unwrap();
    });
}

#[test]
fn a_drive_that_is_not_there_is_named_with_its_bucket() {
    let said = says(try_open(Arc::new(MemoryBucket::new())));
    assert!(
        said.contains("there is no drive work in the bucket in memory"),
        "{said}"
    );
}

#[test]
fn a_drive_is_open_in_one_process_at_a_time() {
    let bucket = MemoryBucket::new();
    let drive = create(&bucket);
    let said = says(try_open(Arc::new(bucket.clone())));
    assert!(said.contains("process 42 on box-1"), "{said}");
    drive.close().unwrap();
    open(&bucket).close().unwrap();
}

#[test]
fn a_closed_drive_answers_nothing_more() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut holder = Holder::hosted(&drive, "main");
        drive.close().unwrap();
        holder.make(Ino::ROOT, "late", Kind::File);
        assert!(says(holder.try_ship()).contains("the drive was closed"));
        assert!(says(drive.branches()).contains("the drive was closed"));
    });
}

#[test]
fn an_idle_drive_asks_the_bucket_for_nothing() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut holder = Holder::hosted(&drive, "main");
        holder.file("file", &content(3, 5000));
        holder.ship();
        drive.fold().unwrap();
        let before = drive.status().unwrap().requests;
        for _ in 0..1000 {
            assert_eq!(holder.names(), ["file"]);
            drive.branches().unwrap();
            drive.fold().unwrap();
        }
        assert_eq!(drive.status().unwrap().requests, before);
    });
}

#[test]
fn the_state_that_is_read_does_not_change_any_more() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut holder = Holder::hosted(&drive, "main");
        holder.file("first", b"1");
        holder.ship();
        let reader = Holder::reader(&drive, "main");
        holder.file("second", b"2");
        holder.ship();
        assert_eq!(reader.names(), ["first"]);
        assert_eq!(Holder::reader(&drive, "main").names(), ["first", "second"]);
    });
}

#[test]
fn equal_contents_are_stored_once() {
    let bucket = MemoryBucket::new();
    let drive = create(&bucket);
    let mut holder = Holder::hosted(&drive, "main");
    for number in 0..50 {
        holder.file(&format!("copy-{number}"), &content(9, 100_000));
        holder.ship();
        drive.fold().unwrap();
    }
    let stored: u64 = bucket_bytes(&bucket);
    assert!(stored < 400_000, "50 equal files of 100,000 bytes take {stored}");
    assert_eq!(holder.read("copy-49"), content(9, 100_000));
}

fn bucket_bytes(bucket: &MemoryBucket) -> u64 {
    use tenure_store::Bucket;
    let packs = bucket.list("drives/work/packs/").unwrap();
    packs.iter().map(|key| bucket.size(key).unwrap().unwrap()).sum()
}
