//! What was read of packs and is kept on this machine: right or not there, whatever becomes of it.

use crate::world::{Content, chunk, drive, filled, filling, number};
use parking_lot::Mutex;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Barrier};
use tempfile::TempDir;
use tenure_model::Failure;
use tenure_store::faulty::{CallKind, Fault, Plan};
use tenure_store::pack::{PackName, Packs};
use tenure_store::{Bucket, Cache, FaultyBucket, MemoryBucket};

/// Bytes of the buffers of packs: the longest chunk fits.
const BUFFER_LEN: usize = 1 << 20;
/// Bytes that a cache may hold where that does not matter.
const MUCH: u64 = 1 << 30;

/// A bucket of a service with one pack of these chunks.
fn far(lens: &[usize]) -> (MemoryBucket, Content, PackName) {
    let memory = MemoryBucket::new();
    let (packs, _, content) = filled(&memory, BUFFER_LEN, lens);
    let sealed = packs.seal(number(1)).unwrap();
    (memory.without_disk(), content, sealed.name)
}

/// The packs as a process finds them that begins now.
fn read_by(bucket: Arc<dyn Bucket>, name: PackName, cache: Option<Arc<Cache>>) -> Packs {
    let packs = Packs::with_sizes(bucket, drive(), Default::default()).cached(cache);
    packs.add(name);
    packs
}

fn at(folder: &Path, limit: u64) -> Arc<Cache> {
    Arc::new(Cache::at(folder, limit).unwrap())
}

fn gets(bucket: &dyn Bucket) -> u64 {
    bucket.requests().counts().gets
}

/// Returns the files of a folder, by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

fn held(folder: &Path) -> u64 {
    files(folder)
        .iter()
        .map(|file| file.metadata().unwrap().blocks() * 512)
        .sum()
}

#[test]
fn what_was_read_once_is_read_from_the_bucket_by_no_process_again() {
    let (memory, content, name) = far(&[5_000, 100_000, 16_384, 40_000, 3, 300_000]);
    let home = TempDir::new().unwrap();
    let folder = home.path().join("made").join("packs");
    let first = read_by(Arc::new(memory.clone()), name, Some(at(&folder, MUCH)));
    content.check(&first);
    let before = gets(&memory);
    let cache = at(&folder, MUCH);
    content.check(&read_by(Arc::new(memory.clone()), name, Some(cache.clone())));
    assert_eq!(gets(&memory), before);
    let usage = cache.usage();
    assert_eq!((usage.hits, usage.fetched), (usage.reads, 0));
    assert!(usage.bytes >= 460_000 && usage.bytes < 600_000, "{usage:?}");
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    for file in files(&folder) {
        assert_eq!(
            file.metadata().unwrap().mode() & 0o777,
            0o600,
            "{}",
            file.display()
        );
    }
}

#[test]
fn small_neighbours_come_with_one_request_whether_they_are_kept_on_disk_or_not() {
    let (memory, content, name) = far(&[4_000; 1_000]);
    let home = TempDir::new().unwrap();
    let mut order = content.addresses();
    // As a directory lists them: near each other, and in no order.
    order.chunks_mut(50).for_each(<[_]>::reverse);
    for cache in [
        Cache::in_memory(),
        Cache::at(home.path().join("c").as_path(), MUCH).unwrap(),
    ] {
        let packs = read_by(Arc::new(memory.clone()), name, Some(Arc::new(cache)));
        let before = gets(&memory);
        for at in &order {
            packs.read(*at).unwrap();
        }
        let made = gets(&memory) - before;
        assert!(made <= 8, "{made} requests for 4 MB");
    }
}

#[test]
fn reads_that_lie_far_apart_fetch_little_besides() {
    let (memory, content, name) = far(&[1 << 20; 48]);
    let cache = Arc::new(Cache::in_memory());
    let packs = read_by(Arc::new(memory), name, Some(cache.clone()));
    for place in content.addresses().iter().step_by(9).rev() {
        packs.read_into(*place, 500_000, &mut [0; 100]).unwrap();
    }
    assert!(cache.usage().fetched <= 6 * (128 << 10), "{:?}", cache.usage());
}

#[test]
fn who_needs_what_is_on_its_way_waits_for_that() {
    let (memory, content, name) = far(&[3_000; 20]);
    let together = Arc::new(Barrier::new(2));
    let hold = {
        let together = together.clone();
        Box::new(move |call: &tenure_store::faulty::Call| {
            if call.kind == CallKind::Get && call.number == 2 {
                together.wait();
            }
        })
    };
    let bucket = Arc::new(FaultyBucket::watched(Arc::new(memory), Plan::none(), Some(hold)));
    let packs = read_by(bucket.clone(), name, Some(Arc::new(Cache::in_memory())));
    let addresses = content.addresses();
    std::thread::scope(|scope| {
        // The index takes two requests, and what is held up is the third.
        let first = scope.spawn(|| packs.read(addresses[0]));
        let others: Vec<_> = addresses[1..]
            .iter()
            .map(|at| scope.spawn(|| packs.read(*at)))
            .collect();
        together.wait();
        assert_eq!(first.join().unwrap(), Ok(chunk(1, 3_000)));
        for (seed, other) in (2..).zip(others) {
            assert_eq!(other.join().unwrap(), Ok(chunk(seed, 3_000)));
        }
    });
    assert_eq!(bucket.calls().len(), 3);
}

