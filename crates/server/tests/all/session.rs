//! Sessions and grants: who holds what, and what becomes of it when they go.

use crate::world::{
    Holder, OWNER_WAIT, StillClock, branch_name, content, create, create_by, drive_name, fork_ask,
    on_each_tier, open, options, says, ship, who,
};
use std::sync::Arc;
use std::time::Duration;
use tenure_model::record::Source;
use tenure_model::{Ino, Kind, Refusal};
use tenure_server::{Drive, Holder as Owning, holder};
use tenure_store::{Bucket, FolderBucket, MemoryBucket};
use tenure_wire::{Access, Error, Owner};

#[test]
fn a_branch_that_is_held_is_refused_with_who_holds_it_and_what_would_help() {
    let drive = create(&MemoryBucket::new());
    let holder = Holder::hosted(&drive, "main");
    let refused = Holder::new(&drive, "main", Access::Exclusive, false).map(drop);
    assert!(matches!(refused, Err(Error::Refused(Refusal::Held { .. }))));
    let said = says(refused);
    assert!(
        said.contains("ada on box-1 (process 42, mount at /work/ada) holds it"),
        "{said}"
    );
    assert!(
        said.contains("a fork or a checkpoint of it can be mounted now"),
        "{said}"
    );
    assert_eq!(Holder::reader(&drive, "main").names(), [""; 0], "reading is free");
    holder.give_back();
    Holder::remote(&drive, "main");
}

#[test]
fn closing_a_session_gives_back_what_it_holds() {
    let drive = create(&MemoryBucket::new());
    let holder = Holder::hosted(&drive, "main");
    Owner::close(&*drive, holder.session).unwrap();
    Holder::hosted(&drive, "main");
    assert_eq!(
        Owner::close(&*drive, holder.session),
        Err(Refusal::Stale.into()),
        "it has ended"
    );
    assert_eq!(drive.lend_inos(holder.session), Err(Refusal::Stale.into()));
}

#[test]
fn sessions_of_a_process_that_has_ended_are_ended_when_the_drive_is_opened() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut dead = Holder::hosted(&drive, "main");
        dead.make(Ino::ROOT, "file", Kind::File);
        dead.ship();
        drop((dead, drive));
        let drive = open(&bucket);
        assert!(
            drive
                .notices()
                .iter()
                .any(|notice| notice.contains("ended without closing the drive"))
        );
        assert_eq!(Holder::hosted(&drive, "main").names(), ["file"]);
    });
}

#[test]
fn numbers_are_never_given_twice() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let (mut sessions, mut inos) = (Vec::new(), Vec::new());
        let mut note = |drive: &Arc<Drive>| {
            let holder = Holder::hosted(drive, "main");
            sessions.push(holder.session);
            inos.push(holder.inos);
            inos.push(drive.lend_inos(holder.session).unwrap());
        };
        note(&drive);
        drop(drive);
        let drive = open(&bucket);
        note(&drive);
        drive.close().unwrap();
        let drive = open(&bucket);
        note(&drive);
        assert!(sessions.windows(2).all(|pair| pair[0] < pair[1]), "{sessions:?}");
        assert!(
            inos.windows(2).all(|pair| pair[0].end <= pair[1].next),
            "{inos:?}"
        );
    });
}

#[test]
fn a_session_of_another_process_outlives_the_owner_until_it_is_silent_for_too_long() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut remote = Holder::remote(&drive, "main");
        remote.make(Ino::ROOT, "first", Kind::File);
        remote.ship();

        // The owner is killed: the next one sees what the bucket holds.
        let bucket = bucket.copy();
        let clock = Arc::<StillClock>::default();
        let drive = Drive::open(Arc::new(bucket.clone()), &drive_name(), options(&clock)).unwrap();
        clock.pass(OWNER_WAIT);
        remote.drive = drive.clone();
        let taken = || Holder::new(&drive, "main", Access::Exclusive, true);
        assert!(says(taken().map(drop)).contains("holds it"));
        clock.pass(Duration::from_secs(3));
        remote.make(Ino::ROOT, "second", Kind::File);
        remote.ship();
        clock.pass(Duration::from_secs(4));
        assert!(
            says(taken().map(drop)).contains("holds it"),
            "it has come back, so it keeps what it holds"
        );

        let bucket = bucket.copy();
        let clock = Arc::<StillClock>::default();
        let drive = Drive::open(Arc::new(bucket.clone()), &drive_name(), options(&clock)).unwrap();
        clock.pass(Duration::from_secs(6));
        let next = Holder::new(&drive, "main", Access::Exclusive, true).unwrap();
        assert_eq!(next.names(), ["first", "second"]);
        remote.drive = drive.clone();
        remote.make(Ino::ROOT, "third", Kind::File);
        assert_eq!(
            remote.try_ship(),
            Err(Refusal::Stale.into()),
            "it has lost the branch"
        );
    });
}

