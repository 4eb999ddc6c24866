//! How long it takes to put chunks into a pack, beside plain writes to a file in the same folder.
//!
//! `cargo run --release -p tenure-store --example pack_speed -- FOLDER [MIB]`

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenure_model::{Digest, DriveName, PackNumber};
use tenure_store::pack::{EntryKind, Packs};
use tenure_store::{Bucket, FolderBucket};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: pack_speed FOLDER [MIB]")?;
    let mib = arguments.next().map_or(Ok(512), |mib| mib.parse::<usize>())?;
    let folder = Path::new(&folder).join("pack_speed");
    std::fs::create_dir_all(&folder)?;
    for len in [4 << 10, 64 << 10, 1 << 20] {
        let count = (mib << 20) / len;
        let bytes: Vec<u8> = (0..len).map(|at| (at * 31 % 251) as u8).collect();
        plain(&folder, count, &bytes)?;
        packs(&folder, count, bytes)?;
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn plain(folder: &Path, count: usize, bytes: &[u8]) -> std::io::Result<()> {
    let path = folder.join("plain");
    let file = std::fs::File::create(&path)?;
    let start = now();
    let mut times = Vec::with_capacity(count);
    for number in 0..count {
        let begin = now();
        file.write_all_at(bytes, (number * bytes.len()) as u64)?;
        times.push(begin.elapsed());
    }
    file.sync_all()?;
    report("plain file", bytes.len(), times, start.elapsed());
    std::fs::remove_file(path)
}

fn packs(folder: &Path, count: usize, mut bytes: Vec<u8>) -> Result<(), Box<dyn std::error::Error>> {
    let bucket = FolderBucket::create(&folder.join(format!("bucket-{}", bytes.len())))?;
    let bucket: Arc<dyn Bucket> = Arc::new(bucket);
    let packs = Packs::new(bucket, DriveName::parse("speed")?, []);
    packs.start_thread()?;
    let mut number = PackNumber(1);
    let mut pack = packs.start(number)?;
    let start = now();
    let mut times = Vec::with_capacity(count);
    let mut addresses = Vec::with_capacity(count);
    for chunk in 0..count as u64 {
        // A digest that is not one: what is measured is what appending costs besides hashing.
        bytes[..8].copy_from_slice(&chunk.to_le_bytes());
        let mut digest = Digest([0; 32]);
        digest.0[..8].copy_from_slice(&chunk.to_be_bytes());
        let begin = now();
        let mut place = pack.append(EntryKind::Chunk, digest, &bytes)?;
        if place.is_none() {
            packs.seal(number)?;
            number = number.next();
            pack = packs.start(number)?;
            place = pack.append(EntryKind::Chunk, digest, &bytes)?;
        }
        times.push(begin.elapsed());
        addresses.extend(place.map(|place| place.at));
    }
    packs.seal(number)?;
    report("packs", bytes.len(), times, start.elapsed());
    let start = now();
    let mut times = Vec::with_capacity(count);
    for at in addresses {
        let begin = now();
        // The last byte is left out, so that block checksums are checked and not the digest.
        packs.read_into(at, 0, &mut bytes[1..])?;
        times.push(begin.elapsed());
    }
    report("read back", bytes.len(), times, start.elapsed());
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "this program measures time")]
fn now() -> Instant {
    Instant::now()
}

fn report(what: &str, len: usize, mut times: Vec<Duration>, all: Duration) {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
    let mib = ((times.len() * len) >> 20) as f64 / all.as_secs_f64();
    println!(
        "{what}, {len} bytes each: p50 {:.1} us, p90 {:.1} us, p99 {:.1} us, {mib:.0} MiB/s",
        at(0.5),
        at(0.9),
        at(0.99)
    );
}
