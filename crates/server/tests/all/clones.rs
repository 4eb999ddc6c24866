//! An owner whose machine was copied while it ran: of the twins one goes on.

use crate::owners::{is_fenced, made};
use crate::world::{Holder, StillClock, drive_name, open, options};
use parking_lot::Mutex;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure_model::{Failure, Ino, Kind};
use tenure_server::{Draw, Drive, Options};
use tenure_store::{Bucket, Disk, Key, MemoryBucket, Put, Requests};
use tenure_wire::Owner;

/// A bucket that is another one from some moment on: what a twin, made by copying a machine, goes on with.
struct Switched(Mutex<MemoryBucket>);

impl Switched {
    fn now(&self) -> MemoryBucket {
        self.0.lock().clone()
    }
}

impl Bucket for Switched {
    fn put_if_absent(&self, key: &Key, bytes: &[u8]) -> Result<Put, Failure> {
        self.now().put_if_absent(key, bytes)
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Failure> {
        self.now().get(key)
    }

    fn get_parts(&self, key: &Key, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        self.now().get_parts(key, offset, parts)
    }

    fn size(&self, key: &Key) -> Result<Option<u64>, Failure> {
        self.now().size(key)
    }

    fn list(&self, under: &str) -> Result<Vec<Key>, Failure> {
        self.now().list(under)
    }

    fn children(&self, under: &str) -> Result<Vec<String>, Failure> {
        self.now().children(under)
    }

    fn delete(&self, key: &Key) -> Result<(), Failure> {
        self.now().delete(key)
    }

    fn requests(&self) -> &Requests {
        unreachable!("nobody asks a twin what it has cost")
    }

    fn disk(&self) -> Option<Arc<dyn Disk>> {
        None
    }

    fn tier(&self) -> &'static str {
        "bucket"
    }

    fn describe(&self) -> String {
        "a bucket of a twin".to_owned()
    }
}

/// Draws the same as its twin for the first `count` times, and then what nobody draws.
fn draw_of_twin(count: u64) -> Draw {
    static DRAWN: AtomicU64 = AtomicU64::new(1 << 32);
    let drawn = AtomicU64::new(0);
    Arc::new(move || match drawn.fetch_add(1, Ordering::SeqCst) {
        number if number < count => [number as u8 + 1; 16],
        _ => u128::from(DRAWN.fetch_add(1, Ordering::SeqCst)).to_le_bytes(),
    })
}

#[test]
fn of_an_owner_and_its_clone_one_goes_on_and_the_other_acknowledges_nothing() {
    // Each turn says which of the two ships next.
    for (turns, shipped) in (0..1u32 << 4).flat_map(|turns| [0, 1, 3].map(|shipped| (turns, shipped))) {
        let prepared = made();
        let memories = [prepared.copy(), prepared.copy()];
        let clock = Arc::<StillClock>::default();
        let buckets = [0, 1].map(|at: usize| Arc::new(Switched(Mutex::new(memories[at].clone()))));
        let mut holders = [0, 1].map(|at: usize| {
            // The claim, the opening, the session, the grant and each batch were sent before the machine was copied.
            let options = Options {
                draw: draw_of_twin(4 + shipped),
                ..options(&clock)
            };
            let bucket: Arc<dyn Bucket> = buckets[at].clone();
            let drive = Drive::open(bucket, &drive_name(), options).unwrap();
            let mut holder = Holder::hosted(&drive, "main");
            for number in 0..shipped {
                holder.file(&format!("before-{number}"), b"both have it");
                holder.ship();
            }
            holder
        });
        assert_eq!(
            memories[0].list("drives/"),
            memories[1].list("drives/"),
            "they are twins"
        );
        *buckets[1].0.lock() = memories[0].clone();
        let mut acknowledged = Vec::new();
        let mut winner = None;
        for turn in 0..4 {
            let at = (turns >> turn & 1) as usize;
            let name = format!("{at}-{turn}");
            holders[at].make(Ino::ROOT, &name, Kind::File);
            let outcome = holders[at].try_ship();
            if *winner.get_or_insert(at) == at {
                outcome.unwrap();
                acknowledged.push(name);
            } else {
                assert!(is_fenced(&outcome), "{outcome:?}");
            }
        }
        let loser = &holders[1 - winner.unwrap()];
        clock.pass(Duration::from_secs(1));
        assert!(is_fenced(&loser.drive.branches()));
        drop(holders);
        let names = Holder::reader(&open(&memories[0]), "main").names();
        assert!(
            acknowledged.iter().all(|name| names.contains(name)),
            "turns {turns:04b}: {names:?}"
        );
    }
}
