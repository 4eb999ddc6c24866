//! A real process on a real folder, killed at any moment: what it was told is durable is there.

use crate::world::{append, drive, open, record, records};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tenure_model::{Address, ChunkPlace, Digest, PackNumber};
use tenure_store::pack::{EntryKind, Packs};
use tenure_store::{Bucket, FolderBucket};

const FOLDER: &str = "TENURE_TEST_FOLDER";

/// What the killed process runs; without its folder it does nothing.
#[test]
fn the_child_appends_and_flushes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let bucket: Arc<dyn Bucket> = Arc::new(FolderBucket::open(folder.as_ref()).unwrap());
    let (journal, _) = open(&bucket).unwrap();
    journal.start_threads().unwrap();
    let packs = Packs::new(bucket, drive(), []);
    packs.start_thread().unwrap();
    let pack = packs.start(PackNumber(journal.epoch().0)).unwrap();
    loop {
        let number = journal.last().0 + 1;
        let chunk = record(number);
        let placed = pack.append(EntryKind::Chunk, Digest::of(&chunk), &chunk).unwrap();
        pack.flush(pack.len()).unwrap();
        append(&journal, number, number).unwrap();
        let place = placed.unwrap();
        let line = format!("{number} {} {}\n", place.offset, place.len);
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn a_process_killed_at_any_moment_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    drop(FolderBucket::create(folder.path()).unwrap());
    let mut told = 0;
    for round in 1..=8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "killed::the_child_appends_and_flushes_until_it_is_killed",
                "--nocapture",
            ])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut places = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            if let [number, offset, len] = numbers[..] {
                told = number;
                places.push((number, offset, len));
            }
            if places.len() == round * 13 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let bucket: Arc<dyn Bucket> = Arc::new(FolderBucket::open(folder.path()).unwrap());
        let (journal, replayed) = open(&bucket).unwrap();
        let end = journal.last().0;
        assert!(told <= end && end <= told + 1, "{told} was told, {end} is there");
        assert_eq!(replayed, records(1, end));
        let pack = PackNumber(journal.epoch().0 - 1);
        let packs = Packs::new(bucket, drive(), []);
        let placed: Vec<_> = places
            .iter()
            .map(|(number, offset, len)| ChunkPlace {
                at: Address {
                    pack,
                    digest: Digest::of(&record(*number)),
                },
                offset: *offset,
                len: *len as u32,
                inline: None,
            })
            .collect();
        let recovered = packs.recover_open(pack, &placed, &[]).unwrap();
        assert_eq!(recovered.missing, []);
        packs.verify(pack, &|_| ()).unwrap();
    }
}