#[test]
fn who_waits_for_a_fetch_that_fails_tries_itself() {
    let (memory, content, name) = far(&[3_000; 8]);
    let bucket = Arc::new(FaultyBucket::new(Arc::new(memory), Plan::none()));
    let packs = read_by(bucket.clone(), name, Some(Arc::new(Cache::in_memory())));
    packs.entries(number(1)).unwrap();
    bucket.set_plan(Plan::none().at(0, Fault::Refuse).at(1, Fault::LoseReply));
    let read: Vec<_> = std::thread::scope(|scope| {
        let packs = &packs;
        let read = |at| scope.spawn(move || packs.read(at));
        let reads: Vec<_> = content.addresses().into_iter().map(read).collect();
        reads.into_iter().map(|read| read.join().unwrap()).collect()
    });
    let failed = read.iter().filter(|read| read.is_err()).count();
    assert!(failed <= 2, "{failed} of 8 failed by two requests");
    content.check(&packs);
}

#[test]
fn a_damaged_neighbour_and_a_lost_end_fail_nobody_else() {
    let (memory, content, name) = far(&[20_000; 12]);
    let key = name.key(&drive());
    let packs = |memory: &MemoryBucket| read_by(Arc::new(memory.clone()), name, Some(Arc::default()));
    let damaged = memory.copy();
    damaged.damage(&key, |bytes| bytes[100_000] ^= 1);
    for (place, seed) in content.addresses().into_iter().zip(1..) {
        // Block 6, from 98,304 on, belongs to chunks 5 and 6.
        match packs(&damaged).read(place) {
            Ok(bytes) => assert!(bytes == chunk(seed, 20_000) && ![5, 6].contains(&seed)),
            Err(failure) => {
                assert!(matches!(&failure, Failure::Corrupt(why) if why.contains(key.as_str())));
                assert!([5, 6].contains(&seed), "{seed}: {failure}");
            }
        }
    }
    let bucket = Arc::new(FaultyBucket::new(Arc::new(memory.clone()), Plan::none()));
    let cut = read_by(bucket, name, Some(Arc::default()));
    cut.entries(number(1)).unwrap();
    memory.damage(&key, |bytes| bytes.truncate(50_000));
    assert_eq!(cut.read(content.addresses()[0]), Ok(chunk(1, 20_000)));
    assert!(matches!(
        cut.read(content.addresses()[4]),
        Err(Failure::Corrupt(_))
    ));
    assert_eq!(cut.read(content.addresses()[1]), Ok(chunk(2, 20_000)));
}

#[test]
fn a_cache_holds_no_more_than_it_may_and_forgets_what_was_unused_longest() {
    let home = TempDir::new().unwrap();
    let memory = MemoryBucket::new();
    let filled = filling(Arc::new(memory.clone()), BUFFER_LEN);
    let mut content = Content::default();
    let mut names = Vec::new();
    for seed in 1..=12 {
        let pack = filled.start(number(seed)).unwrap();
        content.append(&pack, &chunk(seed, 500_000));
        names.push(filled.seal(number(seed)).unwrap().name);
    }
    let limit = 3_000_000;
    let cache = at(&home.path().join("packs"), limit);
    let packs =
        Packs::with_sizes(Arc::new(memory.without_disk()), drive(), Default::default()).cached(Some(cache));
    names.iter().for_each(|name| packs.add(*name));
    for address in content.addresses() {
        packs.read(content.addresses()[0]).unwrap();
        packs.read(address).unwrap();
        // Blocks of the file system, and one write beyond, come on top.
        let bytes = held(&home.path().join("packs"));
        assert!(bytes <= limit + limit / 8 + 700_000, "{bytes}");
    }
    let kept: Vec<_> = files(&home.path().join("packs"))
        .into_iter()
        .map(|path| path.display().to_string())
        .collect();
    assert!(
        kept.iter().any(|path| path.contains("0012.")),
        "what was read last is kept: {kept:?}"
    );
    assert!(!kept.iter().any(|path| path.contains("0003.")), "{kept:?}");
    content.check(&packs);
}

/// Several processes of one cache, of which one deletes it again and again, and each forgets for all.
#[test]
fn a_cache_that_is_shared_deleted_and_full_gives_right_bytes_and_no_errors() {
    let lens: Vec<_> = (0..60).map(|number| 1_000 + number * 997).collect();
    let (memory, content, name) = far(&lens);
    let home = TempDir::new().unwrap();
    let folder = home.path().join("packs");
    let ends = Mutex::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..6 {
                        // A folder that is deleted while it is made is none.
                        let cache = Cache::at(&folder, 700_000).map(Arc::new).ok();
                        let packs = read_by(Arc::new(memory.clone()), name, cache);
                        content.check(&packs);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !*ends.lock() {
                // It may be filled again while it is deleted.
                let _ = fs::remove_dir_all(&folder);
            }
        });
        let ended: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        *ends.lock() = true;
        ended.into_iter().for_each(|reader| reader.unwrap());
    });
}

