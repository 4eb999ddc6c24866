//! Measures what the kernel room itself costs: a file system that keeps names and sizes and throws bytes away.
//!
//! `nullfs bench [ROUNDS [FILES]]` mounts it in every way there is, one after the other in each round, has another process make,
//! write, close, stat and remove files, and prints the medians over the rounds of the median (p50) and the 99th percentile
//! of each call, in microseconds. `nullfs serve DIR [device|ring [READERS [sleep|stay]]]` only mounts it.
//! Rings need `echo Y > /sys/module/fuse/parameters/enable_uring`.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tenure_mount::kernel::{
    Attr, Entry, Errno, FOREVER, Filesystem, InitFlags, Negotiated, Notifier, Opened, Operation, Original,
    ROOT, Reply, Request, Session, Transport, Unmount, Wakeups, Wanted,
};

type Failure = Box<dyn std::error::Error>;

/// The calls that are measured, in the order in which the other process prints them.
const CALLS: [&str; 5] = ["create", "write", "close", "stat", "unlink"];

struct Null(Mutex<State>);

struct State {
    attrs: HashMap<u64, Attr>,
    names: HashMap<(u64, Vec<u8>), u64>,
    next: u64,
}

impl Null {
    fn new() -> Arc<Null> {
        let root = Attr {
            ino: ROOT,
            mode: libc::S_IFDIR | 0o755,
            nlink: 2,
            ..Attr::default()
        };
        Arc::new(Null(Mutex::new(State {
            attrs: HashMap::from([(ROOT, root)]),
            names: HashMap::new(),
            next: 2,
        })))
    }
}

/// Names are kept by the kernel for ever, attributes not at all.
fn entry(attr: Attr) -> Entry {
    Entry {
        nodeid: attr.ino,
        generation: 0,
        entry_ttl: FOREVER,
        attr_ttl: Duration::ZERO,
        attr,
    }
}

impl State {
    fn make(&mut self, parent: u64, name: &[u8], mode: u32) -> Entry {
        let attr = Attr {
            ino: self.next,
            mode,
            nlink: 1,
            blksize: 4096,
            ..Attr::default()
        };
        self.next += 1;
        self.attrs.insert(attr.ino, attr);
        self.names.insert((parent, name.to_vec()), attr.ino);
        entry(attr)
    }
}

impl Filesystem for Null {
    fn wanted(&self) -> Wanted {
        let flags = InitFlags::ASYNC_READ
            | InitFlags::PARALLEL_DIROPS
            | InitFlags::ATOMIC_O_TRUNC
            | InitFlags::HANDLE_KILLPRIV_V2
            | InitFlags::NO_OPENDIR_SUPPORT;
        Wanted {
            flags,
            ..Wanted::default()
        }
    }

    fn ready(&self, _: &Negotiated, _: Notifier) {}

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the rest is not implemented, whatever it is"
    )]
    fn handle(&self, request: Request<'_>, _: Original<'_>, reply: Reply) {
        let ino = request.nodeid;
        match request.operation {
            Operation::Lookup { name } => {
                let state = self.0.lock();
                let found = state
                    .names
                    .get(&(ino, name.to_vec()))
                    .and_then(|ino| state.attrs.get(ino));
                let found = found.map_or(Entry::negative(FOREVER), |attr| entry(*attr));
                drop(state);
                reply.entry(&found);
            }
            Operation::Create { name, mode, .. } => {
                let made = self.0.lock().make(ino, name, mode);
                reply.create(&made, Opened::default());
            }
            Operation::Mkdir { name, mode, .. } => {
                let made = self.0.lock().make(ino, name, libc::S_IFDIR | mode);
                reply.entry(&made);
            }
            Operation::Write { offset, data, .. } => {
                let len = data.bytes().len() as u64;
                if let Some(attr) = self.0.lock().attrs.get_mut(&ino) {
                    attr.size = attr.size.max(offset + len);
                }
                reply.written(len as u32);
            }
            Operation::Getattr { .. } => {
                let attr = self.0.lock().attrs.get(&ino).copied();
                match attr {
                    Some(attr) => reply.attr(&attr, Duration::ZERO),
                    None => reply.error(Errno::NOENT),
                }
            }
            Operation::Unlink { name } | Operation::Rmdir { name } => {
                let mut state = self.0.lock();
                if let Some(child) = state.names.remove(&(ino, name.to_vec())) {
                    state.attrs.remove(&child);
                }
                drop(state);
                reply.ok();
            }
            Operation::Release { .. } => reply.ok(),
            _ => reply.error(Errno::NOSYS),
        }
    }

    fn forget(&self, _: u64, _: u64) {}
    fn bug(&self) {}
    fn ended(&self) {}
}

#[derive(Clone, Copy)]
struct Way {
    transport: Transport,
    readers: usize,
    wakeups: Wakeups,
}

impl Way {
    fn name(&self) -> String {
        let transport = match self.transport {
            Transport::Device => format!("device, {} thread(s)", self.readers),
            Transport::Ring => "ring".into(),
        };
        match self.wakeups {
            Wakeups::Sleep => transport,
            Wakeups::Stay => format!("{transport}, stay"),
        }
    }

    fn mount(&self, dir: &Path) -> Result<Session, Failure> {
        let Way {
            transport,
            readers,
            wakeups,
        } = *self;
        let options = tenure_mount::kernel::Options {
            transport,
            readers,
            wakeups,
            ..Default::default()
        };
        let session = Session::mount(&options, dir, Null::new())?;
        if session.transport() != transport {
            return Err("this machine has no rings for FUSE".into());
        }
        Ok(session)
    }
}

