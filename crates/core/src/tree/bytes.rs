//! The bytes of a page, as they rest in a pack.
//!
//! ```text
//! leaf    0x11, prefix, entry*                 entry   rest_len, value_len (varints), rest of key, value
//! branch  0x12, prefix, level (u8), address,   prefix  len (u8, at most 23), bytes that all keys begin with
//!         (rest_len (varint), rest of separator, address)*
//! ```
//!
//! Equal contents are equal bytes: the prefix is the longest, varints the shortest, keys strictly ascend. The reader
//! refuses everything else and never panics, since these bytes come from a bucket.

use super::entries::Entries;
use super::lengths::{read_length, read_shortest};
use super::memory::Memory;
use super::page::{BRANCH, Body, Branch, LEAF, Page};
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_bytes};
use tenure_model::{Address, PackNumber};

/// Levels above the leaves: far more than a tree can have, and few enough to walk by recursion.
const LEVEL_MAX: u8 = 40;

/// Returns the bytes of a body whose children are all stored. `scratch` is where a branch page is written.
pub(super) fn encode<'a>(body: &'a Body, scratch: &'a mut Vec<u8>) -> &'a [u8] {
    match body {
        Body::Leaf(entries) => entries.bytes(),
        Body::Branch(branch) => {
            scratch.clear();
            encode_branch(branch, scratch);
            scratch
        }
    }
}

fn encode_branch(branch: &Branch, out: &mut Vec<u8>) {
    let separators = &branch.separators;
    out.push(BRANCH);
    out.push(u8::try_from(separators.prefix().len()).expect("a prefix is at most 23 bytes"));
    out.extend_from_slice(separators.prefix());
    out.push(branch.level);
    for (at, child) in branch.children.iter().enumerate() {
        if at > 0 {
            put_bytes(out, separators.rest(at - 1));
        }
        child
            .address()
            .expect("children are stored before their parent")
            .write(out);
    }
}

/// What is expected of a page whose bytes are its own, and of a kind or version that only a newer program knows.
pub const KNOWN_PAGE: &str = "page of a known kind and version";

/// Returns the body that is all of `bytes` and, where the parent says so, at `level` above the leaves.
pub(super) fn decode(bytes: &[u8], level: Option<u8>, memory: &Memory) -> Result<Body, Malformed> {
    let body = match bytes.first() {
        Some(&LEAF) => Body::Leaf(Entries::parsed(bytes)?),
        Some(&BRANCH) => Body::Branch(decode_branch(bytes, memory)?),
        _ => return Err(malformed(KNOWN_PAGE)),
    };
    match (level, &body) {
        (Some(level), _) if level != body.level() => Err(malformed("level of a page")),
        (None, Body::Branch(branch)) if branch.children.len() < 2 => {
            Err(malformed("root: it leads to one page only"))
        }
        _ => Ok(body),
    }
}

fn decode_branch(bytes: &[u8], memory: &Memory) -> Result<Branch, Malformed> {
    let mut input = Reader::new(&bytes[1..]);
    let mut separators = Entries::begin(BRANCH, &mut input)?;
    let level = input.byte()?;
    if !(1..=LEVEL_MAX).contains(&level) {
        return Err(malformed("level of a page"));
    }
    let mut children = Vec::new();
    loop {
        children.push(Page::stored(read_address(&mut input)?, Some(level - 1), memory));
        if input.is_empty() {
            break;
        }
        let len = read_length(&mut input)?;
        separators.push(input.take(len)?, &[]);
    }
    let separators = separators.verified()?;
    if separators.len() > 0 && separators.key(0).is_empty() {
        return Err(malformed("separator: it is empty"));
    }
    Ok(Branch {
        level,
        separators,
        children,
    })
}

fn read_address(input: &mut Reader<'_>) -> Result<Address, Malformed> {
    Ok(Address {
        pack: PackNumber(read_shortest(input)?),
        digest: input.digest()?,
    })
}