#[test]
fn the_lock_tells_other_processes_where_the_owner_is() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = FolderBucket::create(folder.path()).unwrap();
    let drive = create(&bucket);
    let (host, pid) = ("box-1".to_owned(), 42);
    let expected = Owning {
        host: host.clone(),
        pid,
        address: None,
    };
    assert_eq!(holder(&bucket, &drive_name()).unwrap(), Some(expected));
    drive.close().unwrap();
    let address: Option<tenure_wire::ServerAddress> = Some("unix:/run/tenure/work.sock".parse().unwrap());
    let options = tenure_server::Options {
        address: address.clone(),
        ..options(&Arc::default())
    };
    let _drive = Drive::open(Arc::new(bucket.clone()), &drive_name(), options).unwrap();
    assert_eq!(
        holder(&bucket, &drive_name()).unwrap(),
        Some(Owning { host, pid, address })
    );
}

#[test]
fn the_tier_has_the_name_of_where_a_sync_must_be() {
    let folder = tempfile::tempdir().unwrap();
    let tier = |drive: Arc<Drive>| {
        let opened = drive.open(&who("ada", true)).unwrap();
        let status = drive.status().unwrap();
        assert_eq!(opened.tier, status.tier);
        status.tier
    };
    assert_eq!(tier(create(&MemoryBucket::new())), "memory");
    assert_eq!(
        tier(create(&FolderBucket::create(folder.path()).unwrap())),
        "folder"
    );
}

#[test]
fn drives_are_listed_and_deleted_but_not_while_somebody_has_them_open() {
    let bucket = MemoryBucket::new();
    let drive = create(&bucket);
    assert_eq!(tenure_server::list(&bucket).unwrap().drives, [drive_name()]);
    assert!(says(tenure_server::delete(&bucket, &drive_name(), "a test")).contains("process 42 on box-1"));
    drive.close().unwrap();
    tenure_server::delete(&bucket, &drive_name(), "a test").unwrap();
    assert_eq!(tenure_server::list(&bucket).unwrap().drives, []);
    assert!(says(tenure_server::delete(&bucket, &drive_name(), "a test")).contains("there is no drive work"));
    let drive = create(&bucket);
    drive.open(&who("ada", true)).unwrap();
    drive.delete_branch(&branch_name("main")).unwrap_err();
}

#[test]
fn a_silent_holder_keeps_its_branch_until_somebody_else_asks_for_it() {
    on_each_tier(|bucket| {
        let clock = Arc::<StillClock>::default();
        let drive = create_by(&clock, &bucket);
        let asleep = Holder::remote(&drive, "main");
        let idle = drive.open(&who("bob", false)).unwrap().session;
        clock.pass(Duration::from_secs(3600));
        let awake = drive.open(&who("eve", false)).unwrap().session;
        assert_eq!(drive.renew(idle), Err(Refusal::Stale.into()), "nobody misses it");
        drive.renew(asleep.session).unwrap();
        let asked = || drive.lend(awake, "main", Access::Exclusive).map(drop);
        assert!(says(asked()).contains("holds it"), "a laptop that slept goes on");
        clock.pass(Duration::from_secs(5));
        assert!(says(asked()).contains("holds it"), "its lease is not over yet");
        clock.pass(Duration::from_millis(250));
        asked().unwrap();
        assert_eq!(drive.renew(asleep.session), Err(Refusal::Stale.into()));
    });
}

