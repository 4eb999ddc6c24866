//! An owner whose process is killed: what it had acknowledged is in the folder.

use crate::world::{Holder, StillClock, beginning, content, drive_name, open, options};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tenure_server::{Drive, Options, Threads};
use tenure_store::FolderBucket;
use tenure_wire::Owner;

/// Names the folder for the process that is going to be killed.
const FOLDER: &str = "TENURE_TEST_KILLED_IN";
const LENS: [usize; 3] = [200, 9000, 150_000];

fn bytes_of(number: u64) -> Vec<u8> {
    content(number, LENS[number as usize % LENS.len()])
}

/// Does nothing unless it is the process that is going to be killed.
#[test]
fn the_process_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let bucket = FolderBucket::create(Path::new(&folder)).unwrap();
    let options = Options {
        threads: Threads::Started,
        fold_bytes: 200_000,
        ..options(&Arc::<StillClock>::default())
    };
    let drive = Drive::create(Arc::new(bucket), &drive_name(), &beginning(), options).unwrap();
    let mut holder = Holder::hosted(&drive, "main");
    for number in 0.. {
        holder.file(&format!("file-{number}"), &bytes_of(number));
        holder.ship();
        writeln!(std::io::stderr(), "acknowledged {number}").unwrap();
    }
}

#[test]
fn what_was_acknowledged_survives_the_death_of_the_owners_process() {
    for round in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::the_process_that_is_killed", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut told = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok());
        let last: u64 = told.nth(round * 13).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();

        let drive = open(&FolderBucket::open(folder.path()).unwrap());
        let reader = Holder::reader(&drive, "main");
        for number in 0..=last {
            assert_eq!(
                reader.read(&format!("file-{number}")),
                bytes_of(number),
                "round {round}"
            );
        }
        assert_eq!(drive.check(true).unwrap(), [""; 0], "round {round}");
        drive.close().unwrap();
    }
}
