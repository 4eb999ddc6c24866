//! What the tests of packs share: a bucket with packs, and a note of what was put into them.

use std::sync::Arc;
use tenure_model::{Address, ChunkPlace, Digest, DriveName, PackNumber};
use tenure_store::pack::{EntryKind, PackWriter, Packs, Sizes};
use tenure_store::{Bucket, MemoryBucket};

pub(crate) struct World {
    pub(crate) bucket: Arc<dyn Bucket>,
    pub(crate) packs: Packs,
}

impl World {
    pub(crate) fn new() -> Self {
        let bucket: Arc<dyn Bucket> = Arc::new(MemoryBucket::new());
        let packs = filling(bucket.clone(), USUAL);
        Self { bucket, packs }
    }
}

/// Bytes of the buffers of packs: several make a pack that is tested, and a chunk may span them.
pub(crate) const USUAL: usize = 64 << 10;
/// Bytes of buffers of which a chunk may need more than there are free.
pub(crate) const SMALL: usize = 32 << 10;

/// Returns packs that are filled through buffers of so many bytes.
pub(crate) fn filling(bucket: Arc<dyn Bucket>, buffer_len: usize) -> Packs {
    let sizes = Sizes {
        buffer_len,
        ..Sizes::default()
    };
    Packs::with_sizes(bucket, drive(), sizes)
}

/// Fills one pack with chunks of these lengths and flushes it; also returns what is in it.
pub(crate) fn filled(
    bucket: &MemoryBucket,
    buffer_len: usize,
    lens: &[usize],
) -> (Packs, Arc<PackWriter>, Content) {
    let packs = filling(Arc::new(bucket.clone()), buffer_len);
    let pack = packs.start(number(1)).unwrap();
    let mut content = Content::default();
    for (seed, len) in (1..).zip(lens) {
        content.append(&pack, &chunk(seed, *len));
    }
    pack.flush(pack.len()).unwrap();
    (packs, pack, content)
}

pub(crate) fn drive() -> DriveName {
    DriveName::parse("work").unwrap()
}

pub(crate) fn number(number: u64) -> PackNumber {
    PackNumber(number)
}

/// Returns bytes that follow from a seed and look random.
pub(crate) fn chunk(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

/// Which bytes should be where.
#[derive(Default)]
pub(crate) struct Content {
    chunks: Vec<(ChunkPlace, Vec<u8>)>,
}

impl Content {
    pub(crate) fn append(&mut self, pack: &PackWriter, bytes: &[u8]) {
        let place = pack.append(EntryKind::Chunk, Digest::of(bytes), bytes).unwrap();
        self.note(place.expect("the pack has room"), bytes);
    }

    pub(crate) fn note(&mut self, place: ChunkPlace, bytes: &[u8]) {
        assert_eq!(place.len as usize, bytes.len());
        self.chunks.push((place, bytes.to_vec()));
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    pub(crate) fn places(&self) -> Vec<ChunkPlace> {
        self.chunks.iter().map(|(place, _)| place.clone()).collect()
    }

    /// Returns the places, each with its bytes.
    pub(crate) fn carried(&self) -> Vec<ChunkPlace> {
        let carried = self.chunks.iter().map(|(place, bytes)| ChunkPlace {
            inline: Some(bytes.clone().into()),
            ..place.clone()
        });
        carried.collect()
    }

    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.chunks.iter().map(|(place, _)| place.at).collect()
    }

    pub(crate) fn bytes(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.chunks.iter().map(|(_, bytes)| bytes)
    }

    pub(crate) fn check(&self, packs: &Packs) {
        self.check_first(self.chunks.len(), packs);
    }

    /// Reads the first chunks back: whole, and in parts that begin and end anywhere.
    pub(crate) fn check_first(&self, count: usize, packs: &Packs) {
        for (number, (place, bytes)) in self.chunks[..count].iter().enumerate() {
            assert_eq!(packs.read(place.at).as_deref(), Ok(&bytes[..]));
            let start = number * 131 % bytes.len();
            let len = (number * 7919 + 1) % (bytes.len() - start + 1);
            for (start, len) in [(0, bytes.len()), (start, len), (start, bytes.len() - start)] {
                let mut into = vec![0; len];
                assert_eq!(packs.read_into(place.at, start as u32, &mut into), Ok(()));
                assert!(
                    into == bytes[start..start + len],
                    "{len} bytes at {start} of chunk {number}"
                );
            }
        }
    }
}