/// Makes, writes, closes, stats and removes files; returns the time of each call.
fn work(dir: &Path, files: usize) -> std::io::Result<[Vec<Duration>; 5]> {
    let mut times = [const { Vec::new() }; 5];
    fs::create_dir(dir)?;
    let bytes = vec![1; 4096];
    for file in 0..files {
        let path = dir.join(file.to_string());
        let start = now();
        let open = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(&path)?;
        let created = now();
        open.write_all_at(&bytes, 0)?;
        let written = now();
        drop(open);
        let closed = now();
        fs::symlink_metadata(&path)?;
        let seen = now();
        fs::remove_file(&path)?;
        let ends = [created, written, closed, seen, now()];
        let starts = [start, created, written, closed, seen];
        for ((times, end), start) in times.iter_mut().zip(ends).zip(starts) {
            times.push(end - start);
        }
    }
    Ok(times)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark's purpose is to read the clock"
)]
fn now() -> Instant {
    Instant::now()
}

/// The process that uses the mount: prints p50 and p99 of each call in nanoseconds.
fn client(dir: &Path, threads: usize, files: usize) -> Result<(), Failure> {
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            let dir = dir.join(format!("t{thread}"));
            std::thread::spawn(move || work(&dir, files))
        })
        .collect();
    let mut all = [const { Vec::new() }; 5];
    for worker in workers {
        let times = worker.join().map_err(|_| "a worker panicked")??;
        all.iter_mut()
            .zip(times)
            .for_each(|(all, times)| all.extend(times));
    }
    for mut times in all {
        times.sort();
        println!(
            "{} {}",
            times[times.len() / 2].as_nanos(),
            times[times.len() * 99 / 100].as_nanos()
        );
    }
    Ok(())
}

/// Runs one way once and returns p50 and p99 of each call.
fn measure(way: &Way, threads: usize, files: usize) -> Result<Vec<[f64; 2]>, Failure> {
    let dir = std::env::temp_dir().join(format!("nullfs-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let session = way.mount(&dir)?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("client")
        .arg(&dir)
        .args([threads.to_string(), files.to_string()]);
    let output = command.output()?;
    session.unmount(Unmount::Detach)?;
    session.join();
    fs::remove_dir(&dir)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let lines = String::from_utf8(output.stdout)?;
    lines
        .lines()
        .map(|line| {
            let (p50, p99) = line.split_once(' ').ok_or("two numbers a line")?;
            Ok([p50.parse::<f64>()? / 1000.0, p99.parse::<f64>()? / 1000.0])
        })
        .collect()
}

fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    for wakeups in [Wakeups::Sleep, Wakeups::Stay] {
        for readers in [1, 2] {
            ways.push(Way {
                transport: Transport::Device,
                readers,
                wakeups,
            });
        }
        ways.push(Way {
            transport: Transport::Ring,
            readers: 1,
            wakeups,
        });
    }
    ways
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn bench(rounds: usize, files: usize) -> Result<(), Failure> {
    for threads in [1, 2] {
        let ways = ways();
        let mut results = vec![Vec::new(); ways.len()];
        for round in 0..rounds {
            for (way, results) in ways.iter().zip(&mut results) {
                match measure(way, threads, files) {
                    Ok(result) => results.push(result),
                    Err(error) if round == 0 => println!("{}: {error}", way.name()),
                    Err(_) => {}
                }
            }
        }
        println!("\n{threads} calling thread(s), {rounds} rounds of {files} files; us, p50 (p99)");
        println!("{:28} {}", "", CALLS.map(|call| format!("{call:>14}")).concat());
        for (way, results) in ways
            .iter()
            .zip(&results)
            .filter(|(_, results)| !results.is_empty())
        {
            let cell = |call: usize, which: usize| median(results.iter().map(|r| r[call][which]).collect());
            let cells: String = (0..5)
                .map(|call| format!("{:>7.1} ({:>4.0})", cell(call, 0), cell(call, 1)))
                .collect();
            println!("{:28} {cells}", way.name());
        }
    }
    Ok(())
}

fn serve(dir: &Path, words: &[String]) -> Result<(), Failure> {
    let transport = match words.first().map(String::as_str) {
        Some("ring") => Transport::Ring,
        _ => Transport::Device,
    };
    let readers = words.get(1).map_or(Ok(2), |word| word.parse())?;
    let wakeups = match words.get(2).map(String::as_str) {
        None | Some("sleep") => Wakeups::Sleep,
        Some("stay") => Wakeups::Stay,
        Some(other) => panic!("{other} is neither sleep nor stay"),
    };
    let way = Way {
        transport,
        readers,
        wakeups,
    };
    let session = way.mount(dir)?;
    println!(
        "{} on {}; end it with `fusermount3 -u`",
        way.name(),
        session.path().display()
    );
    session.join();
    Ok(())
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: usize| words.get(at).map_or(Ok(otherwise), |word| word.parse());
    match words.first().map(String::as_str) {
        Some("bench") => bench(number(1, 5)?, number(2, 2000)?),
        Some("client") if words.len() == 4 => client(Path::new(&words[1]), number(2, 1)?, number(3, 1)?),
        Some("serve") if words.len() > 1 => serve(Path::new(&words[1]), &words[2..]),
        _ => Err(
            "usage: nullfs bench [ROUNDS [FILES]] | nullfs serve DIR [device|ring [READERS [sleep|stay]]]"
                .into(),
        ),
    }
}
