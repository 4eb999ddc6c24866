//! Crashes: at every call of the bucket, by power loss, and while threads write. What was acknowledged is there, and the
//! drive is what it was after some batch.

use crate::world::{
    Holder, OWNER_WAIT, StillClock, Told, beginning, content, drive_name, on_each_tier, open, options,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{Failure, Ino, Kind};
use tenure_server::{Drive, Options, Threads};
use tenure_store::MemoryBucket;
use tenure_store::faulty::{Fault, FaultyBucket, Plan};
use tenure_wire::{Access, Error, Owner};

/// What the branch holds: names, and what is in them.
type Tree = BTreeMap<String, Vec<u8>>;

/// The trees after each batch, and how many batches were acknowledged.
#[derive(Default)]
struct Witness {
    after: Vec<Tree>,
    acknowledged: usize,
}

/// Where the holder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// In the owner's process.
    Here,
    /// In another process.
    Elsewhere,
}

/// Makes a drive and changes it until something fails or it is closed.
fn live(bucket: Arc<FaultyBucket>, who: Who, witness: &mut Witness) -> Result<(), Error> {
    let options = options(&Arc::default());
    let drive = Drive::create(bucket, &drive_name(), &beginning(), options)?;
    let mut holder = Holder::new(&drive, "main", Access::Exclusive, who == Who::Here)?;
    let mut tree = Tree::new();
    witness.after.push(tree.clone());
    for step in 0..9 {
        change(&mut holder, &mut tree, step)?;
        witness.after.push(tree.clone());
        holder.try_ship()?;
        witness.acknowledged = witness.after.len() - 1;
        if step % 4 == 3 {
            drive.fold()?;
        }
    }
    drive.close()
}

fn change(holder: &mut Holder, tree: &mut Tree, step: u64) -> Result<(), Error> {
    let sizes = [300, 5000, 200_000];
    let name = format!("file-{step}");
    let bytes = content(step, sizes[step as usize % sizes.len()]);
    let digest = tenure_model::Digest::of(&bytes);
    let place = holder
        .drive
        .place(
            holder.session,
            &[tenure_wire::Chunk {
                digest,
                bytes: &bytes,
            }],
        )?
        .remove(0);
    let ino = holder.try_make(Ino::ROOT, &name, Kind::File)?;
    holder.try_write_placed(ino, place)?;
    tree.insert(name, bytes);
    if step % 5 == 4 {
        let gone = format!("file-{}", step - 1);
        holder.try_unlink(&gone)?;
        tree.remove(&gone);
    }
    Ok(())
}

/// Opens what a crash has left and holds it against what was seen before.
fn judge(bucket: &MemoryBucket, witness: &Witness, what: &str) {
    let clock = Arc::<StillClock>::default();
    let drive = match Drive::open(Arc::new(bucket.clone()), &drive_name(), options(&clock)) {
        Ok(drive) => drive,
        Err(error) => {
            assert!(
                witness.after.is_empty(),
                "{what}: a drive that was made cannot be opened: {error}"
            );
            return;
        }
    };
    clock.pass(OWNER_WAIT);
    let lost: Vec<_> = drive
        .notices()
        .iter()
        .filter(|notice| notice.contains("lost"))
        .collect();
    assert!(lost.is_empty(), "{what}: {lost:?}");
    let reader = Holder::reader(&drive, "main");
    let names = reader.names();
    let found: Tree = names
        .iter()
        .map(|name| (name.clone(), reader.read(name)))
        .collect();
    let possible = witness.after.get(witness.acknowledged..).unwrap_or_default();
    assert!(
        possible.contains(&found) || witness.after.is_empty(),
        "{what}: {names:?} is not what was there after batch {} or a later one",
        witness.acknowledged
    );
    assert_eq!(drive.check(true).unwrap(), [""; 0], "{what}");
    // It goes on from there; a holder elsewhere that does not come back is not waited for.
    clock.pass(Duration::from_secs(6));
    let mut holder = Holder::hosted(&drive, "main");
    holder.file("next", b"life goes on");
    holder.ship();
    holder.give_back();
    drive.close().unwrap();
    assert_eq!(
        Holder::reader(&open(bucket), "main").read("next"),
        b"life goes on"
    );
}

#[test]
fn after_a_crash_at_any_call_the_drive_is_what_it_was_after_some_acknowledged_batch_or_a_later_one() {
    crash_at_each_call(Who::Here);
}

#[test]
fn after_a_crash_at_any_call_the_work_of_another_process_is_what_it_was_after_a_batch() {
    crash_at_each_call(Who::Elsewhere);
}

/// Lives once for each call, at which the process ends.
fn crash_at_each_call(who: Who) {
    on_each_tier(|empty| crash_at_each_call_in(&empty, who));
}

