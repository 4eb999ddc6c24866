//! The shape of the journal's small objects: magic, version, body, digest of all that.

use tenure_model::codec::Codec;
use tenure_model::{Digest, Failure};
use tenure_store::Key;

const MAGIC_LEN: usize = 8;
const HEAD_LEN: usize = MAGIC_LEN + 4;
const DIGEST_LEN: usize = 32;

/// A kind of object, and the version that this program writes.
pub(crate) struct Kind {
    pub(crate) magic: &'static [u8; MAGIC_LEN],
    pub(crate) version: u32,
    pub(crate) what: &'static str,
}

impl Kind {
    /// Returns an object's bytes.
    pub(crate) fn wrapped(&self, body: &impl Codec) -> Vec<u8> {
        self.wrapped_by(|bytes| body.write(bytes))
    }

    /// Returns the bytes of an object whose body is what `write` appends.
    pub(crate) fn wrapped_by(&self, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = self.magic.to_vec();
        bytes.extend_from_slice(&self.version.to_le_bytes());
        write(&mut bytes);
        let digest = Digest::of(&bytes);
        bytes.extend_from_slice(&digest.0);
        bytes
    }

    /// Tells whether an object's bytes are those that were written as one of this kind, of whatever version.
    pub(crate) fn is_whole(&self, bytes: &[u8]) -> bool {
        let signed_len = bytes.len().checked_sub(DIGEST_LEN).filter(|end| *end >= HEAD_LEN);
        signed_len.is_some_and(|len| {
            let (signed, digest) = bytes.split_at(len);
            Digest::of(signed).0[..] == *digest && signed[..MAGIC_LEN] == *self.magic
        })
    }

    /// Tells whether an object's bytes say that they are of this version.
    pub(crate) fn is_version_of(&self, bytes: &[u8]) -> bool {
        bytes.get(MAGIC_LEN..HEAD_LEN) == Some(&self.version.to_le_bytes()[..])
    }

    /// Returns what an object says; a failure names `key`.
    pub(crate) fn opened<T: Codec>(&self, key: &Key, bytes: &[u8]) -> Result<T, Failure> {
        let corrupt = |why: String| Failure::Corrupt(format!("{key}: {why}"));
        let what = self.what;
        if !self.is_whole(bytes) {
            return Err(corrupt(format!("the {what} is damaged")));
        }
        let (head, body) = bytes[..bytes.len() - DIGEST_LEN].split_at(HEAD_LEN);
        let version = u32::from_le_bytes(head[MAGIC_LEN..].try_into().expect("4 bytes were taken"));
        if version != self.version {
            return Err(Failure::newer(format_args!(
                "{key}: it is a {what} of version {version}"
            )));
        }
        T::parsed(body).map_err(|malformed| corrupt(malformed.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tenure_model::Seq;
    use tenure_model::codec::{Malformed, Reader, put_varint};

    #[derive(Debug, PartialEq)]
    struct Body(Seq);

    impl Codec for Body {
        fn write(&self, out: &mut Vec<u8>) {
            put_varint(out, self.0.0);
        }

        fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
            Ok(Self(Seq(input.varint()?)))
        }
    }

    const KIND: Kind = Kind {
        magic: b"TNTEST_1",
        version: 3,
        what: "test",
    };

    fn key() -> Key {
        Key::parse("drives/a/b").expect("a literal key")
    }

    #[test]
    fn a_newer_version_is_said_to_be_one() {
        let newer = Kind { version: 4, ..KIND };
        let failure = KIND
            .opened::<Body>(&key(), &newer.wrapped(&Body(Seq(1))))
            .unwrap_err();
        let words =
            "drives/a/b: it is a test of version 4, which this program cannot read: use a newer tenure";
        assert_eq!(failure.to_string(), words);
    }

    proptest! {
        #[test]
        fn an_object_is_read_as_it_was_written_and_only_whole(seq: u64, change: (prop::sample::Index, u8)) {
            let mut bytes = KIND.wrapped(&Body(Seq(seq)));
            prop_assert_eq!(KIND.opened(&key(), &bytes), Ok(Body(Seq(seq))));
            prop_assert!(KIND.opened::<Body>(&key(), &bytes[1..]).is_err());
            let at = change.0.index(bytes.len());
            if bytes[at] != change.1 {
                bytes[at] = change.1;
                prop_assert!(KIND.opened::<Body>(&key(), &bytes).is_err());
            }
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(KIND.opened::<Body>(&key(), &bytes).is_err());
        }
    }
}
