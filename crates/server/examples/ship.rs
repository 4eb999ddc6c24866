//! Times a sync of 4 KiB beside a bare `fdatasync` of 4 KiB in the same folder.
//!
//! `cargo run --release -p tenure-server --example ship -- FOLDER [ROUNDS]`, where FOLDER is empty or not there.
#![allow(clippy::unwrap_used, reason = "a measurement that fails says where")]

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tenure_core::{Branch, Undecided};
use tenure_model::batch::chain_start;
use tenure_model::codec::Codec;
use tenure_model::{
    Batch, BranchName, Clock, Digest, DriveName, Extent, Ino, Name, NewNode, Op, Piece, Timestamp,
};
use tenure_server::{Beginning, Drive, Options};
use tenure_store::FolderBucket;
use tenure_wire::{Access, Chunk, Owner, Shared, Who};

/// Files that are created in bulk, and in each batch.
const BULK: usize = 100_000;
const BULK_BATCH: usize = 500;

struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Timestamp {
        Timestamp::default()
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("give a folder");
    let rounds = arguments
        .next()
        .map_or(2000, |rounds| rounds.parse().expect("ROUNDS is a number"));
    let bare = bare(Path::new(&folder), rounds);
    let shipped = shipped(Path::new(&folder), rounds);
    for (what, times) in [("fdatasync of 4 KiB", bare), ("place + ship of 4 KiB", shipped)] {
        let at = |part: usize| times[(times.len() - 1) * part / 1000].as_secs_f64() * 1e6;
        println!(
            "{what:22} p50 {:7.0} us   p99 {:7.0} us   p99.9 {:7.0} us",
            at(500),
            at(990),
            at(999)
        );
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "measuring time is what this program is for"
)]
fn timed(rounds: usize, mut round: impl FnMut(usize)) -> Vec<Duration> {
    let mut times: Vec<_> = (0..rounds)
        .map(|number| {
            let start = Instant::now();
            round(number);
            start.elapsed()
        })
        .collect();
    times.sort();
    times
}

/// Writes blocks one behind the other into a file that was filled with zeros before.
fn bare(folder: &Path, rounds: usize) -> Vec<Duration> {
    std::fs::create_dir_all(folder).unwrap();
    let path = folder.with_extension("bare");
    let file = std::fs::File::create(&path).unwrap();
    file.write_all_at(&vec![0; rounds * 4096], 0).unwrap();
    file.sync_all().unwrap();
    let times = timed(rounds, |number| {
        file.write_all_at(&[number as u8; 4096], number as u64 * 4096)
            .unwrap();
        file.sync_data().unwrap();
    });
    std::fs::remove_file(path).unwrap();
    times
}

fn shipped(folder: &Path, rounds: usize) -> Vec<Duration> {
    let bucket = Arc::new(FolderBucket::create(folder).unwrap());
    let name = DriveName::parse("work").unwrap();
    let beginning = Beginning {
        hash_key: [7; 16],
        branch: BranchName::parse("main").unwrap(),
        uid: 0,
        gid: 0,
    };
    let options = Options::new(
        Arc::new(NoClock),
        Arc::new(|| [1; 16]),
        "here",
        std::process::id(),
    );
    let drive = Drive::create(bucket, &name, &beginning, options).unwrap();
    let mut holder = Holder::new(&drive);
    let times = timed(rounds, |number| {
        holder.create(number);
        holder.sync();
    });
    let bulk = timed(1, |_| {
        for number in rounds..rounds + BULK {
            holder.create(number);
            if number % BULK_BATCH == 0 {
                holder.sync();
            }
        }
        holder.sync();
    });
    let each = bulk[0].as_secs_f64() / BULK as f64 * 1e6;
    println!("{BULK} files of 4 KiB in batches of {BULK_BATCH}: {each:.1} us each");
    drive.close().unwrap();
    times
}

struct Holder<'a> {
    drive: &'a Drive,
    branch: Branch,
    batch: Batch,
    next: Ino,
}

impl<'a> Holder<'a> {
    fn new(drive: &'a Drive) -> Self {
        let (agent, host, purpose) = ("a measurement".into(), "here".into(), "measuring".into());
        let who = Who {
            agent,
            host,
            pid: std::process::id(),
            purpose,
            hosted: true,
        };
        let opened = drive.open(&who).unwrap();
        let lent = drive.lend(opened.session, "main", Access::Exclusive).unwrap();
        let Shared::Here(branch) = lent.state else {
            panic!("it is in this process")
        };
        let batch = Batch {
            session: opened.session,
            branch: lent.branch.unwrap(),
            epoch: opened.epoch,
            number: 1,
            previous: chain_start(opened.session, lent.branch.unwrap(), lent.inos.next),
            chunks: Vec::new(),
            ops: Vec::new(),
        };
        Self {
            drive,
            branch,
            batch,
            next: lent.inos.next,
        }
    }

    /// Creates a file of 4 KiB.
    fn create(&mut self, number: usize) {
        let bytes = [number.to_le_bytes(); 512].concat();
        let chunk = Chunk {
            digest: Digest::of(&bytes),
            bytes: &bytes,
        };
        let place = self.drive.place(self.batch.session, &[chunk]).unwrap().remove(0);
        let ino = self.next;
        self.next = ino.next();
        let node = NewNode::file();
        let name = Name::parse(format!("file-{number}").as_bytes()).unwrap();
        let (parent, time) = (Ino::ROOT, Timestamp::default());
        self.change(&Op::Create {
            parent,
            name,
            ino,
            node,
            time,
        });
        let extent = Extent::Chunk {
            at: place.at,
            start: 0,
            len: place.len,
        };
        let pieces = vec![Piece { offset: 0, extent }];
        self.batch.chunks.push(place);
        self.change(&Op::Write {
            ino,
            pieces,
            size: 0,
            time: Some(time),
        });
    }

    /// Ships what was changed, and waits until it is durable.
    fn sync(&mut self) {
        let batch = self.batch.clone();
        self.batch.ops.clear();
        self.batch.chunks.clear();
        let (send, receive) = mpsc::sync_channel(1);
        let done = Box::new(move |done| send.send(done).unwrap());
        self.drive.ship(batch, Some(self.branch.clone()), done);
        self.batch.previous = receive.recv().unwrap().unwrap().digest;
        self.batch.number += 1;
    }

    fn change(&mut self, op: &Op) {
        loop {
            match self.branch.decide(op) {
                Ok(decision) => {
                    self.branch.apply(decision);
                    break;
                }
                Err(Undecided::Missing(missing)) => {
                    missing.supply(&self.drive.page(missing.at()).unwrap()).unwrap();
                }
                Err(Undecided::Refused(refusal)) => panic!("{refusal}"),
            }
        }
        op.write(&mut self.batch.ops);
    }
}
