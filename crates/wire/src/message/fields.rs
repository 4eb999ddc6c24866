//! The bytes of what several messages carry: names, numbers and who somebody is.

use crate::owner::Who;
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_varint};
use tenure_model::{BranchId, BranchName, CheckpointName, DriveName, Ino, InoRange, SessionId};

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

pub(super) fn put_flag(out: &mut Vec<u8>, flag: bool) {
    out.push(u8::from(flag));
}

/// Reads what a pack's name has behind its number.
pub(super) fn tag(input: &mut Reader<'_>) -> Result<[u8; 8], Malformed> {
    Ok(input.take(8)?.try_into().expect("8 bytes were taken"))
}

pub(super) fn session(input: &mut Reader<'_>) -> Result<SessionId, Malformed> {
    Ok(SessionId(input.varint()?))
}

pub(super) fn branch(input: &mut Reader<'_>) -> Result<BranchId, Malformed> {
    Ok(BranchId(input.varint()?))
}

pub(super) fn put_branch_option(out: &mut Vec<u8>, branch: Option<BranchId>) {
    put_flag(out, branch.is_some());
    if let Some(branch) = branch {
        put_varint(out, branch.0);
    }
}

pub(super) fn branch_option(input: &mut Reader<'_>) -> Result<Option<BranchId>, Malformed> {
    if input.flag()? {
        branch(input).map(Some)
    } else {
        Ok(None)
    }
}

pub(super) fn put_inos(out: &mut Vec<u8>, inos: InoRange) {
    put_varint(out, inos.next.0);
    put_varint(out, inos.end.0);
}

pub(super) fn inos(input: &mut Reader<'_>) -> Result<InoRange, Malformed> {
    Ok(InoRange {
        next: Ino(input.varint()?),
        end: Ino(input.varint()?),
    })
}

pub(super) fn drive_name(input: &mut Reader<'_>) -> Result<DriveName, Malformed> {
    DriveName::parse(input.text()?).map_err(|_| malformed("drive's name"))
}

pub(super) fn branch_name(input: &mut Reader<'_>) -> Result<BranchName, Malformed> {
    BranchName::parse(input.text()?).map_err(|_| malformed("branch's name"))
}

pub(super) fn checkpoint_name(input: &mut Reader<'_>) -> Result<CheckpointName, Malformed> {
    CheckpointName::parse(input.text()?).map_err(|_| malformed("checkpoint's name"))
}

pub(super) fn put_texts(out: &mut Vec<u8>, texts: &[String]) {
    put_varint(out, texts.len() as u64);
    texts.iter().for_each(|text| put_text(out, text));
}

pub(super) fn texts(input: &mut Reader<'_>) -> Result<Vec<String>, Malformed> {
    many(input, |input| Ok(input.text()?.to_owned()))
}

/// Reads a count and as many values, each of at least one byte.
pub(super) fn many<'a, T>(
    input: &mut Reader<'a>,
    one: impl Fn(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count: usize = input.number()?;
    if count > input.remaining() {
        return Err(malformed("list"));
    }
    (0..count).map(|_| one(input)).collect()
}

pub(super) fn put_optional_text(out: &mut Vec<u8>, text: Option<&str>) {
    put_flag(out, text.is_some());
    if let Some(text) = text {
        put_text(out, text);
    }
}

pub(super) fn optional_text(input: &mut Reader<'_>) -> Result<Option<String>, Malformed> {
    if input.flag()? {
        Ok(Some(input.text()?.to_owned()))
    } else {
        Ok(None)
    }
}

impl Codec for Who {
    fn write(&self, out: &mut Vec<u8>) {
        put_text(out, &self.agent);
        put_text(out, &self.host);
        put_varint(out, u64::from(self.pid));
        put_text(out, &self.purpose);
        put_flag(out, self.hosted);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            agent: input.text()?.to_owned(),
            host: input.text()?.to_owned(),
            pid: input.number()?,
            purpose: input.text()?.to_owned(),
            hosted: input.flag()?,
        })
    }
}
