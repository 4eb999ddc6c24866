//! One large file, written from end to end and synced, then read back with cold caches.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Result, ensure};

use super::{Metric, Workload, incompressible, metric};
use crate::bench::interrupt;
use crate::bench::measure::{Content, Round};
use crate::bench::named;
use crate::bench::side;

const PIECE: usize = 1 << 20;

/// Writes and reads a file of `bytes`.
#[derive(Debug)]
pub(super) struct Sequential {
    pub(super) bytes: u64,
}

impl Workload for Sequential {
    fn metrics(&self) -> &[Metric] {
        const {
            &[
                metric("sequential_write", "write 1 GiB in pieces of 1 MiB, fsync"),
                metric(
                    "sequential_read_cold",
                    "read 1 GiB after a remount and dropped caches",
                ),
            ]
        }
    }

    fn round(&self, round: &mut Round<'_>) -> Result<()> {
        let content = Content {
            files: 1,
            bytes: self.bytes,
        };
        let path = round.side.path().join("large");
        let mut bytes = Bytes::from_seed(round.seed, self.bytes);
        round.until_done("sequential_write", content, |_| bytes.write(&path, self.bytes))?;
        drop(bytes);
        side::drop_caches(round.side)?;
        round.until_done("sequential_read_cold", content, |_| read(&path, self.bytes))
    }
}

/// Incompressible bytes to write, made before anything is measured.
pub(super) struct Bytes(Vec<u8>);

impl Bytes {
    /// Makes up to a gigabyte of the `bytes` that are to be written; no seed's bytes are another's.
    pub(super) fn from_seed(seed: u64, bytes: u64) -> Bytes {
        Bytes(incompressible(seed, bytes.min(1 << 30) as usize))
    }

    /// Writes `total` bytes to a new file and syncs it.
    pub(super) fn write(&mut self, path: &Path, total: u64) -> Result<()> {
        let mut file = named::create_new(path)?;
        let mut left = total as usize;
        loop {
            for piece in self.0[..left.min(self.0.len())].chunks(PIECE) {
                interrupt::check()?;
                file.write_all(piece)?;
                left -= piece.len();
            }
            if left == 0 {
                return Ok(file.sync_all()?);
            }
            // The next gigabyte must not hold what this one did, wherever a store may cut it.
            let turn = (left >> 30) as u8 | 0x80;
            self.0.iter_mut().for_each(|byte| *byte ^= turn);
        }
    }
}

fn read(path: &Path, bytes: u64) -> Result<()> {
    let mut file = named::open(path)?;
    let mut buffer = vec![0; PIECE];
    let mut total = 0;
    loop {
        interrupt::check()?;
        match file.read(&mut buffer)? {
            0 => break,
            count => total += count as u64,
        }
    }
    ensure!(
        total == bytes,
        "{} holds {total} of {bytes} bytes",
        path.display()
    );
    Ok(())
}
