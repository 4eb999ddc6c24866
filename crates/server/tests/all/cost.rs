//! What syncs cost on the bucket tier, in requests.

use crate::world::{Holder, StillClock, Tier, beginning, content, drive_name, fork_ask, options};
use std::sync::Arc;
use std::time::Duration;
use tenure_model::record::Source;
use tenure_server::{Drive, Options, Threads};
use tenure_store::faulty::{Call, CallKind, FaultyBucket, Plan};
use tenure_store::{Bucket, MemoryBucket};
use tenure_wire::Owner;

fn drive(memory: &MemoryBucket, options: Options) -> Arc<Drive> {
    Drive::create(Arc::new(memory.clone()), &drive_name(), &beginning(), options).unwrap()
}

#[test]
fn a_thousand_syncs_of_small_files_with_their_folds_are_a_twentieth_more_requests_at_most() {
    let memory = Tier::Bucket.new_bucket();
    let clock = Arc::<StillClock>::default();
    // Some four folds: more than usual, where thirty seconds of syncs are not one.
    let options = Options {
        fold_bytes: 1 << 20,
        ..options(&clock)
    };
    let drive = drive(&memory, options);
    let mut holder = Holder::hosted(&drive, "main");
    let before = memory.requests().counts();
    for number in 0..1000 {
        holder.file(&format!("file-{number}"), &content(number, 4096));
        // A put takes 30 ms, so the owner looks some thirty times.
        clock.pass(Duration::from_millis(30));
        holder.ship();
    }
    let after = memory.requests().counts();
    let manifests = memory.list("drives/work/manifests/").unwrap().len();
    assert_eq!(manifests, 2, "it has folded, and again");
    let requests = after.total() - before.total();
    assert!(requests <= 1050, "{requests} requests: {after:?}");
}

#[test]
fn a_sync_is_one_request_and_a_warm_read_none() {
    let memory = Tier::Bucket.new_bucket();
    let drive = drive(&memory, options(&Arc::default()));
    let mut holder = Holder::hosted(&drive, "main");
    let requests = || memory.requests().counts().total();
    for (len, expected) in [(10, 1), (4096, 1), (200_000, 1), (300_000, 2)] {
        holder.file(&format!("file-{len}"), &content(len, len as usize));
        let before = requests();
        holder.ship();
        assert_eq!(requests() - before, expected, "{len} bytes");
        let before = requests();
        assert_eq!(holder.read(&format!("file-{len}")), content(len, len as usize));
        drive.branches().unwrap();
        let is_put_whole = expected == 2;
        assert!(is_put_whole || requests() == before);
    }
}

#[test]
fn many_segments_are_folded_though_they_are_short() {
    let memory = Tier::Bucket.new_bucket();
    let drive = drive(&memory, options(&Arc::default()));
    let mut holder = Holder::hosted(&drive, "main");
    for number in 0..1500 {
        holder.make(
            tenure_model::Ino::ROOT,
            &format!("{number}"),
            tenure_model::Kind::File,
        );
        holder.ship();
    }
    let manifests = memory.list("drives/work/manifests/").unwrap().len();
    assert_eq!(manifests, 2, "the first one came with the drive");
    assert!(drive.status().unwrap().journal_bytes < 600 * 500);
}

#[test]
fn clients_that_sync_at_once_share_puts() {
    const CLIENTS: usize = 64;
    const SYNCS: usize = 20;
    let memory = Tier::Bucket.new_bucket();
    let slow: Box<dyn Fn(&Call) + Send + Sync> = Box::new(|call| {
        if call.kind == CallKind::Put {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let bucket = Arc::new(FaultyBucket::watched(
        Arc::new(memory.clone()),
        Plan::none(),
        Some(slow),
    ));
    let options = Options {
        threads: Threads::Started,
        ..options(&Arc::default())
    };
    let drive = Drive::create(bucket, &drive_name(), &beginning(), options).unwrap();
    let main = drive.branches().unwrap()[0].branch.unwrap();
    let mut holders: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let name = format!("branch-{number}");
            drive.fork(&fork_ask(&Source::Branch(main), &name)).unwrap();
            Holder::hosted(&drive, &name)
        })
        .collect();
    let before = memory.requests().counts().puts;
    std::thread::scope(|threads| {
        for (client, holder) in holders.iter_mut().enumerate() {
            threads.spawn(move || {
                for number in 0..SYNCS {
                    let seed = (client * SYNCS + number) as u64;
                    holder.file(&format!("file-{number}"), &content(seed, 4096));
                    holder.ship();
                }
            });
        }
    });
    let puts = memory.requests().counts().puts - before;
    let syncs = (CLIENTS * SYNCS) as u64;
    assert!(puts * 4 <= syncs, "{puts} puts for {syncs} syncs");
}

#[test]
fn a_large_file_is_put_in_packs_beside_the_syncs_of_others_and_memory_is_bounded() {
    let memory = Tier::Bucket.new_bucket();
    let drive = {
        let options = Options {
            threads: Threads::Started,
            ..options(&Arc::default())
        };
        drive(&memory, options)
    };
    let mut holder = Holder::hosted(&drive, "main");
    // 200 MiB: more packs than may be held at once.
    for number in 0..200 {
        holder.file(&format!("part-{number}"), &content(number, 1 << 20));
    }
    holder.ship();
    let packs = memory.list("drives/work/packs/").unwrap().len();
    assert!((12..=15).contains(&packs), "{packs} packs");
    assert_eq!(holder.read("part-77"), content(77, 1 << 20));
    assert_eq!(drive.check(true).unwrap(), [""; 0]);
}
