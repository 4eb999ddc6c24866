//! The bytes of what is said about merges and conflicts.

use super::fields::{branch_name, optional_text, put_flag, put_optional_text, put_text};
use crate::owner::{Choice, MergeAsk, MergeTold, ResolveAsk, RestoreAsk, Standing, Standings, Unsettled};
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_list, put_option, put_varint};
use tenure_model::{Conflict, Ino};

impl Codec for MergeAsk {
    fn write(&self, out: &mut Vec<u8>) {
        put_text(out, &self.from);
        put_text(out, self.into.as_str());
        put_optional_text(out, self.base.as_deref());
        put_flag(out, self.is_dry);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            from: input.text()?.to_owned(),
            into: branch_name(input)?,
            base: optional_text(input)?,
            is_dry: input.flag()?,
            // The kind of the request says so where they are taken.
            unsettled: Unsettled::Refused,
        })
    }
}

impl Codec for MergeTold {
    fn write(&self, out: &mut Vec<u8>) {
        put_optional_text(out, self.before.as_deref());
        put_list(out, &self.files);
        put_varint(out, self.more);
        put_varint(out, self.conflicts);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            before: optional_text(input)?,
            files: input.list()?,
            more: input.varint()?,
            conflicts: input.varint()?,
        })
    }
}

impl Codec for Standing {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.number.0);
        self.conflict.write(out);
        put_option(out, self.ours.as_ref());
        put_option(out, self.theirs.as_ref());
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            number: Ino(input.varint()?),
            conflict: Conflict::read(input)?,
            ours: input.option()?,
            theirs: input.option()?,
        })
    }
}

impl Codec for Standings {
    fn write(&self, out: &mut Vec<u8>) {
        put_list(out, &self.found);
        put_option(out, self.behind.map(|number| number.0).as_ref());
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            found: input.list()?,
            behind: input.option()?.map(Ino),
        })
    }
}

impl Codec for RestoreAsk {
    fn write(&self, out: &mut Vec<u8>) {
        put_text(out, self.branch.as_str());
        put_bytes(out, &self.path);
        put_text(out, &self.from);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            branch: branch_name(input)?,
            path: input.bytes()?.into(),
            from: input.text()?.to_owned(),
        })
    }
}

impl Codec for ResolveAsk {
    fn write(&self, out: &mut Vec<u8>) {
        put_text(out, self.branch.as_str());
        put_bytes(out, &self.path);
        match &self.choice {
            Choice::Ours => out.push(0),
            Choice::Theirs => out.push(1),
            Choice::Both => out.push(2),
            Choice::Bytes(bytes) => {
                out.push(3);
                put_bytes(out, bytes);
            }
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            branch: branch_name(input)?,
            path: input.bytes()?.into(),
            choice: match input.byte()? {
                0 => Choice::Ours,
                1 => Choice::Theirs,
                2 => Choice::Both,
                3 => Choice::Bytes(input.bytes()?.to_vec()),
                _ => return Err(malformed("choice")),
            },
        })
    }
}
