//! The bytes of what is asked and told about branches and checkpoints.

use super::fields::{
    branch, branch_name, branch_option, checkpoint_name, optional_text, put_branch_option, put_flag,
    put_optional_text, put_text,
};
use crate::line::{BranchInfo, CheckpointAsk, Created, ForkAsk, IfThere, LineUsage, Usage};
use crate::owner::Who;
use crate::review::Marked;
use std::time::Duration;
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_list, put_option, put_varint};
use tenure_model::record::Source;
use tenure_model::{BranchId, Timestamp};

impl ForkAsk {
    /// Tells whether it says no more than what to make of what, as all did once.
    pub(super) fn is_plain(&self) -> bool {
        !self.is_repeatable() && self.length.is_none() && self.staged.is_none()
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        self.from.write(out);
        put_text(out, self.name.as_str());
        if self.is_plain() {
            return;
        }
        put_flag(out, self.if_there == IfThere::Take);
        put_option(out, self.key.as_ref());
        put_length(out, self.length);
        if let Some(who) = &self.staged {
            who.write(out);
        }
    }

    pub(super) fn read_plain(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self::new(Source::read(input)?, branch_name(input)?))
    }

    pub(super) fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let ask = Self::read_whole(input)?;
        if ask.is_plain() {
            return Err(malformed("fork that says more"));
        }
        Ok(ask)
    }

    pub(super) fn read_staged(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut ask = Self::read_whole(input)?;
        ask.staged = Some(Who::read(input)?);
        Ok(ask)
    }

    fn read_whole(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let plain = Self::read_plain(input)?;
        let if_there = if input.flag()? {
            IfThere::Take
        } else {
            IfThere::Refuse
        };
        Ok(Self {
            if_there,
            key: input.option()?,
            length: length(input)?,
            ..plain
        })
    }
}

/// Kinds of the answers about what was made, and about what was there already.
pub(super) const MADE: u8 = 9;
pub(super) const FOUND: u8 = 28;

impl Created {
    /// Writes the answer, its kind first.
    pub(super) fn write_whole(&self, out: &mut Vec<u8>) {
        out.push(if self.found.is_some() { FOUND } else { MADE });
        put_varint(out, self.branch.0);
        if let Some(name) = &self.found {
            put_text(out, name);
        }
    }

    pub(super) fn read_made(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            branch: branch(input)?,
            found: None,
        })
    }

    pub(super) fn read_found(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            branch: branch(input)?,
            found: Some(input.text()?.to_owned()),
        })
    }
}

impl CheckpointAsk {
    /// Tells whether it stays, as all did once.
    pub(super) fn is_plain(&self) -> bool {
        self.length.is_none()
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_text(out, self.branch.as_str());
        put_text(out, self.name.as_str());
        put_text(out, &self.message);
        if let Some(length) = self.length {
            put_varint(out, millis(length));
        }
    }

    pub(super) fn read_plain(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            branch: branch_name(input)?,
            name: checkpoint_name(input)?,
            message: input.text()?.to_owned(),
            length: None,
        })
    }

    pub(super) fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut ask = Self::read_plain(input)?;
        ask.length = Some(Duration::from_millis(input.varint()?));
        Ok(ask)
    }
}

fn put_length(out: &mut Vec<u8>, length: Option<Duration>) {
    put_option(out, length.map(millis).as_ref());
}

fn length(input: &mut Reader<'_>) -> Result<Option<Duration>, Malformed> {
    Ok(input.option()?.map(Duration::from_millis))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Codec for BranchInfo {
    fn write(&self, out: &mut Vec<u8>) {
        let kind = match self.branch {
            None => CHECKPOINT,
            Some(_) if self.is_stray => STRAY,
            Some(_) => BRANCH,
        };
        let more = if self.line.is_some() { MORE } else { 0 };
        let marked = if self.mark.is_some() { SAID } else { 0 };
        out.push(kind | more | marked);
        if let Some(branch) = self.branch {
            put_varint(out, branch.0);
        }
        put_text(out, &self.name);
        put_text(out, &self.from);
        self.made.write(out);
        put_varint(out, self.inodes);
        put_varint(out, self.bytes);
        put_optional_text(out, self.holder.as_deref());
        put_text(out, &self.message);
        if let Some(line) = self.line {
            put_varint(out, line.0);
            put_branch_option(out, self.base);
            put_option(out, self.until.as_ref());
            put_flag(out, self.is_automatic);
            put_optional_text(out, self.by.as_deref());
        }
        if let Some(mark) = &self.mark {
            mark.write(out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = input.byte()?;
        let (branch, is_stray) = line(kind & !(MORE | SAID), input)?;
        let mut info = Self {
            branch,
            is_stray,
            name: input.text()?.to_owned(),
            from: input.text()?.to_owned(),
            made: Timestamp::read(input)?,
            inodes: input.varint()?,
            bytes: input.varint()?,
            holder: optional_text(input)?,
            message: input.text()?.to_owned(),
            line: None,
            base: None,
            until: None,
            is_automatic: false,
            by: None,
            mark: None,
        };
        if kind & MORE != 0 {
            info.line = Some(self::branch(input)?);
            info.base = branch_option(input)?;
            info.until = input.option()?;
            info.is_automatic = input.flag()?;
            info.by = optional_text(input)?;
        }
        if kind & SAID != 0 {
            info.mark = Some(Marked::read(input)?);
        }
        Ok(info)
    }
}

/// What a line is: a checkpoint, a branch, a stray; that more is told of it than was once; and that something is said of it.
const CHECKPOINT: u8 = 0;
const BRANCH: u8 = 1;
const STRAY: u8 = 2;
const MORE: u8 = 0x10;
const SAID: u8 = 0x20;

fn line(kind: u8, input: &mut Reader<'_>) -> Result<(Option<BranchId>, bool), Malformed> {
    match kind {
        CHECKPOINT => Ok((None, false)),
        BRANCH => Ok((Some(branch(input)?), false)),
        STRAY => Ok((Some(branch(input)?), true)),
        _ => Err(malformed("branch or checkpoint")),
    }
}

impl Codec for LineUsage {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.line.0);
        put_text(out, &self.name);
        put_flag(out, self.is_branch);
        put_varint(out, self.own);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            line: branch(input)?,
            name: input.text()?.to_owned(),
            is_branch: input.flag()?,
            own: input.varint()?,
        })
    }
}

impl Codec for Usage {
    fn write(&self, out: &mut Vec<u8>) {
        put_list(out, &self.lines);
        put_varint(out, self.shared);
        put_varint(out, self.by_checkpoints);
        // Nothing stands for none: so it was before there were any.
        if self.by_history + self.by_readers > 0 {
            put_varint(out, self.by_history);
            put_varint(out, self.by_readers);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut usage = Self {
            lines: input.list()?,
            shared: input.varint()?,
            by_checkpoints: input.varint()?,
            ..Self::default()
        };
        if !input.is_empty() {
            usage.by_history = input.varint()?;
            usage.by_readers = input.varint()?;
            if (usage.by_history, usage.by_readers) == (0, 0) {
                return Err(malformed("usage"));
            }
        }
        Ok(usage)
    }
}
