//! Crashes at every call of the bucket while a file is written page by page and merged.

use crate::world::{
    At, Random, create, drive_name, extents, hold, make, name, options, read, server_options, sync,
};
use bytes::Bytes;
use std::sync::Arc;
use tenure_client::Options;
use tenure_model::{Failure, Ino};
use tenure_server::Drive;
use tenure_store::faulty::{Fault, FaultyBucket, Plan};
use tenure_store::{Bucket, MemoryBucket};
use tenure_wire::{Access, Error, Owner};

const PAGE: usize = 8 << 10;
const PAGES: u64 = 20;
const STAGE_SETTLE: u64 = 20 << 10;

/// What the file was after each write, and how many of those were acknowledged as synced.
#[derive(Default)]
struct Witness {
    after: Vec<Vec<u8>>,
    acknowledged: usize,
    /// How many extents the file had in the end.
    extents: usize,
}

fn live(bucket: Arc<dyn Bucket>, at: At, witness: &mut Witness) -> Result<(), Error> {
    let drive = create(bucket)?;
    let branch = hold(
        drive.clone(),
        at,
        ("main", Access::Exclusive),
        options(STAGE_SETTLE),
    )?;
    let ino = make(&branch, "database")?;
    branch.sync_all()?;
    let mut random = Random::new(5);
    let mut bytes = vec![0; PAGES as usize * PAGE];
    witness.after.push(Vec::new());
    for step in 0..2 * PAGES {
        let (page, at) = (random.bytes(PAGE), (step % PAGES) as usize * PAGE);
        bytes[at..at + PAGE].copy_from_slice(&page);
        let size = bytes.len().min((step + 1) as usize * PAGE);
        witness.after.push(bytes[..size].to_vec());
        branch.write(ino, at as u64, Bytes::from(page))?;
        sync(&branch, ino)?;
        witness.acknowledged = witness.after.len() - 1;
        if step % 8 == 7 {
            drive.fold()?;
        }
    }
    witness.extents = extents(&drive, ino)?.len();
    branch.close()?;
    drive.close()
}

/// Opens what a crash has left, holds it against what was seen before, and returns how long the file is.
fn judge(bucket: &MemoryBucket, witness: &Witness, what: &str) -> usize {
    let drive = match Drive::open(Arc::new(bucket.clone()), &drive_name(), server_options()) {
        Ok(drive) => drive,
        Err(error) => {
            assert!(witness.after.is_empty(), "{what}: it cannot be opened: {error}");
            return 0;
        }
    };
    assert_eq!(drive.check(true).unwrap(), [""; 0], "{what}");
    if witness.after.is_empty() {
        return 0;
    }
    // A holder elsewhere that does not come back is not waited for.
    let branch = hold(
        drive.clone(),
        At::Here,
        ("main", Access::Exclusive),
        options(STAGE_SETTLE),
    )
    .unwrap();
    let (ino, _) = branch.lookup(Ino::ROOT, &name("database")).unwrap();
    let found = read(&branch, ino);
    assert!(
        witness.after[witness.acknowledged..].contains(&found),
        "{what}: the file is not what it was after write {} or a later one",
        witness.acknowledged
    );
    branch.write(ino, 0, Bytes::from_static(b"life goes on")).unwrap();
    branch.close().unwrap();
    assert_eq!(drive.check(true).unwrap(), [""; 0], "{what}");
    found.len()
}

fn crash_at_each_call(at: At) {
    for number in 0.. {
        let bucket = MemoryBucket::new();
        let plan = Plan::none().at(number, Fault::Halt);
        let faulty = Arc::new(FaultyBucket::new(Arc::new(bucket.clone()), plan));
        let mut witness = Witness::default();
        let lived = live(faulty.clone(), at, &mut witness);
        let what = format!("at call {number}, {:?}", faulty.calls().get(number as usize));
        judge(&bucket.copy(), &witness, &format!("killed {what}"));
        judge(
            &bucket.after_power_loss(number),
            &witness,
            &format!("power lost {what}"),
        );
        if lived.is_ok() {
            assert!(number > 100, "a life of {number} calls is none");
            assert!(witness.extents <= 12, "it was not merged");
            return;
        }
    }
}

#[test]
fn after_a_crash_at_any_call_a_merged_file_is_what_it_was_after_some_write() {
    crash_at_each_call(At::Here);
}

#[test]
fn after_a_crash_at_any_call_a_file_merged_by_another_process_is_what_it_was_after_some_write() {
    crash_at_each_call(At::Elsewhere);
}

#[test]
fn a_call_that_fails_while_a_file_is_merged_loses_nothing_that_was_acknowledged() {
    for fault in [Fault::Refuse, Fault::NoSpace, Fault::LoseReply] {
        for number in 0.. {
            let bucket = MemoryBucket::new();
            let plan = Plan::none().at(number, fault);
            let faulty = Arc::new(FaultyBucket::new(Arc::new(bucket.clone()), plan));
            let mut witness = Witness::default();
            let lived = live(faulty.clone(), At::Here, &mut witness);
            let what = format!("{fault:?} at call {number}");
            if let Err(Error::Failed(failure)) = &lived {
                assert!(!matches!(failure, Failure::Corrupt(_)), "{what}: {failure}");
            }
            judge(&bucket.copy(), &witness, &what);
            if faulty.calls().len() as u64 <= number {
                return;
            }
        }
    }
}

/// Writes a long file in order, beside a small one that is synced now and then.
fn write_in_order(bucket: Arc<dyn Bucket>, witness: &mut Witness) -> Result<(), Error> {
    let drive = create(bucket)?;
    let options = Options {
        stage_max: 3 << 20,
        ..options(1 << 20)
    };
    let branch = hold(drive.clone(), At::Here, ("main", Access::Exclusive), options)?;
    let (ino, other) = (make(&branch, "database")?, make(&branch, "small")?);
    branch.sync_all()?;
    witness.after.push(Vec::new());
    let mut random = Random::new(6);
    let mut bytes = Vec::new();
    for step in 0..40 {
        let len = random.below(300_000) as usize + 1;
        let written = random.bytes(len);
        branch.write(ino, bytes.len() as u64, Bytes::copy_from_slice(&written))?;
        bytes.extend_from_slice(&written);
        witness.after.push(bytes.clone());
        if step % 5 == 4 {
            branch.write(other, step, Bytes::from_static(b"a line\n"))?;
            sync(&branch, other)?;
        }
    }
    sync(&branch, ino)?;
    witness.acknowledged = witness.after.len() - 1;
    branch.close()?;
    drive.close()
}

#[test]
fn after_a_crash_at_any_call_a_long_file_that_is_written_in_order_has_each_write_whole_or_not_at_all() {
    let mut some_were_cut = false;
    for number in 0.. {
        let bucket = MemoryBucket::new();
        let plan = Plan::none().at(number, Fault::Halt);
        let faulty = Arc::new(FaultyBucket::new(Arc::new(bucket.clone()), plan));
        let mut witness = Witness::default();
        let lived = write_in_order(faulty.clone(), &mut witness);
        let what = format!("at call {number}, {:?}", faulty.calls().get(number as usize));
        let found = judge(&bucket.after_power_loss(number), &witness, &what);
        some_were_cut |= found > 1 << 20 && witness.acknowledged == 0;
        if lived.is_ok() {
            assert!(number > 50 && some_were_cut, "a life of {number} calls is none");
            return;
        }
    }
}