fn crash_at_each_call_in(empty: &MemoryBucket, who: Who) {
    for number in 0.. {
        let bucket = empty.copy();
        let plan = Plan::none().at(number, Fault::Halt);
        let faulty = Arc::new(FaultyBucket::new(Arc::new(bucket.clone()), plan));
        let mut witness = Witness::default();
        let lived = live(faulty.clone(), who, &mut witness);
        let images = [
            ("killed", bucket.copy()),
            ("power lost", bucket.after_power_loss(number)),
        ];
        for (how, image) in images {
            let what = format!(
                "{how} at call {number}, {:?}",
                faulty.calls().get(number as usize)
            );
            judge(&image, &witness, &what);
        }
        if lived.is_ok() {
            assert!(number > 40, "a life of {number} calls is none");
            return;
        }
    }
}

#[test]
fn any_call_that_is_refused_is_told_and_nothing_acknowledged_is_lost() {
    fail_each_call(Fault::Refuse);
}

#[test]
fn any_call_without_room_is_told_and_nothing_acknowledged_is_lost() {
    fail_each_call(Fault::NoSpace);
}

#[test]
fn any_call_whose_reply_is_lost_loses_nothing_that_was_acknowledged() {
    fail_each_call(Fault::LoseReply);
}

#[test]
fn any_call_whose_request_is_lost_loses_nothing_that_was_acknowledged() {
    fail_each_call(Fault::LoseRequest);
}

#[test]
fn any_put_that_finds_its_own_object_loses_nothing_that_was_acknowledged() {
    fail_each_call(Fault::ClaimExists);
}

#[test]
fn any_object_that_is_read_wrongly_loses_nothing_that_was_acknowledged() {
    fail_each_call(Fault::WrongBody);
    fail_each_call(Fault::ShortRead);
}

/// Lives once for each call, which fails so.
fn fail_each_call(fault: Fault) {
    on_each_tier(|empty| fail_each_call_in(&empty, fault));
}

fn fail_each_call_in(empty: &MemoryBucket, fault: Fault) {
    for number in 0.. {
        let bucket = empty.copy();
        let plan = Plan::none().at(number, fault);
        let faulty = Arc::new(FaultyBucket::new(Arc::new(bucket.clone()), plan));
        let mut witness = Witness::default();
        let who = if number.is_multiple_of(2) {
            Who::Here
        } else {
            Who::Elsewhere
        };
        let lived = live(faulty.clone(), who, &mut witness);
        let what = format!(
            "{fault:?} at call {number}, {:?}",
            faulty.calls().get(number as usize)
        );
        // What is read wrongly may be told so.
        if let Err(Error::Failed(failure)) = &lived
            && !matches!(fault, Fault::ShortRead | Fault::WrongBody)
        {
            assert!(!matches!(failure, Failure::Corrupt(_)), "{what}: {failure}");
        }
        judge(&bucket.copy(), &witness, &what);
        if faulty.calls().len() as u64 <= number {
            return;
        }
    }
}

#[test]
fn a_drive_that_is_copied_at_any_moment_while_threads_write_has_everything_that_was_acknowledged() {
    on_each_tier(|bucket| copied_while_threads_write(&bucket));
}

fn copied_while_threads_write(bucket: &MemoryBucket) {
    let images = Told::<(usize, MemoryBucket)>::default();
    let acknowledged = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let on_call = {
        let (images, bucket, acknowledged) = (images.clone(), bucket.clone(), acknowledged.clone());
        move |call: &tenure_store::faulty::Call| {
            if call.number.is_multiple_of(4) {
                let before = acknowledged.load(std::sync::atomic::Ordering::SeqCst);
                images.tell((before, bucket.after_power_loss(call.number)));
            }
        }
    };
    let faulty = Arc::new(FaultyBucket::watched(
        Arc::new(bucket.clone()),
        Plan::none(),
        Some(Box::new(on_call)),
    ));
    let options = Options {
        threads: Threads::Started,
        fold_bytes: 30_000,
        ..options(&Arc::<StillClock>::default())
    };
    let drive = Drive::create(faulty, &drive_name(), &beginning(), options).unwrap();
    images.take();
    let mut holder = Holder::hosted(&drive, "main");
    let mut tree = Tree::new();
    let mut witness = Witness {
        after: vec![tree.clone()],
        acknowledged: 0,
    };
    for step in 0..60 {
        change(&mut holder, &mut tree, step).unwrap();
        witness.after.push(tree.clone());
        holder.ship();
        acknowledged.store(witness.after.len() - 1, std::sync::atomic::Ordering::SeqCst);
    }
    drive.close().unwrap();
    let images = images.take();
    assert!(images.len() > 20, "there are {} images only", images.len());
    for (number, (acknowledged, image)) in images.into_iter().enumerate() {
        witness.acknowledged = acknowledged;
        judge(&image, &witness, &format!("image {number}"));
    }
}