#[test]
fn a_full_disk_is_no_trouble_and_gets_room_back() {
    let home = TempDir::new().unwrap();
    let disk = home.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(&disk)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return;
    }
    let (memory, content, name) = far(&[90_000; 40]);
    let folder = disk.join("packs");
    let packs = read_by(Arc::new(memory.clone()), name, Some(at(&folder, MUCH)));
    let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        content.check(&packs);
        assert!(held(&folder) <= 1 << 20);
        fs::write(disk.join("somebody-elses"), vec![1; 400_000]).unwrap_or_default();
        content.check(&read_by(Arc::new(memory), name, Some(at(&folder, MUCH))));
    }));
    let unmounted = Command::new("umount").arg(&disk).status();
    assert!(unmounted.unwrap().success());
    read.unwrap();
}

#[test]
fn a_folder_that_others_can_enter_is_refused_and_what_is_no_plain_file_leads_nowhere() {
    let home = TempDir::new().unwrap();
    let open = home.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    let refused = Cache::at(&open, MUCH).map(drop).unwrap_err();
    assert!(refused.to_string().contains("0700"), "{refused}");

    let (memory, content, name) = far(&[40_000; 4]);
    let folder = home.path().join("packs");
    let cache = at(&folder, MUCH);
    content.check(&read_by(Arc::new(memory.clone()), name, Some(cache)));
    let elsewhere = home.path().join("elsewhere");
    let mine = files(&folder).into_iter().filter(|file| !file.ends_with("lock"));
    for (file, number) in mine.zip(0..) {
        fs::remove_file(&file).unwrap();
        if number == 0 {
            symlink(&elsewhere, &file).unwrap();
        } else {
            let made = Command::new("mkfifo").arg(&file).status();
            assert!(made.unwrap().success());
        }
    }
    content.check(&read_by(Arc::new(memory), name, Some(at(&folder, MUCH))));
    assert!(!elsewhere.exists());
}

#[derive(Clone, Debug)]
enum Harm {
    Flip(prop::sample::Index),
    Cut(prop::sample::Index),
    Grow(u16),
    Zero(prop::sample::Index, u16),
    Swap,
    Other,
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        any::<prop::sample::Index>().prop_map(Harm::Flip),
        any::<prop::sample::Index>().prop_map(Harm::Cut),
        any::<u16>().prop_map(Harm::Grow),
        (any::<prop::sample::Index>(), any::<u16>()).prop_map(|(at, len)| Harm::Zero(at, len)),
        Just(Harm::Swap),
        Just(Harm::Other),
    ]
}

/// Harms the file of the bodies, or of the index.
fn do_harm(files: &[PathBuf], of: usize, harm: &Harm) {
    let path = &files[of % files.len()];
    let mut bytes = fs::read(path).unwrap();
    match harm {
        Harm::Flip(at) if !bytes.is_empty() => {
            let at = at.index(bytes.len());
            bytes[at] ^= 1;
        }
        Harm::Cut(at) if !bytes.is_empty() => bytes.truncate(at.index(bytes.len())),
        Harm::Grow(by) => bytes.extend(vec![7; usize::from(*by)]),
        Harm::Zero(at, len) if !bytes.is_empty() => {
            let at = at.index(bytes.len());
            let end = (at + usize::from(*len)).min(bytes.len());
            bytes[at..end].fill(0);
        }
        Harm::Swap => bytes = fs::read(&files[(of + 1) % files.len()]).unwrap(),
        Harm::Other => bytes = chunk(99, bytes.len()),
        Harm::Flip(_) | Harm::Cut(_) | Harm::Zero(..) => {}
    }
    fs::write(path, bytes).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Damage of a cache, wherever it is, is never seen in what is read, and is mended.
    #[test]
    fn no_damage_to_a_cache_makes_a_read_wrong_or_fail(
        harms in prop::collection::vec((any::<usize>(), harm()), 1..6),
    ) {
        let (memory, content, name) = far(&[5_000, 70_000, 16_384, 40_000, 3]);
        let home = TempDir::new().unwrap();
        content.check(&read_by(Arc::new(memory.clone()), name, Some(at(&home.path().join("packs"), MUCH))));
        let mine: Vec<_> = files(&home.path().join("packs")).into_iter().filter(|file| !file.ends_with("lock")).collect();
        prop_assert_eq!(mine.len(), 2);
        for (of, harm) in &harms {
            do_harm(&mine, *of, harm);
        }
        content.check(&read_by(Arc::new(memory.clone()), name, Some(at(&home.path().join("packs"), MUCH))));
        let before = gets(&memory);
        content.check(&read_by(Arc::new(memory.clone()), name, Some(at(&home.path().join("packs"), MUCH))));
        prop_assert_eq!(gets(&memory), before, "it is mended");
    }
}
