//! An owner whose machine was copied while it ran: of the twins one goes on.

use crate::owners::{is_fenced, made};
use crate::world::{Holder, StillClock, drive_name, open, options};
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{Ino, Kind};
use tenure_server::{Drive, Options};
use tenure_store::Bucket;
use tenure_store::memory::twin::{self, Switched};
use tenure_wire::Owner;

#[test]
fn of_an_owner_and_its_clone_one_goes_on_and_the_other_acknowledges_nothing() {
    // Each turn says which of the two ships next.
    for (turns, shipped) in (0..1u32 << 4).flat_map(|turns| [0, 1, 3].map(|shipped| (turns, shipped))) {
        let prepared = made();
        let memories = [prepared.copy(), prepared.copy()];
        let clock = Arc::<StillClock>::default();
        let buckets = [0, 1].map(|at: usize| Arc::new(Switched::new(memories[at].clone())));
        let mut holders = [0, 1].map(|at: usize| {
            // The claim, the opening, the session, the grant and each batch were sent before the machine was copied.
            let options = Options {
                draw: twin::draw(4 + shipped),
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
        buckets[1].switch(memories[0].clone());
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
