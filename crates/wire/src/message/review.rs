//! The bytes of what is said about reviews.

use super::fields::{branch_name, optional_text, put_optional_text, put_text};
use crate::review::{AcceptAsk, MarkAsk, Marked};
use tenure_model::Timestamp;
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_list};

impl Codec for MarkAsk {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            MarkAsk::Unprotected => out.push(0),
            MarkAsk::Staged(into) => {
                out.push(1);
                put_text(out, into.as_str());
            }
            MarkAsk::Protected => out.push(2),
            MarkAsk::Unstaged => out.push(3),
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match input.byte()? {
            0 => MarkAsk::Unprotected,
            1 => MarkAsk::Staged(branch_name(input)?),
            2 => MarkAsk::Protected,
            3 => MarkAsk::Unstaged,
            _ => return Err(malformed("what is to be said of a branch")),
        })
    }
}

impl Codec for Marked {
    fn write(&self, out: &mut Vec<u8>) {
        put_text(out, &self.branch);
        put_optional_text(out, self.into.as_deref());
        put_text(out, &self.by);
        self.time.write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            branch: input.text()?.to_owned(),
            into: optional_text(input)?,
            by: input.text()?.to_owned(),
            time: Timestamp::read(input)?,
        })
    }
}

impl Codec for AcceptAsk {
    fn write(&self, out: &mut Vec<u8>) {
        put_text(out, self.branch.as_str());
        put_list(out, &self.paths);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            branch: branch_name(input)?,
            paths: input.list()?,
        })
    }
}
