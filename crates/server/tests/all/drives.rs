//! Several servers of one bucket: who asks any of them finds the owner of a drive, and when that is gone another takes over.

use crate::world::{
    Holder, OWNER_WAIT, StillClock, Tier, beginning, content, drive_name, on_each_tier, options, says, who,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tenure_core::Branch;
use tenure_model::{DriveName, Epoch, Failure, Refusal};
use tenure_server::{Drive, Drives, Options, Peers};
use tenure_store::faulty::{CallKind, FaultyBucket, Plan};
use tenure_store::{Bucket, MemoryBucket};
use tenure_wire::{Access, Error, Owner, ServerAddress, Whereabouts};

/// The servers that answer, by address.
#[derive(Clone, Default)]
struct Town(Arc<Mutex<BTreeMap<String, Arc<Drives>>>>);

impl Peers for Town {
    fn owns(&self, address: &ServerAddress, drive: &DriveName, epoch: Epoch) -> bool {
        let asked = self.0.lock().get(&address.to_string()).cloned();
        asked.is_some_and(|asked| asked.owns(drive, epoch))
    }
}

fn address(name: &str) -> ServerAddress {
    format!("https://{name}:7000").parse().unwrap()
}

impl Town {
    fn server(&self, name: &str, bucket: Arc<dyn Bucket>, clock: &Arc<StillClock>) -> Arc<Drives> {
        let options = Options {
            address: Some(address(name)),
            ..options(clock)
        };
        let drives = Arc::new(Drives::new(bucket, options, Arc::new(self.clone())));
        self.0.lock().insert(address(name).to_string(), drives.clone());
        drives
    }

    /// Nobody reaches it any more.
    fn cut_off(&self, name: &str) {
        self.0.lock().remove(&address(name).to_string());
    }
}

fn here(found: Result<Whereabouts<Branch>, Error>) -> Arc<dyn Owner<Branch>> {
    match found.unwrap() {
        Whereabouts::Here(owner) => owner,
        Whereabouts::Elsewhere(address) => panic!("it is at {address}"),
    }
}

fn elsewhere(found: Result<Whereabouts<Branch>, Error>) -> ServerAddress {
    match found.unwrap() {
        Whereabouts::Here(_) => panic!("it is here"),
        Whereabouts::Elsewhere(address) => address,
    }
}

fn remote() -> (MemoryBucket, Arc<dyn Bucket>, Arc<StillClock>) {
    let memory = Tier::Bucket.new_bucket();
    (memory.clone(), Arc::new(memory), Arc::default())
}

fn newest(bucket: &Arc<dyn Bucket>) -> Epoch {
    tenure_journal::epoch::newest(bucket.as_ref(), &drive_name()).unwrap()
}

#[test]
fn who_asks_any_server_is_sent_to_the_owner_and_another_takes_over_when_that_is_gone() {
    let (_, bucket, clock) = remote();
    let town = Town::default();
    let [one, two, three] = ["one", "two", "three"].map(|name| town.server(name, bucket.clone(), &clock));
    one.create(&drive_name(), &beginning()).unwrap();
    let owner = here(one.find(&drive_name()));
    let session = owner.open(&who("ada", false)).unwrap().session;
    for other in [&two, &three, &two] {
        assert_eq!(elsewhere(other.find(&drive_name())), address("one"));
    }
    assert_eq!(newest(&bucket), Epoch(1), "nobody has fought for it");

    town.cut_off("one");
    let taken = here(two.find(&drive_name()));
    assert_eq!(newest(&bucket), Epoch(2));
    assert_eq!(elsewhere(three.find(&drive_name())), address("two"));
    clock.pass(OWNER_WAIT);
    assert!(taken.renew(session).is_ok());
    // The first one comes back: it finds that it was deposed, and sends its clients on.
    assert!(matches!(owner.branches(), Err(Error::Failed(Failure::Fenced(_)))));
    assert_eq!(elsewhere(one.find(&drive_name())), address("two"));
    assert_eq!(newest(&bucket), Epoch(2));
}

#[test]
fn a_server_that_has_stopped_opens_its_drive_again() {
    let (memory, bucket, clock) = remote();
    let town = Town::default();
    let one = town.server("one", bucket.clone(), &clock);
    one.create(&drive_name(), &beginning()).unwrap();
    let owner = here(one.find(&drive_name()));
    // Somebody who cannot be asked has had it, and is gone.
    let other = Drive::open(bucket.clone(), &drive_name(), options(&clock)).unwrap();
    drop(other);
    clock.pass(OWNER_WAIT);
    assert!(owner.branches().is_err());
    let owner = here(one.find(&drive_name()));
    clock.pass(OWNER_WAIT);
    assert_eq!(owner.branches().unwrap().len(), 1);
    assert_eq!(newest(&bucket), Epoch(3));
    drop(memory);
}

#[test]
fn of_two_that_find_an_owner_gone_at_once_one_takes_over_and_the_other_sends_its_clients_there() {
    let (memory, bucket, clock) = remote();
    let town = Town::default();
    let one = town.server("one", bucket.clone(), &clock);
    one.create(&drive_name(), &beginning()).unwrap();
    town.cut_off("one");
    let two = town.server("two", bucket.clone(), &clock);
    // While the third one looks who owned it, or is about to claim it, the second one takes over.
    for call in 0..6 {
        let copy = memory.copy();
        let gets = std::sync::atomic::AtomicU64::new(0);
        let town = Town::default();
        let two = town.server("two", Arc::new(copy.clone()), &clock);
        let taken = Arc::new(Mutex::new(false));
        let on_call: Box<dyn Fn(&tenure_store::faulty::Call) + Send + Sync> = {
            let taken = taken.clone();
            Box::new(move |call_made| {
                let about_epochs = call_made.key.as_str().contains("/epochs");
                if about_epochs && gets.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == call {
                    here(two.find(&drive_name()));
                    *taken.lock() = true;
                }
            })
        };
        let watched: Arc<dyn Bucket> = Arc::new(FaultyBucket::watched(
            Arc::new(copy.clone()),
            Plan::none(),
            Some(on_call),
        ));
        let three = town.server("three", watched, &clock);
        let found = three.find(&drive_name()).unwrap();
        if !*taken.lock() {
            continue;
        }
        let copy: Arc<dyn Bucket> = Arc::new(copy);
        match found {
            Whereabouts::Elsewhere(at) => assert_eq!(at, address("two"), "call {call}"),
            // It had claimed the drive before the other one looked.
            Whereabouts::Here(_) => assert_eq!(newest(&copy), Epoch(3), "call {call}"),
        }
    }
    drop(two);
}

#[test]
fn drives_are_made_found_closed_and_deleted() {
    on_each_tier(|memory| {
        let clock = Arc::<StillClock>::default();
        let bucket: Arc<dyn Bucket> = Arc::new(memory.clone());
        let town = Town::default();
        let one = town.server("one", bucket.clone(), &clock);
        let said = says(one.find(&drive_name()).map(drop));
        assert!(said.contains("there is no drive work"), "{said}");
        one.create(&drive_name(), &beginning()).unwrap();
        assert!(says(one.create(&drive_name(), &beginning())).contains("a drive work already"));
        let owner = here(one.find(&drive_name()));
        let session = owner.open(&who("ada", false)).unwrap().session;
        owner.lend(session, "main", Access::Exclusive).unwrap();
        let refused = one.delete(&drive_name());
        assert!(
            matches!(refused, Err(Error::Refused(Refusal::Held { .. }))),
            "{refused:?}"
        );
        owner.close(session).unwrap();
        // Somebody is connected.
        one.close_unused();
        assert!(owner.branches().is_ok());
        drop(owner);
        one.close_unused();
        assert!(!one.owns(&drive_name(), Epoch(0)));
        let before = memory.requests().counts().total();
        one.close_unused();
        assert_eq!(memory.requests().counts().total(), before);
        // It was closed, so nobody is waited for.
        assert_eq!(here(one.find(&drive_name())).branches().unwrap().len(), 1);
        one.delete(&drive_name()).unwrap();
        assert_eq!(tenure_server::list(&memory).unwrap().drives, []);
        assert_eq!(memory.list("drives/"), Ok(vec![]));
        one.create(&drive_name(), &beginning()).unwrap();
        one.close().unwrap();
        assert_eq!(tenure_server::list(&memory).unwrap().drives, [drive_name()]);
    });
}

#[test]
fn who_asks_for_a_drive_whose_lock_another_server_has_is_sent_there() {
    let memory = Tier::Folder.new_bucket();
    let bucket: Arc<dyn Bucket> = Arc::new(memory);
    let (town, clock) = (Town::default(), Arc::default());
    let [one, two] = ["one", "two"].map(|name| town.server(name, bucket.clone(), &clock));
    one.create(&drive_name(), &beginning()).unwrap();
    assert_eq!(elsewhere(two.find(&drive_name())), address("one"));
    one.close().unwrap();
    assert_eq!(here(two.find(&drive_name())).branches().unwrap().len(), 1);
    assert_eq!(elsewhere(one.find(&drive_name())), address("two"));
}

#[test]
fn a_drive_that_another_server_owns_is_not_deleted() {
    let (memory, bucket, clock) = remote();
    let town = Town::default();
    let [one, two] = ["one", "two"].map(|name| town.server(name, bucket.clone(), &clock));
    one.create(&drive_name(), &beginning()).unwrap();
    let said = says(two.delete(&drive_name()));
    assert!(said.contains("https://one:7000"), "{said}");
    assert_eq!(here(one.find(&drive_name())).branches().unwrap().len(), 1);
    town.cut_off("one");
    let said = says(two.delete(&drive_name()));
    assert!(
        said.contains("may still answer"),
        "its owner may come back: {said}"
    );
    clock.pass(OWNER_WAIT);
    two.delete(&drive_name()).unwrap();
    assert_eq!(memory.list("drives/"), Ok(vec![]));
}

/// Some services name a group for a while after its last object is gone.
#[test]
fn a_group_without_objects_is_no_drive() {
    let (memory, bucket, clock) = remote();
    let town = Town::default();
    let one = town.server("one", bucket, &clock);
    one.create(&drive_name(), &beginning()).unwrap();
    let named = Arc::new(Groups(memory));
    one.delete(&drive_name()).unwrap();
    assert_eq!(tenure_server::list(named.as_ref()).unwrap().drives, []);
    assert!(says(Drive::open(named.clone(), &drive_name(), options(&clock))).contains("there is no drive"));
    assert!(says(tenure_server::delete(named.as_ref(), &drive_name(), "us")).contains("there is no drive"));
    assert_eq!(named.0.list("drives/"), Ok(vec![]), "nothing was claimed");
    Drive::create(named, &drive_name(), &beginning(), options(&clock)).unwrap();
}

/// A bucket that names the groups of a drive though nothing is in them.
struct Groups(MemoryBucket);

impl Bucket for Groups {
    fn children(&self, under: &str) -> Result<Vec<String>, Failure> {
        let emptied: &[&str] = match under {
            "drives/" => &["work"],
            "drives/work/" => &["epochs", "journal", "manifests", "packs"],
            "drives/work/journal/" => &["00000000000000000001"],
            _ => &[],
        };
        let mut names = self.0.children(under)?;
        names.extend(emptied.iter().map(|name| (*name).to_owned()));
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn put_if_absent(&self, key: &tenure_store::Key, bytes: &[u8]) -> Result<tenure_store::Put, Failure> {
        self.0.put_if_absent(key, bytes)
    }

    fn get(&self, key: &tenure_store::Key) -> Result<Option<Vec<u8>>, Failure> {
        self.0.get(key)
    }

    fn get_parts(
        &self,
        key: &tenure_store::Key,
        offset: u64,
        parts: &mut [std::io::IoSliceMut<'_>],
    ) -> Result<(), Failure> {
        self.0.get_parts(key, offset, parts)
    }

    fn size(&self, key: &tenure_store::Key) -> Result<Option<u64>, Failure> {
        self.0.size(key)
    }

    fn list(&self, under: &str) -> Result<Vec<tenure_store::Key>, Failure> {
        self.0.list(under)
    }

    fn delete(&self, key: &tenure_store::Key) -> Result<(), Failure> {
        self.0.delete(key)
    }

    fn requests(&self) -> &tenure_store::Requests {
        self.0.requests()
    }

    fn disk(&self) -> Option<Arc<dyn tenure_store::Disk>> {
        self.0.disk()
    }

    fn tier(&self) -> &'static str {
        self.0.tier()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

#[test]
fn a_drive_that_is_being_opened_is_owned() {
    let (memory, _, clock) = remote();
    let town = Town::default();
    town.server("zero", Arc::new(memory.clone()), &clock)
        .create(&drive_name(), &beginning())
        .unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let on_call: Box<dyn Fn(&tenure_store::faulty::Call) + Send + Sync> = {
        let (town, seen) = (town.clone(), seen.clone());
        Box::new(move |call| {
            if call.kind == CallKind::Put && call.key.as_str().contains("/epochs/") {
                seen.lock()
                    .push(town.owns(&address("one"), &drive_name(), Epoch(9)));
            }
        })
    };
    town.cut_off("zero");
    let watched = FaultyBucket::watched(Arc::new(memory), Plan::none(), Some(on_call));
    let one = town.server("one", Arc::new(watched), &clock);
    here(one.find(&drive_name()));
    assert_eq!(*seen.lock(), [true]);
    assert!(one.owns(&drive_name(), Epoch(2)) && !one.owns(&drive_name(), Epoch(3)));
}

#[test]
fn what_was_read_and_written_is_the_same_at_each_server() {
    let (_, bucket, clock) = remote();
    let town = Town::default();
    let mut names = Vec::new();
    for round in 0..6u64 {
        let name = ["one", "two", "three"][round as usize % 3];
        let server = town.server(name, bucket.clone(), &clock);
        if round == 0 {
            server.create(&drive_name(), &beginning()).unwrap();
        }
        let Whereabouts::Here(owner) = server.find(&drive_name()).unwrap() else {
            panic!("nobody else is there");
        };
        drop(owner);
        clock.pass(OWNER_WAIT);
        let options = Options {
            address: Some(address(name)),
            ..options(&clock)
        };
        // The same server again, as one drive: it deposes itself.
        let drive = Drive::open(bucket.clone(), &drive_name(), options).unwrap();
        clock.pass(OWNER_WAIT);
        let mut holder = Holder::hosted(&drive, "main");
        assert_eq!(holder.names(), names);
        names.push(format!("file-{round}"));
        holder.file(names.last().unwrap(), &content(round, 100_000));
        holder.ship();
        for (number, name) in (0..).zip(&names) {
            assert_eq!(holder.read(name), content(number, 100_000));
        }
        town.cut_off(name);
    }
}
