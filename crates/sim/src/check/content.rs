//! The bytes of a file as they should be. Sparse, and cheap to keep many versions of.
//!
//! Invariant: no page is all zeros and none lies behind the size, so equal contents are equal values.

use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE_LEN: u64 = 4096;
type Page = [u8; PAGE_LEN as usize];

/// The bytes of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    size: u64,
    pages: BTreeMap<u64, Arc<Page>>,
}

impl Content {
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.put(offset, bytes.len() as u64, |at, page| {
            let from = (at - offset) as usize;
            page.copy_from_slice(&bytes[from..from + page.len()]);
        });
        if !bytes.is_empty() {
            self.size = self.size.max(offset + bytes.len() as u64);
        }
    }

    pub(crate) fn resize(&mut self, size: u64) {
        if size < self.size {
            self.punch(size, self.size - size);
        }
        self.size = size;
    }

    pub(crate) fn punch(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.size);
        if offset >= end {
            return;
        }
        // Whole pages go unseen; what is left at the two ends is overwritten.
        let (first, last) = (offset.div_ceil(PAGE_LEN), end / PAGE_LEN);
        if first <= last {
            let mut behind = self.pages.split_off(&first);
            self.pages.append(&mut behind.split_off(&last));
            self.put(offset, (first * PAGE_LEN).min(end) - offset, |_, page| {
                page.fill(0)
            });
            self.put(last * PAGE_LEN, end - last * PAGE_LEN, |_, page| page.fill(0));
        } else {
            self.put(offset, end - offset, |_, page| page.fill(0));
        }
    }

    /// Takes a range out and moves what is behind it down.
    pub(crate) fn collapse(&mut self, offset: u64, len: u64) {
        let behind = self.read(offset + len, self.size - offset - len);
        self.resize(offset);
        self.write(offset, &behind);
        // What is all zeros at the end counts as well.
        self.size = offset + behind.len() as u64;
    }

    /// Moves what is behind `offset` up.
    pub(crate) fn insert(&mut self, offset: u64, len: u64) {
        let behind = self.read(offset, self.size - offset);
        self.resize(offset);
        self.resize(offset + len);
        self.write(offset + len, &behind);
    }

    /// Returns up to `len` bytes from `offset` on, fewer only at the end.
    pub(crate) fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let end = offset.saturating_add(len).min(self.size);
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        if offset >= end {
            return bytes;
        }
        for (number, page) in self.pages.range(offset / PAGE_LEN..end.div_ceil(PAGE_LEN)) {
            let start = number * PAGE_LEN;
            let (from, to) = (offset.max(start), end.min(start + PAGE_LEN));
            let part = &page[(from - start) as usize..(to - start) as usize];
            bytes[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
        }
        bytes
    }

    /// Returns ranges that hold everything that is not zero, few and in order.
    pub(crate) fn data(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in self.pages.keys() {
            let (start, end) = (number * PAGE_LEN, ((number + 1) * PAGE_LEN).min(self.size));
            match ranges.last_mut() {
                Some((_, last)) if *last == start => *last = end,
                _ => ranges.push((start, end)),
            }
        }
        ranges
    }

    /// Says where two contents differ.
    pub(crate) fn difference(&self, other: &Content) -> String {
        if self.size != other.size {
            return format!("its size is {} and should be {}", other.size, self.size);
        }
        let pages = self.pages.keys().chain(other.pages.keys());
        let first = pages
            .filter(|number| self.pages.get(number) != other.pages.get(number))
            .min();
        match first {
            None => "they do not differ".to_owned(),
            Some(number) => {
                let at = number * PAGE_LEN;
                let (mine, theirs) = (self.read(at, PAGE_LEN), other.read(at, PAGE_LEN));
                let byte = mine.iter().zip(&theirs).position(|(mine, theirs)| mine != theirs);
                let byte = byte.expect("the pages differ");
                let is_hole = theirs[byte..].iter().all(|byte| *byte == 0);
                format!(
                    "byte {} of {} is not as it should be{}",
                    at + byte as u64,
                    self.size,
                    if is_hole { ", and zeros follow" } else { "" }
                )
            }
        }
    }

    /// Changes a range, page by page.
    fn put(&mut self, offset: u64, len: u64, change: impl Fn(u64, &mut [u8])) {
        let end = offset + len;
        let mut at = offset;
        while at < end {
            let number = at / PAGE_LEN;
            let (start, next) = (number * PAGE_LEN, ((number + 1) * PAGE_LEN).min(end));
            let page = self
                .pages
                .entry(number)
                .or_insert_with(|| Arc::new([0; PAGE_LEN as usize]));
            let page = Arc::make_mut(page);
            change(at, &mut page[(at - start) as usize..(next - start) as usize]);
            if page.iter().all(|byte| *byte == 0) {
                self.pages.remove(&number);
            }
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_those_of_a_plain_vector() {
        let mut random = crate::random::Random::new(1, "content");
        let (mut content, mut plain) = (Content::default(), Vec::<u8>::new());
        for step in 0..3000 {
            let (offset, len) = (random.below(30_000), random.between(1, 9000));
            let (from, to) = (offset as usize, (offset + len) as usize);
            match random.below(6) {
                0 | 1 => {
                    let bytes = crate::random::bytes(step, len as usize);
                    plain.resize(plain.len().max(to), 0);
                    plain[from..to].copy_from_slice(&bytes);
                    content.write(offset, &bytes);
                }
                2 => {
                    let end = to.min(plain.len());
                    plain[from.min(end)..end].fill(0);
                    content.punch(offset, len);
                }
                3 => {
                    plain.resize(from, 0);
                    content.resize(offset);
                }
                4 if to < plain.len() => {
                    plain.drain(from..to);
                    content.collapse(offset, len);
                }
                5 if from < plain.len() => {
                    plain.splice(from..from, vec![0; len as usize]);
                    content.insert(offset, len);
                }
                _ => {}
            }
            assert_eq!(content.size(), plain.len() as u64);
            assert!(content.read(0, u64::MAX) == plain, "step {step}");
            let mut again = Content::default();
            again.write(0, &plain);
            again.resize(plain.len() as u64);
            assert!(again == content, "step {step}");
        }
    }
}
