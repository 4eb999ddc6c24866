//! What access control lists and modes say to each other (acl(5)), as far as the reference needs it.
//!
//! It is written from the manual and not from `model`. Invariant: a list has the lines of owner, group and others.

use super::names::Bytes;
use tenure_model::XattrName;

/// Tags of lines, as Linux writes them.
const OWNER: u16 = 0x01;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;
/// Bytes before the lines: the version.
const HEAD_LEN: usize = 4;
/// Bytes of a line: tag, permissions, who.
const LINE_LEN: usize = 8;
/// Lines of a list that says no more than a mode.
const FEWEST: usize = 3;

/// Tells whether an attribute is the list that is obeyed.
pub(super) fn is_access(name: &XattrName) -> bool {
    name.as_bytes() == b"system.posix_acl_access"
}

/// Tells whether an attribute is the list that what is made in a directory inherits.
pub(super) fn is_default(name: &XattrName) -> bool {
    name.as_bytes() == b"system.posix_acl_default"
}

/// Returns the name of the list that is obeyed.
pub(super) fn access() -> XattrName {
    XattrName::parse(b"system.posix_acl_access").expect("a literal name")
}

/// Returns the name of the list that is inherited.
pub(super) fn default() -> XattrName {
    XattrName::parse(b"system.posix_acl_default").expect("a literal name")
}

/// Returns the nine permission bits that a list stands for.
pub(super) fn mode(list: &[u8]) -> u32 {
    let group = perm(list, MASK).or(perm(list, GROUP));
    let bits = [perm(list, OWNER), group, perm(list, OTHERS)];
    bits.into_iter().fold(0, |mode, bits| {
        mode << 3 | u32::from(bits.expect("a list has three lines at least"))
    })
}

/// Returns the list after `chmod`: the group's bits go to the mask where there is one.
pub(super) fn with_mode(list: &[u8], mode: u32) -> Bytes {
    let group = if perm(list, MASK).is_some() { MASK } else { GROUP };
    let mut changed = list.to_vec();
    for line in changed[HEAD_LEN..].chunks_exact_mut(LINE_LEN) {
        let shift = match tag(line) {
            OWNER => 6,
            OTHERS => 0,
            tag if tag == group => 3,
            _ => continue,
        };
        line[2] = (mode >> shift & 7) as u8;
    }
    changed.into()
}

/// Tells whether a list says more than a mode.
pub(super) fn says_more(list: &[u8]) -> bool {
    list.len() > HEAD_LEN + FEWEST * LINE_LEN
}

fn tag(line: &[u8]) -> u16 {
    u16::from_le_bytes([line[0], line[1]])
}

fn perm(list: &[u8], wanted: u16) -> Option<u8> {
    let mut lines = list[HEAD_LEN..].chunks_exact(LINE_LEN);
    lines.find(|line| tag(line) == wanted).map(|line| line[2])
}
