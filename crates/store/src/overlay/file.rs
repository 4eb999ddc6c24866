//! A file of which the changed blocks are in memory, and the others where they were.

use crate::bucket::{Bucket, missing_or_short};
use crate::key::Key;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::sync::Arc;
use tenure_model::Failure;

/// Bytes that are copied when one of them is changed.
const BLOCK: u64 = 4096;

/// A file.
#[derive(Default)]
pub(super) struct OverlayFile {
    lower: Option<(Arc<dyn Bucket>, Key)>,
    content: RwLock<Content>,
}

#[derive(Default)]
struct Content {
    len: u64,
    /// How many bytes of the file below show through.
    shown: u64,
    /// Blocks that were changed, by their numbers.
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl OverlayFile {
    /// Lies over a file of so many bytes.
    pub(super) fn over(lower: Arc<dyn Bucket>, key: Key, len: u64) -> Self {
        Self {
            lower: Some((lower, key)),
            content: RwLock::new(Content {
                len,
                shown: len,
                blocks: BTreeMap::new(),
            }),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.content.read().len
    }

    /// Fills `into`; what is too short is corrupt, as of any object.
    pub(super) fn read(&self, key: &Key, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let content = self.content.read();
        let end = offset.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > content.len) {
            return Err(missing_or_short(key));
        }
        self.fill(&content, offset, into)
    }

    pub(super) fn read_parts(
        &self,
        key: &Key,
        offset: u64,
        parts: &mut [IoSliceMut<'_>],
    ) -> Result<(), Failure> {
        let mut at = offset;
        for part in parts {
            self.read(key, at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let mut content = self.content.write();
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let (number, start) = (at / BLOCK, (at % BLOCK) as usize);
            let (here, behind) = rest.split_at(rest.len().min(BLOCK as usize - start));
            if !content.blocks.contains_key(&number) {
                let mut block = vec![0; BLOCK as usize];
                self.fill(&content, number * BLOCK, &mut block)?;
                content.blocks.insert(number, block.into());
            }
            let block = content.blocks.get_mut(&number).expect("it is there by now");
            block[start..start + here.len()].copy_from_slice(here);
            at += here.len() as u64;
            rest = behind;
        }
        content.len = content.len.max(at);
        Ok(())
    }

    /// Makes the file at least so long.
    pub(super) fn extend(&self, len: u64) {
        let mut content = self.content.write();
        content.len = content.len.max(len);
    }

    /// Makes the file no longer than that.
    pub(super) fn truncate(&self, len: u64) {
        let mut content = self.content.write();
        content.len = content.len.min(len);
        content.shown = content.shown.min(len);
        content.blocks.retain(|number, _| number * BLOCK < len);
        // What is read behind the end, once the file is longer again, is zeros.
        if let Some(last) = content.blocks.get_mut(&(len / BLOCK)) {
            last[(len % BLOCK) as usize..].fill(0);
        }
    }

    /// Fills `into` with what is there, and with zeros where nothing is.
    fn fill(&self, content: &Content, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let mut done = 0;
        while done < into.len() {
            let at = offset + done as u64;
            let rest = &mut into[done..];
            let (number, start) = (at / BLOCK, (at % BLOCK) as usize);
            done += if let Some(block) = content.blocks.get(&number) {
                let len = rest.len().min(BLOCK as usize - start);
                rest[..len].copy_from_slice(&block[start..start + len]);
                len
            } else {
                let next = content.blocks.range(number..).next();
                let until = next.map_or(u64::MAX, |(number, _)| number * BLOCK);
                let len = (rest.len() as u64).min(until - at) as usize;
                self.fill_from_below(content.shown, at, &mut rest[..len])?;
                len
            };
        }
        Ok(())
    }

    fn fill_from_below(&self, shown: u64, at: u64, into: &mut [u8]) -> Result<(), Failure> {
        let there = shown.saturating_sub(at).min(into.len() as u64) as usize;
        let (from_below, zeros) = into.split_at_mut(there);
        zeros.fill(0);
        match &self.lower {
            Some((lower, key)) if !from_below.is_empty() => lower.get_range(key, at, from_below),
            Some(_) | None => Ok(()),
        }
    }
}
