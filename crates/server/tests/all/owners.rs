//! Two owners of one drive on the bucket tier: whoever is slow, dead or cloned, nothing that was acknowledged is lost, and who
//! was deposed answers nothing.

use crate::world::{
    Holder, OWNER_WAIT, StillClock, Tier, beginning, content, create, drive_name, open, options, says, ship,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure_model::{Clock, Failure, Timestamp};
use tenure_server::{Drive, Options};
use tenure_store::faulty::{Call, CallKind, Fault, FaultyBucket, Plan};
use tenure_store::{Bucket, MemoryBucket};
use tenure_wire::{Error, Owner};

/// A drive that was made and closed.
pub(crate) fn made() -> MemoryBucket {
    let bucket = Tier::Bucket.new_bucket();
    create(&bucket).close().unwrap();
    bucket
}

fn open_by(bucket: &Arc<dyn Bucket>, clock: &Arc<StillClock>) -> Arc<Drive> {
    Drive::open(bucket.clone(), &drive_name(), options(clock)).unwrap()
}

fn remote(bucket: &MemoryBucket) -> Arc<dyn Bucket> {
    Arc::new(bucket.clone())
}

pub(crate) fn is_fenced<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Failed(Failure::Fenced(_))))
}

#[test]
fn who_takes_over_answers_nothing_as_long_as_the_one_before_may() {
    let bucket = remote(&made());
    let clock = Arc::<StillClock>::default();
    let old = open_by(&bucket, &clock);
    assert!(old.branches().is_ok(), "nobody was there before");
    let mut holder = Holder::remote(&old, "main");
    holder.file("file", b"acknowledged");
    holder.ship();
    let new = open_by(&bucket, &clock);
    assert!(old.branches().is_ok(), "it has proved itself just now");
    let said = says(new.branches());
    assert!(said.contains("may still answer for 1600 ms"), "{said}");
    assert!(new.open(&crate::world::who("bob", false)).is_err());
    assert!(new.renew(holder.session).is_err());
    clock.pass(Duration::from_millis(999));
    assert!(old.branches().is_ok());
    assert!(new.branches().is_err());
    clock.pass(Duration::from_millis(1));
    assert!(is_fenced(&old.branches()), "it looks once a second");
    assert!(is_fenced(&old.renew(holder.session)));
    assert!(!old.is_open());
    clock.pass(Duration::from_millis(599));
    assert!(new.branches().is_err());
    clock.pass(Duration::from_millis(1));
    assert_eq!(new.branches().unwrap().len(), 1);
    assert!(new.renew(holder.session).is_ok());
    assert_eq!(Holder::reader(&new, "main").read("file"), b"acknowledged");
}

#[test]
fn who_was_deposed_acknowledges_nothing_and_says_so() {
    let bucket = remote(&made());
    let clock = Arc::<StillClock>::default();
    let old = open_by(&bucket, &clock);
    let mut holder = Holder::hosted(&old, "main");
    holder.file("before", &content(1, 5000));
    holder.ship();
    let new = open_by(&bucket, &clock);
    holder.file("late", &content(2, 5000));
    assert!(is_fenced(&holder.try_ship()));
    // What it had is named by its digest, and can be copied from there.
    assert_eq!(holder.read("before"), content(1, 5000));
    assert_eq!(holder.read("late"), content(2, 5000));
    assert!(is_fenced(&old.lend_inos(holder.session)));
    assert!(is_fenced(&old.branches()));
    let trouble = old.status().unwrap().trouble.unwrap();
    assert!(trouble.contains("does not own the drive any more"), "{trouble}");
    assert!(is_fenced(&Drive::close(&old)));
    clock.pass(OWNER_WAIT);
    assert_eq!(Holder::reader(&new, "main").names(), ["before"]);
}

