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
        let mut bytes = self.magic.to_vec();
        bytes.extend_from_slice(&self.version.to_le_bytes());
        body.write(&mut bytes);
        let digest = Digest::of(&bytes);
        bytes.extend_from_slice(&digest.0);
        bytes
    }

    /// Returns what an object says; a failure names `key`.
    pub(crate) fn opened<T: Codec>(&self, key: &Key, bytes: &[u8]) -> Result<T, Failure> {
        let corrupt = |why: String| Failure::Corrupt(format!("{key}: {why}"));
        let what = self.what;
        let damaged = || corrupt(format!("the {what} is damaged"));
        let body_end = bytes.len().checked_sub(DIGEST_LEN).filter(|end| *end >= HEAD_LEN);
        let (signed, digest) = bytes.split_at(body_end.ok_or_else(damaged)?);
        if Digest::of(signed).0[..] != *digest || signed[..MAGIC_LEN] != *self.magic {
            return Err(damaged());
        }
        let (head, body) = signed.split_at(HEAD_LEN);
        let version = u32::from_le_bytes(head[MAGIC_LEN..].try_into().expect("4 bytes were taken"));
        if version != self.version {
            return Err(corrupt(format!(
                "it is a {what} of version {version}, which this program cannot read: use a newer tenure"
            )));
        }
        T::parsed(body).map_err(|malformed| corrupt(malformed.to_string()))
    }
}
