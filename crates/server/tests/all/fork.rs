//! Forks and checkpoints: isolation, cost, names.

use crate::world::{
    Holder, branch_name, checkpoint_ask, checkpoint_name, content, create, fork_ask, on_each_tier, open, says,
};
use tenure_model::record::Source;
use tenure_model::{Ino, Kind};
use tenure_store::MemoryBucket;
use tenure_wire::{Access, CheckpointAsk, Owner};

#[test]
fn a_fork_has_what_was_shipped_before_it_and_nothing_after() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut base = Holder::hosted(&drive, "main");
        base.file("before", &content(1, 9000));
        base.ship();
        drive
            .fork(&fork_ask(&Source::Branch(base.id.unwrap()), "try"))
            .unwrap();
        base.file("after", &content(2, 9000));
        base.ship();

        let mut fork = Holder::hosted(&drive, "try");
        assert_eq!(fork.names(), ["before"]);
        fork.unlink("before");
        fork.file("other", &content(3, 9000));
        fork.ship();
        assert_eq!(base.names(), ["after", "before"]);
        assert_eq!(base.read("before"), content(1, 9000));

        drop((base, fork, drive));
        let drive = open(&bucket);
        assert_eq!(Holder::reader(&drive, "main").names(), ["after", "before"]);
        assert_eq!(Holder::reader(&drive, "try").names(), ["other"]);
    });
}

#[test]
fn deleting_a_base_leaves_its_forks_alone() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut base = Holder::hosted(&drive, "main");
        base.file("file", &content(1, 9000));
        base.ship();
        let main = base.id.unwrap();
        drive.fork(&fork_ask(&Source::Branch(main), "try")).unwrap();
        assert!(
            says(drive.delete_branch(&branch_name("main"))).contains("ada on box-1"),
            "it is held"
        );
        base.give_back();
        drive.delete_branch(&branch_name("main")).unwrap();
        assert!(says(drive.delete_branch(&branch_name("try"))).contains("only branch"));
        drive.close().unwrap();

        let drive = open(&bucket);
        assert_eq!(Holder::reader(&drive, "try").read("file"), content(1, 9000));
        assert!(
            says(Holder::new(&drive, "main", Access::Read, true).map(drop))
                .contains("no branch or checkpoint main")
        );
    });
}

#[test]
fn a_checkpoint_keeps_a_state_and_can_be_forked_but_not_changed() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut base = Holder::hosted(&drive, "main");
        base.file("file", b"first");
        base.ship();
        drive
            .checkpoint(&CheckpointAsk {
                message: "it works".into(),
                ..checkpoint_ask("main", "good")
            })
            .unwrap();
        base.unlink("file");
        base.ship();

        let reader = Holder::reader(&drive, "good");
        assert_eq!(reader.read("file"), b"first");
        assert_eq!(reader.id, None);
        let whole = Holder::new(&drive, "good", Access::Exclusive, true).map(drop);
        assert!(says(whole).contains("read-only"));
        drive
            .fork(&fork_ask(&Source::Checkpoint(checkpoint_name("good")), "again"))
            .unwrap();
        assert_eq!(Holder::hosted(&drive, "again").names(), ["file"]);
        let infos = drive.branches().unwrap();
        let told: Vec<_> = infos
            .iter()
            .map(|info| (info.name.as_str(), info.from.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                ("again", "checkpoint good"),
                ("good", "branch main"),
                ("main", "")
            ]
        );
    });
}

#[test]
fn a_name_is_given_once() {
    let drive = create(&MemoryBucket::new());
    let main = Source::Branch(Holder::reader(&drive, "main").id.unwrap());
    drive.checkpoint(&checkpoint_ask("main", "taken")).unwrap();
    let said = says(drive.fork(&fork_ask(&main, "taken")));
    assert!(
        said.contains("the drive has a checkpoint taken already"),
        "{said}"
    );
    drive.delete_branch(&branch_name("taken")).unwrap();
    drive.fork(&fork_ask(&main, "taken")).unwrap();
}

#[test]
fn a_thousand_forks_share_everything() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut base = Holder::hosted(&drive, "main");
        for number in 0..2000 {
            base.make(Ino::ROOT, &format!("file-{number}"), Kind::File);
        }
        base.ship();
        drive.fold().unwrap();
        let (main, pages) = (base.id.unwrap(), drive.status().unwrap().page_bytes);
        for number in 0..1000 {
            drive
                .fork(&fork_ask(&Source::Branch(main), &format!("try-{number}")))
                .unwrap();
        }
        let grown = drive.status().unwrap().page_bytes - pages;
        assert!(grown < 100_000, "1,000 forks take {grown} bytes of pages");
        let before = drive.status().unwrap().requests["write"];
        drive.close().unwrap();

        let drive = open(&bucket);
        assert_eq!(drive.branches().unwrap().len(), 1001);
        assert_eq!(Holder::hosted(&drive, "try-999").names().len(), 2000);
        assert!(
            before < 1100,
            "a fork is one write to the journal, but there were {before} writes"
        );
    });
}

#[test]
fn inodes_that_only_the_holder_had_open_are_gone_for_the_next_one() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut holder = Holder::hosted(&drive, "main");
        holder.file("open", &content(1, 9000));
        holder.ship();
        holder.unlink("open");
        holder.ship();
        let main = holder.id.unwrap();
        drive.fork(&fork_ask(&Source::Branch(main), "try")).unwrap();
        assert_eq!(
            drive.branches().unwrap()[0].inodes,
            2,
            "the holder may still read it"
        );
        holder.give_back();
        let told: Vec<_> = drive
            .branches()
            .unwrap()
            .iter()
            .map(|info| (info.name.clone(), info.inodes))
            .collect();
        assert_eq!(told, [("main".into(), 1), ("try".into(), 2)]);
        drop(Holder::hosted(&drive, "try"));
        assert_eq!(
            drive.branches().unwrap()[1].inodes,
            1,
            "who is lent a fork has nothing open in it"
        );
    });
}