#[test]
fn a_session_that_outlives_its_server_goes_on_at_the_next_one() {
    let memory = made();
    let clock = Arc::<StillClock>::default();
    let old = open_by(&remote(&memory), &clock);
    let mut holder = Holder::remote(&old, "main");
    holder.file("durable", &content(1, 5000));
    holder.ship();
    // What it has sent and heard nothing of.
    holder.file("lost", &content(2, 5000));
    let sent = holder.batch();
    let new = open_by(&remote(&memory), &clock);
    drop(old);
    clock.pass(OWNER_WAIT);
    holder.drive = new.clone();
    new.renew(holder.session).unwrap();
    let said = says(ship(&new, sent.clone(), None));
    assert!(said.contains("send it again"), "its chunk was in memory: {said}");
    // It has the bytes, and sends them along; others are not taken for them.
    let mut wrong = sent.clone();
    wrong.chunks[0].inline = Some(content(3, 5000).into());
    assert!(says(ship(&new, wrong, None)).contains("send it again"));
    let mut carried = sent.clone();
    carried.chunks[0].inline = Some(content(2, 5000).into());
    let shipped = ship(&new, carried, None).unwrap();
    assert_eq!(ship(&new, sent, None).unwrap(), shipped, "it is the same batch");
    holder.number += 1;
    holder.previous = shipped.digest;
    holder.file("more", &content(3, 5000));
    holder.ship();
    let mut next = new;
    for _ in 0..3 {
        let reader = Holder::reader(&next, "main");
        assert_eq!(reader.names(), ["durable", "lost", "more"]);
        assert_eq!(reader.read("durable"), content(1, 5000));
        assert_eq!(reader.read("lost"), content(2, 5000));
        assert_eq!(next.check(true).unwrap(), [""; 0]);
        next.fold().unwrap();
        next = open(&memory);
    }
}

#[test]
fn an_owner_that_has_closed_is_not_waited_for_and_one_that_only_ended_is() {
    let memory = made();
    for closes in [true, false] {
        let old = open(&memory);
        if closes {
            old.close().unwrap();
        }
        drop(old);
        let clock = Arc::<StillClock>::default();
        let new = open_by(&remote(&memory), &clock);
        assert_eq!(new.branches().is_ok(), closes);
        // One that has not answered yet does not say that nobody need be waited for.
        Drive::close(&new).unwrap();
        let next = open_by(&remote(&memory), &clock);
        assert_eq!(next.branches().is_ok(), closes);
    }
}

#[test]
fn an_owner_in_use_looks_once_a_second_and_an_idle_one_never() {
    let memory = made();
    let clock = Arc::<StillClock>::default();
    let drive = open_by(&remote(&memory), &clock);
    drive.branches().unwrap();
    let requests = || memory.requests().counts().total();
    let before = requests();
    for _ in 0..100 {
        drive.branches().unwrap();
    }
    assert_eq!(requests(), before);
    for _ in 0..3 {
        let before = requests();
        clock.pass(Duration::from_secs(1));
        for _ in 0..100 {
            drive.branches().unwrap();
        }
        assert_eq!(requests(), before + 2, "the next name, and the next claim");
    }
    let before = requests();
    clock.pass(Duration::from_secs(3600));
    drive.status().unwrap();
    assert_eq!(requests(), before);
}

#[test]
fn without_its_bucket_an_owner_answers_what_it_can_prove_and_goes_on_when_it_is_back() {
    let memory = made();
    let faulty = Arc::new(FaultyBucket::new(remote(&memory), Plan::none()));
    let bucket: Arc<dyn Bucket> = faulty.clone();
    let clock = Arc::<StillClock>::default();
    let drive = open_by(&bucket, &clock);
    let mut holder = Holder::hosted(&drive, "main");
    faulty.set_outage(true);
    assert!(drive.branches().is_ok());
    holder.file("waits", &content(1, 5000));
    let said = says(holder.try_ship());
    assert!(said.contains("accepted and is not durable yet"), "{said}");
    clock.pass(Duration::from_secs(2));
    let said = says(drive.branches());
    assert!(
        said.contains("not known whether this server still owns the drive"),
        "{said}"
    );
    assert!(drive.status().unwrap().trouble.is_some());
    faulty.set_outage(false);
    assert_eq!(drive.branches().unwrap().len(), 1);
    drive.fold().unwrap();
    assert_eq!(drive.status().unwrap().trouble, None);
    drop((holder, drive));
    assert_eq!(Holder::reader(&open(&memory), "main").names(), ["waits"]);
}

#[test]
fn an_outage_heals_by_itself_and_nobody_need_ask() {
    let memory = made();
    let faulty = Arc::new(FaultyBucket::new(remote(&memory), Plan::none()));
    let options = Options {
        threads: tenure_server::Threads::Started,
        ..options(&Arc::default())
    };
    let drive = Drive::open(faulty.clone(), &drive_name(), options).unwrap();
    let mut holder = Holder::hosted(&drive, "main");
    faulty.set_outage(true);
    holder.file("waits", &content(1, 5000));
    assert!(holder.try_ship().is_err());
    faulty.set_outage(false);
    while drive.status().unwrap().trouble.is_some() {
        std::thread::yield_now();
    }
    drop((holder, drive));
    assert_eq!(Holder::reader(&open(&memory), "main").names(), ["waits"]);
}