#[test]
fn a_holder_that_ends_with_the_owner_is_never_taken_for_silent() {
    let clock = Arc::<StillClock>::default();
    let drive = create_by(&clock, &MemoryBucket::new());
    let holder = Holder::hosted(&drive, "main");
    clock.pass(Duration::from_secs(3600));
    assert!(says(Holder::new(&drive, "main", Access::Exclusive, false).map(drop)).contains("holds it"));
    holder.give_back();
}

#[test]
fn a_branch_whose_holder_is_silent_can_be_deleted() {
    let clock = Arc::<StillClock>::default();
    let drive = create_by(&clock, &MemoryBucket::new());
    let main = drive.branches().unwrap().remove(0).branch.unwrap();
    drive.fork(&fork_ask(&Source::Branch(main), "try")).unwrap();
    let _silent = Holder::remote(&drive, "try");
    assert!(says(drive.delete_branch(&branch_name("try"))).contains("holds it"));
    clock.pass(Duration::from_secs(6));
    drive.delete_branch(&branch_name("try")).unwrap();
}

#[test]
fn a_session_that_comes_back_to_the_next_owner_keeps_what_it_holds() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let remote = Holder::remote(&drive, "main");
        let clock = Arc::<StillClock>::default();
        let drive = Drive::open(Arc::new(bucket.copy()), &drive_name(), options(&clock)).unwrap();
        clock.pass(OWNER_WAIT);
        drive.renew(remote.session).unwrap();
        assert_eq!(drive.renew(remote.session.next()), Err(Refusal::Stale.into()));
        clock.pass(Duration::from_secs(4));
        assert!(says(Holder::new(&drive, "main", Access::Exclusive, true).map(drop)).contains("holds it"));
    });
}

#[test]
fn what_a_session_of_another_process_has_placed_is_there_at_the_next_owner() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, disk) = (MemoryBucket::new(), FolderBucket::create(folder.path()).unwrap());
    next_owner_has_what_was_placed(&memory, |bucket| bucket.copy());
    // The folder's owner gives it up without closing it, which leaves the same files.
    next_owner_has_what_was_placed(&disk, |bucket| bucket.clone());
}

fn next_owner_has_what_was_placed<B: Bucket + Clone + 'static>(bucket: &B, killed: impl Fn(&B) -> B) {
    let drive = create(bucket);
    let mut remote = Holder::remote(&drive, "main");
    remote.file("acknowledged", &content(1, 70_000));
    remote.ship();
    for (name, len) in [("small", 200), ("large", 1 << 20), ("other", 5000)] {
        remote.file(name, &content(len as u64, len));
    }
    // The same bytes as a holder of the owner's own process has placed: they are found as well.
    remote.file("again", &content(1, 70_000));
    let batch = remote.batch();
    drop((remote, drive));

    let bucket = killed(bucket);
    let drive = open(&bucket);
    assert!(
        !drive.notices().iter().any(|notice| notice.contains("lost")),
        "{:?}",
        drive.notices()
    );
    ship(&drive, batch, None).unwrap();
    let reader = Holder::reader(&drive, "main");
    for (name, len) in [("small", 200), ("large", 1 << 20), ("other", 5000)] {
        assert_eq!(reader.read(name), content(len as u64, len));
    }
    assert_eq!(reader.read("again"), content(1, 70_000));
    assert_eq!(drive.check(true).unwrap(), [""; 0]);
    drive.close().unwrap();
    let trails = bucket
        .children("drives/work/packs/")
        .unwrap()
        .into_iter()
        .filter(|name| name.ends_with("trail"));
    assert_eq!(trails.count(), 0, "trails go with their packs");
}

#[test]
fn a_link_among_the_drives_is_named_and_hides_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = FolderBucket::create(dir.path()).unwrap();
    create(&bucket).close().unwrap();
    std::os::unix::fs::symlink("work", dir.path().join("drives/linked")).unwrap();
    let listing = tenure_server::list(&bucket).unwrap();
    assert_eq!(listing.drives, [drive_name()]);
    let [unclear] = &listing.unclear[..] else {
        panic!("{listing:?}")
    };
    assert!(
        unclear.to_string().contains("drives/linked is a symbolic link"),
        "{unclear}"
    );
}
