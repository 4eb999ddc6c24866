//! Bytes from who knows where: changed, cut, or made up. A reader refuses them, or takes what it would have written.

use super::values::{self, Written, WrittenKind};
use proptest::prelude::*;
use tenure_model::acl::Acl;
use tenure_model::codec::{Codec, Reader};
use tenure_model::{Attr, Extent, NewNode, Op, Piece, Record};

/// One change of some bytes.
#[derive(Clone, Debug)]
enum Change {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, u8),
    Remove(prop::sample::Index),
    Cut(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        // A length or a count that is a lie.
        2 => (at(), 0x7cu8..).prop_map(|(at, byte)| Change::Set(at, byte)),
        1 => (at(), any::<u8>()).prop_map(|(at, byte)| Change::Insert(at, byte)),
        1 => at().prop_map(Change::Remove),
        1 => at().prop_map(Change::Cut),
    ]
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        if bytes.is_empty() {
            break;
        }
        let len = bytes.len();
        match change {
            Change::Set(at, byte) => bytes[at.index(len)] = *byte,
            Change::Insert(at, byte) => bytes.insert(at.index(len), *byte),
            Change::Remove(at) => drop(bytes.remove(at.index(len))),
            Change::Cut(at) => bytes.truncate(at.index(len)),
        }
    }
    bytes
}

fn is_refused_or_what_would_be_written(kind: WrittenKind, bytes: &[u8]) {
    if let Some(rewritten) = kind.rewritten(bytes) {
        assert_eq!(rewritten, bytes, "{kind:?}: one value has one writing");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn changed_bytes_are_refused_or_what_would_be_written(
        Written { bytes, kind } in values::written(),
        changes in prop::collection::vec(change(), 1..4),
    ) {
        is_refused_or_what_would_be_written(kind, &changed(bytes, &changes));
    }

    #[test]
    fn random_bytes_are_refused_or_what_would_be_written(
        bytes in prop::collection::vec(prop_oneof![3 => 0u8..20, 1 => any::<u8>()], 0..90),
    ) {
        for kind in WrittenKind::ALL {
            is_refused_or_what_would_be_written(kind, &bytes);
        }
        if let Ok(acl) = Acl::parse(&bytes) {
            prop_assert_eq!(Acl::parse(&acl.to_value()), Ok(acl));
        }
    }
}

proptest! {
    #[test]
    fn a_value_that_was_cut_short_is_refused(Written { bytes, kind } in values::written()) {
        for len in 0..bytes.len() {
            prop_assert_eq!(kind.rewritten(&bytes[..len]), None, "{} of {} bytes", len, bytes.len());
        }
    }
}

#[test]
fn a_varint_has_one_writing() {
    let read = |bytes: &[u8]| Reader::new(bytes).varint().ok();
    assert_eq!(read(&[0]), Some(0));
    assert_eq!(read(&[0x80, 1]), Some(128));
    assert_eq!(read(&[0x80, 0]), None, "zero in two bytes");
    assert_eq!(read(&[0xff, 0x80, 0]), None, "127 in three bytes");
    let max = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    assert_eq!(read(&max), Some(u64::MAX));
    assert_eq!(
        read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]),
        None,
        "65 bits"
    );
    assert_eq!(read(&[0x80; 11]), None, "without an end");
}

#[test]
fn a_reader_counts_what_is_left() {
    let mut input = Reader::new(&[1, 2, 3]);
    assert_eq!((input.remaining(), input.is_empty()), (3, false));
    assert!(input.take(4).is_err());
    assert_eq!(input.take(3), Ok(&[1, 2, 3][..]), "what failed has taken nothing");
    assert!(input.is_empty() && input.byte().is_err());
}

#[test]
fn an_extent_is_neither_empty_nor_larger_than_a_chunk() {
    let chunk = |start: u32, len: u32| {
        let at = tenure_model::Address {
            pack: tenure_model::PackNumber(1),
            digest: tenure_model::Digest([7; 32]),
        };
        Extent::parsed(&Extent::Chunk { at, start, len }.written()).is_ok()
    };
    let max = tenure_model::limits::CHUNK_LEN_MAX as u32;
    assert!(chunk(0, 1) && chunk(0, max) && chunk(max - 1, 1));
    assert!(!chunk(0, 0) && !chunk(1, max) && !chunk(0, max + 1) && !chunk(u32::MAX, 2));
    let inline = |len: usize| Extent::parsed(&Extent::Inline(vec![7; len].into()).written()).is_ok();
    let max = tenure_model::limits::INLINE_LEN_MAX;
    assert!(inline(1) && inline(max) && !inline(0) && !inline(max + 1));
}

#[test]
fn a_piece_ends_at_an_offset_that_there_is() {
    let piece = |offset: u64| {
        let extent = Extent::Inline(Box::new([1, 2]));
        Piece::parsed(&Piece { offset, extent }.written()).is_ok()
    };
    assert!(piece(u64::MAX - 2) && !piece(u64::MAX - 1));
}

#[test]
fn bits_that_mean_nothing_are_refused() {
    let attr = super::golden::attr().written();
    assert!(Attr::parsed(&attr).is_ok());
    // The mode is a varint of three bytes; its seven bits on top are 16 to 20.
    for (at, byte) in [(2, 0x7e), (3, 8), (3, 0xff)] {
        let mut changed = attr.clone();
        changed[at] = byte;
        assert!(Attr::parsed(&changed).is_err(), "byte {at} as {byte}");
    }
    let mut node = super::golden::symlink().written();
    assert!(NewNode::parsed(&node).is_ok());
    node[2] |= 4;
    assert!(NewNode::parsed(&node).is_err());
}

#[test]
fn tags_that_there_are_not_are_refused() {
    for tag in (16..=255).chain([0]) {
        assert!(Op::parsed(&[tag, 1, 1, 1, 1, 1]).is_err());
        assert!(Record::parsed(&[tag, 1, 1, 1, 1, 1]).is_err());
    }
}
