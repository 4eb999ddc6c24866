//! The bytes of what is asked and told about the room that a drive takes and does not need.

use super::fields::{put_flag, put_texts, texts};
use crate::line::Usage;
use crate::reclaim::{Placings, ReclaimAsk, ReclaimTold};
use tenure_model::Epoch;
use tenure_model::codec::{Codec, Malformed, Reader, put_option, put_varint};

impl Codec for ReclaimAsk {
    fn write(&self, out: &mut Vec<u8>) {
        put_flag(out, self.is_dry);
        put_flag(out, self.is_full);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            is_dry: input.flag()?,
            is_full: input.flag()?,
        })
    }
}

impl Codec for ReclaimTold {
    fn write(&self, out: &mut Vec<u8>) {
        for number in [
            self.objects,
            self.freed,
            self.waiting,
            self.scattered,
            self.held,
            self.needed,
        ] {
            put_varint(out, number);
        }
        put_texts(out, &self.holders);
        put_option(out, self.ever.as_ref());
        self.usage.write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            objects: input.varint()?,
            freed: input.varint()?,
            waiting: input.varint()?,
            scattered: input.varint()?,
            held: input.varint()?,
            needed: input.varint()?,
            holders: texts(input)?,
            ever: input.option()?,
            usage: Usage::read(input)?,
        })
    }
}

impl Codec for Placings {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.epoch.0);
        put_varint(out, self.count);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            epoch: Epoch(input.varint()?),
            count: input.varint()?,
        })
    }
}
