//! How long an append takes until it is durable, beside a plain write and fdatasync of a file in the same folder.
//!
//! `cargo run --release -p tenure-journal --example append_speed -- FOLDER [COUNT]`

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenure_journal::{Claimant, Journal, Means, Opening};
use tenure_model::{Clock, DriveName, Timestamp};
use tenure_store::{Bucket, FolderBucket};

const RECORD_LEN: usize = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: append_speed FOLDER [COUNT]")?;
    let count = arguments
        .next()
        .map_or(Ok(2000), |count| count.parse::<usize>())?;
    let folder = Path::new(&folder).join("append_speed");
    std::fs::create_dir_all(&folder)?;

    report("append to a growing file, fdatasync", &growing(&folder, count)?);
    report(
        "write a block of a written file, fdatasync",
        &written(&folder, count)?,
    );
    let bucket: Arc<dyn Bucket> = Arc::new(FolderBucket::create(&folder.join("bucket"))?);
    let drive = DriveName::parse("speed")?;
    let claimant = Claimant {
        after: None,
        who: "append_speed".to_owned(),
        means: Means::new(Arc::new(Started(now())), Arc::new(|| [0; 16])),
    };
    let opening = Opening::begin(bucket.clone(), &drive, claimant)?;
    let replayed = opening.replay(&mut |_, _| Ok(()))?;
    let journal = opening.go_on(replayed)?;
    journal.start_threads()?;
    report("append_now", &alone(&journal, count)?);
    report(
        "append, committed by the journal's thread",
        &through_the_thread(&journal, count)?,
    );
    for threads in [2, 8, 32] {
        let before = bucket.requests().counts().syncs;
        let times = together(&journal, threads, count)?;
        report(&format!("append_now by {threads} threads"), &times);
        let syncs = bucket.requests().counts().syncs - before;
        println!(
            "  {:.1} records for each wait for the disk",
            times.len() as f64 / syncs as f64
        );
    }
    drop(journal);
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// A clock that begins with the program.
struct Started(Instant);

impl Clock for Started {
    fn now(&self) -> Timestamp {
        Timestamp::since_epoch(self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

fn growing(folder: &Path, count: usize) -> std::io::Result<Vec<Duration>> {
    let mut file = std::fs::File::create(folder.join("growing"))?;
    timed(count, || {
        file.write_all(&[1; RECORD_LEN])?;
        file.sync_data()
    })
}

fn written(folder: &Path, count: usize) -> std::io::Result<Vec<Duration>> {
    let file = std::fs::File::create(folder.join("written"))?;
    file.write_all_at(&vec![0; 4096 * count], 0)?;
    file.sync_all()?;
    let mut at = 0;
    timed(count, || {
        at += 4096;
        file.write_all_at(&[1; 4096], at - 4096)?;
        file.sync_data()
    })
}

fn alone(journal: &Journal, count: usize) -> Result<Vec<Duration>, tenure_model::Failure> {
    timed(count, || journal.append_now(vec![1; RECORD_LEN]).map(|_| ()))
}

fn through_the_thread(journal: &Journal, count: usize) -> Result<Vec<Duration>, tenure_model::Failure> {
    let (send, receive) = std::sync::mpsc::channel();
    timed(count, || {
        let send = send.clone();
        let done = Box::new(move |outcome| send.send(outcome).expect("the appender waits"));
        journal.append(vec![1; RECORD_LEN], done)?;
        receive.recv().expect("the callback runs").map(|_| ())
    })
}

fn together(journal: &Journal, threads: usize, count: usize) -> Result<Vec<Duration>, tenure_model::Failure> {
    std::thread::scope(|scope| {
        let appenders: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| alone(journal, count / threads)))
            .collect();
        let mut all = Vec::new();
        for appender in appenders {
            all.extend(appender.join().expect("an appender does not panic")?);
        }
        Ok(all)
    })
}

fn timed<E>(count: usize, mut act: impl FnMut() -> Result<(), E>) -> Result<Vec<Duration>, E> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = now();
        act()?;
        times.push(start.elapsed());
    }
    Ok(times)
}

#[expect(clippy::disallowed_methods, reason = "this program measures time")]
fn now() -> Instant {
    Instant::now()
}

fn report(what: &str, times: &[Duration]) {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
    println!(
        "{what}: p50 {:.0} us, p90 {:.0} us, p99 {:.0} us",
        at(0.5),
        at(0.9),
        at(0.99)
    );
}