/// What was acknowledged: names and contents.
type Acknowledged = BTreeMap<String, Vec<u8>>;

/// Opens, works and closes, as far as it can. The clock is past every wait.
fn live(bucket: &Arc<dyn Bucket>, who: &str, acknowledged: &mut Acknowledged) -> Result<(), Error> {
    let clock = Arc::<StillClock>::default();
    let drive = Drive::open(bucket.clone(), &drive_name(), options(&clock))?;
    clock.pass(OWNER_WAIT + Duration::from_secs(5));
    let mut holder = Holder::new(&drive, "main", tenure_wire::Access::Exclusive, who.len() % 2 == 1)?;
    for (step, len) in [300, 5000, 400_000, 20].into_iter().enumerate() {
        let (name, bytes) = (format!("{who}-{step}"), content(step as u64, len));
        let digest = tenure_model::Digest::of(&bytes);
        let chunk = tenure_wire::Chunk {
            digest,
            bytes: &bytes,
        };
        let place = drive.place(holder.session, &[chunk])?.remove(0);
        let ino = holder.try_make(tenure_model::Ino::ROOT, &name, tenure_model::Kind::File)?;
        holder.try_write_placed(ino, place)?;
        holder.try_ship()?;
        acknowledged.insert(name, bytes);
        if step == 2 {
            drive.fold()?;
        }
    }
    Drive::close(&drive)
}

/// Everything that was acknowledged is there.
fn check(memory: &MemoryBucket, acknowledged: &Acknowledged, what: &str) {
    let drive = open(memory);
    let reader = Holder::reader(&drive, "main");
    for (name, bytes) in acknowledged {
        assert!(reader.find(name).is_some(), "{what}: {name} is lost");
        assert!(reader.read(name) == *bytes, "{what}: {name} is another");
    }
    assert_eq!(drive.check(true).unwrap(), [""; 0], "{what}");
}

#[test]
fn whenever_another_takes_over_who_was_deposed_stops_and_nothing_acknowledged_is_lost() {
    for fault in [None, Some(Fault::LoseReply), Some(Fault::ClaimExists)] {
        for number in 0.. {
            let memory = made();
            let newer = Arc::new(parking_lot::Mutex::new(None));
            let calls = AtomicU64::new(0);
            let on_call: Box<dyn Fn(&Call) + Send + Sync> = {
                let (memory, newer) = (memory.clone(), newer.clone());
                Box::new(move |_| {
                    if calls.fetch_add(1, Ordering::SeqCst) == number {
                        let mut acknowledged = Acknowledged::new();
                        let lived = live(&remote(&memory), "new", &mut acknowledged);
                        *newer.lock() = Some((lived, acknowledged));
                    }
                })
            };
            let plan = fault.map_or(Plan::none(), |fault| Plan::none().at(number, fault));
            let bucket: Arc<dyn Bucket> =
                Arc::new(FaultyBucket::watched(remote(&memory), plan, Some(on_call)));
            let mut acknowledged = Acknowledged::new();
            let ended = live(&bucket, "older", &mut acknowledged);
            let Some((lived, newer)) = newer.lock().take() else {
                assert!(number > 40, "a life of {number} calls is none");
                break;
            };
            let what = format!("taken over at call {number}, {fault:?}: {ended:?}");
            lived.unwrap_or_else(|error| panic!("{what}: {error}"));
            acknowledged.extend(newer);
            check(&memory, &acknowledged, &what);
        }
    }
}

#[test]
fn packs_that_the_last_owner_puts_while_it_is_taken_over_are_found() {
    let memory = made();
    let clock = Arc::<StillClock>::default();
    let old = open_by(&remote(&memory), &clock);
    let mut holder = Holder::hosted(&old, "main");
    holder.file("small", &content(1, 5000));
    holder.ship();
    let holder = Arc::new(parking_lot::Mutex::new(holder));
    // Right after the packs were listed the old owner puts one, and a record that needs it.
    let listed = AtomicU64::new(0);
    let on_call: Box<dyn Fn(&Call) + Send + Sync> = {
        let holder = holder.clone();
        Box::new(move |call| {
            let is_read = call.kind == CallKind::Get && call.key.as_str().contains("/journal/");
            if is_read && listed.fetch_add(1, Ordering::SeqCst) == 2 {
                let mut holder = holder.lock();
                holder.file("large", &content(2, 900_000));
                holder.ship();
            }
        })
    };
    let bucket: Arc<dyn Bucket> = Arc::new(FaultyBucket::watched(
        remote(&memory),
        Plan::none(),
        Some(on_call),
    ));
    let new = open_by(&bucket, &clock);
    clock.pass(OWNER_WAIT);
    let reader = Holder::reader(&new, "main");
    assert_eq!(reader.names(), ["large", "small"]);
    assert_eq!(reader.read("large"), content(2, 900_000));
    assert_eq!(reader.read("small"), content(1, 5000));
    assert_eq!(new.check(true).unwrap(), [""; 0]);
}

