//! What branches and checkpoints need of the bucket: counted once, by whom it is needed.

use crate::world::{Holder, branch_name, checkpoint_ask, content, create, fork_ask, on_each_tier, open};
use std::collections::BTreeMap;
use std::sync::Arc;
use tenure_model::record::Source;
use tenure_server::Drive;
use tenure_wire::{Owner, Usage};

fn own(usage: &Usage) -> BTreeMap<&str, u64> {
    let lines = usage.lines.iter();
    lines.map(|line| (line.name.as_str(), line.own)).collect()
}

/// Tells whether so many bytes are those of contents, and some pages beside them.
fn is_about(bytes: u64, contents: u64) -> bool {
    (contents..contents + 20_000).contains(&bytes)
}

fn usage(drive: &Arc<Drive>) -> Usage {
    drive.usage().unwrap()
}

#[test]
fn what_is_needed_is_counted_once_and_by_whom_it_is_needed() {
    const MIB: usize = 1 << 20;
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut base = Holder::hosted(&drive, "main");
        base.file("kept", &content(1, MIB / 2));
        base.ship();
        let all = usage(&drive);
        assert!(is_about(own(&all)["main"], MIB as u64 / 2), "{all:?}");
        assert_eq!((all.shared, all.by_checkpoints), (0, 0));

        drive
            .fork(&fork_ask(&Source::Branch(base.id.unwrap()), "try"))
            .unwrap();
        let shared = usage(&drive);
        assert_eq!(
            own(&shared).values().sum::<u64>(),
            0,
            "a fork needs nothing of its own"
        );
        assert_eq!(shared.shared, own(&all)["main"]);

        let mut fork = Holder::hosted(&drive, "try");
        fork.file("more", &content(3, MIB / 8));
        fork.ship();
        base.file("gone", &content(2, MIB / 4));
        base.ship();
        drive.checkpoint(&checkpoint_ask("main", "one")).unwrap();
        drive.checkpoint(&checkpoint_ask("main", "two")).unwrap();
        base.unlink("gone");
        base.ship();
        drive.checkpoint(&checkpoint_ask("try", "three")).unwrap();
        fork.unlink("more");
        fork.ship();
        // Until then the holder may read what it has removed.
        base.give_back();
        fork.give_back();
        let mixed = usage(&drive);
        assert!(
            is_about(mixed.by_checkpoints, MIB as u64 / 4),
            "what both hold: {mixed:?}"
        );
        assert!(
            is_about(own(&mixed)["three"], MIB as u64 / 8),
            "what one holds: {mixed:?}"
        );
        assert!(is_about(mixed.shared, MIB as u64 / 2), "{mixed:?}");
        assert!(
            own(&mixed)["main"] < 20_000 && own(&mixed)["one"] < 20_000,
            "{mixed:?}"
        );

        drive.delete_branch(&branch_name("two")).unwrap();
        let left = usage(&drive);
        assert!(is_about(own(&left)["one"], MIB as u64 / 4), "{left:?}");
        assert_eq!(left.by_checkpoints, 0);
        drive.close().unwrap();
        assert_eq!(usage(&open(&bucket)), left, "the next owner counts the same");
    });
}
