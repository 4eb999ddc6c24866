//! The bytes of what is said about parts of a shared branch that are lent.

use super::fields::{many, put_flag};
use super::response::{put_stored, stored};
use crate::owner::Shared;
use crate::shared::{Borrow, Borrowed, Claim, Demand, Heard, Loan, Need, Part, Yield};
use std::convert::Infallible;
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_list, put_option, put_varint};
use tenure_model::{Batch, Ino};

/// What is added to what is needed of a directory that has a loan.
const WITH_LOAN: u8 = 2;

/// Reads the number by which others were asked before.
pub(super) fn asked(input: &mut Reader<'_>) -> Result<u64, Malformed> {
    match input.varint()? {
        0 => Err(malformed("number of what others were asked")),
        asked => Ok(asked),
    }
}

/// Reads what was lent by an owner before: something was.
pub(super) fn claims(input: &mut Reader<'_>) -> Result<Vec<Claim>, Malformed> {
    let claims: Vec<Claim> = input.list()?;
    if claims.is_empty() {
        return Err(malformed("what is lent"));
    }
    Ok(claims)
}

/// Reads batches that may be lost with an owner before: there are some.
pub(super) fn batches(input: &mut Reader<'_>) -> Result<Vec<Batch>, Malformed> {
    let batches: Vec<Batch> = input.list()?;
    if batches.is_empty() {
        return Err(malformed("batches that may be lost"));
    }
    Ok(batches)
}

impl Codec for Borrow {
    fn write(&self, out: &mut Vec<u8>) {
        self.directory.write(out);
        put_option(out, self.copy.as_ref());
        put_flag(out, self.is_shipped);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            directory: Ino::read(input)?,
            copy: input.option()?,
            is_shipped: input.flag()?,
        })
    }
}

impl Codec for Part {
    fn write(&self, out: &mut Vec<u8>) {
        self.directory.write(out);
        put_list(out, &self.inodes);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            directory: Ino::read(input)?,
            inodes: input.list()?,
        })
    }
}

impl Codec for Claim {
    fn write(&self, out: &mut Vec<u8>) {
        self.directory.write(out);
        put_list(out, &self.orphans);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            directory: Ino::read(input)?,
            orphans: input.list()?,
        })
    }
}

impl Codec for Yield {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.answered);
        put_varint(out, self.loan);
        put_list(out, &self.directories);
        put_list(out, &self.open);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            answered: input.varint()?,
            loan: input.varint()?,
            directories: input.list()?,
            open: input.list()?,
        })
    }
}

impl Codec for Demand {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.number);
        self.directory.write(out);
        let need = u8::from(self.need == Need::Return);
        // Without a loan: so it was before loans were told.
        match self.loan {
            0 => out.push(need),
            loan => {
                out.push(need + WITH_LOAN);
                put_varint(out, loan);
            }
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (number, directory) = (input.varint()?, Ino::read(input)?);
        let (need, has_loan) = match input.byte()? {
            0 => (Need::Ship, false),
            1 => (Need::Return, false),
            WITH_LOAN => (Need::Ship, true),
            3 => (Need::Return, true),
            _ => return Err(malformed("what another needs")),
        };
        let loan = if has_loan { input.varint()? } else { 0 };
        if has_loan && loan == 0 {
            return Err(malformed("loan that another needs"));
        }
        Ok(Self {
            number,
            directory,
            loan,
            need,
        })
    }
}

impl Codec for Heard {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.tickets.len() as u64);
        self.tickets.iter().for_each(|ticket| put_varint(out, *ticket));
        // Without any nothing stands here: so it was before anything was lent.
        if !self.demands.is_empty() {
            put_list(out, &self.demands);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let tickets = many(input, |input| input.varint())?;
        if input.is_empty() {
            let demands = Vec::new();
            return Ok(Self { tickets, demands });
        }
        let demands: Vec<Demand> = input.list()?;
        if demands.is_empty() {
            return Err(malformed("what others need"));
        }
        Ok(Self { tickets, demands })
    }
}

pub(super) fn put_borrowed(out: &mut Vec<u8>, borrowed: &Borrowed<Infallible>) {
    let loan = match borrowed {
        Borrowed::No => return out.push(0),
        Borrowed::Behind => return out.push(1),
        Borrowed::Lent(loan) => loan,
    };
    out.push(2);
    put_varint(out, loan.number);
    put_list(out, &loan.parts);
    put_flag(out, loan.copy.is_some());
    if let Some((version, state)) = &loan.copy {
        put_varint(out, *version);
        put_stored(out, state);
    }
    put_varint(out, loan.behind.0);
    out.extend_from_slice(&loan.behind.1.0);
}

pub(super) fn borrowed(input: &mut Reader<'_>) -> Result<Borrowed<Infallible>, Malformed> {
    Ok(match input.byte()? {
        0 => Borrowed::No,
        1 => Borrowed::Behind,
        2 => Borrowed::Lent(Loan {
            number: input.varint()?,
            parts: input.list()?,
            copy: copy(input)?,
            behind: (input.varint()?, input.digest()?),
        }),
        _ => return Err(malformed("what is lent")),
    })
}

fn copy(input: &mut Reader<'_>) -> Result<Option<(u64, Shared<Infallible>)>, Malformed> {
    Ok(match input.flag()? {
        true => Some((input.varint()?, stored(input)?)),
        false => None,
    })
}