#[test]
fn a_drive_is_begun_again_when_its_owner_folds_it_meanwhile() {
    let memory = Tier::Bucket.new_bucket();
    let clock = Arc::<StillClock>::default();
    let old = Drive::create(remote(&memory), &drive_name(), &beginning(), options(&clock)).unwrap();
    let mut holder = Holder::hosted(&old, "main");
    for round in 0..5 {
        holder.file(&format!("file-{round}"), &content(round, 5000));
        holder.ship();
        old.fold().unwrap();
    }
    let folded = AtomicU64::new(0);
    let on_call: Box<dyn Fn(&Call) + Send + Sync> = {
        let old = old.clone();
        let holder = parking_lot::Mutex::new(holder);
        Box::new(move |call| {
            let is_read = call.kind == CallKind::Get && call.key.as_str().contains("/manifests/");
            if is_read && folded.fetch_add(1, Ordering::SeqCst) < 3 {
                let mut holder = holder.lock();
                holder.file(&format!("more-{}", folded.load(Ordering::SeqCst)), b"more");
                // It may be deposed by now.
                let _ = holder.try_ship().and_then(|()| old.fold());
            }
        })
    };
    let bucket: Arc<dyn Bucket> = Arc::new(FaultyBucket::watched(
        remote(&memory),
        Plan::none(),
        Some(on_call),
    ));
    let new = open_by(&bucket, &clock);
    clock.pass(OWNER_WAIT);
    assert!(Holder::reader(&new, "main").names().len() >= 5);
    assert_eq!(new.check(true).unwrap(), [""; 0]);
}

#[test]
fn an_owner_whose_bucket_is_too_slow_to_prove_anything_says_so_and_answers_nothing() {
    let memory = made();
    let clock = Arc::<StillClock>::default();
    let is_slow = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let on_call: Box<dyn Fn(&Call) + Send + Sync> = {
        let (clock, is_slow) = (clock.clone(), is_slow.clone());
        Box::new(move |call| {
            if is_slow.load(Ordering::SeqCst) && call.kind == CallKind::Get {
                clock.pass(Duration::from_secs(1));
            }
        })
    };
    let bucket: Arc<dyn Bucket> = Arc::new(FaultyBucket::watched(
        remote(&memory),
        Plan::none(),
        Some(on_call),
    ));
    let drive = open_by(&bucket, &clock);
    let mut holder = Holder::hosted(&drive, "main");
    is_slow.store(true, Ordering::SeqCst);
    clock.pass(Duration::from_secs(2));
    let said = says(drive.branches());
    assert!(said.contains("answers so slowly"), "{said}");
    // What is durable proves itself.
    holder.file("file", b"synced");
    holder.ship();
    is_slow.store(false, Ordering::SeqCst);
    assert!(drive.branches().is_ok());
}

/// The time of this machine.
struct Real(std::time::Instant);

impl Real {
    #[expect(
        clippy::disallowed_methods,
        reason = "here a thread sleeps, and time passes by itself"
    )]
    fn new() -> Arc<Self> {
        Arc::new(Self(std::time::Instant::now()))
    }
}

impl Clock for Real {
    fn now(&self) -> Timestamp {
        Timestamp::since_epoch(self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[test]
fn where_threads_run_an_owner_is_open_when_it_may_answer() {
    let memory = made();
    let clock = Real::new();
    let open = || {
        let options = Options {
            threads: tenure_server::Threads::Started,
            owner_ttl: Duration::from_secs(1),
            clock: clock.clone(),
            ..options(&Arc::default())
        };
        Drive::open(remote(&memory), &drive_name(), options).unwrap()
    };
    let old = open();
    let began = clock.elapsed();
    let new = open();
    assert!(clock.elapsed() - began >= Duration::from_millis(1100));
    // A machine that has much else to do may be too slow to prove anything, now and then.
    let answered = (0..100).find_map(|_| new.branches().ok());
    assert_eq!(answered.expect("it may answer").len(), 1);
    assert!(is_fenced(&old.branches()));
    new.close().unwrap();
}
