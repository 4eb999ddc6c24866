//! The bytes of what is said to a holder that stands still, and by it.

use super::fields::put_flag;
use super::response::{put_stored, stored};
use crate::shared::{Next, Stand};
use std::convert::Infallible;
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_list, put_varint};

impl Codec for Stand {
    fn write(&self, out: &mut Vec<u8>) {
        let Stand::Still { behind, known } = self else {
            return out.push(0);
        };
        out.push(1);
        put_varint(out, behind.0);
        out.extend_from_slice(&behind.1.0);
        put_flag(out, known.is_some());
        known.iter().for_each(|known| put_list(out, known));
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match input.byte()? {
            0 => Stand::Gone,
            1 => Stand::Still {
                behind: (input.varint()?, input.digest()?),
                known: match input.flag()? {
                    true => Some(input.list()?),
                    false => None,
                },
            },
            _ => return Err(malformed("how a holder stands")),
        })
    }
}

pub(super) fn put_next(out: &mut Vec<u8>, next: &Next<Infallible>) {
    match next {
        Next::Stay => out.push(0),
        Next::Tell => out.push(1),
        Next::GoOn => out.push(2),
        Next::Became { behind, state } => {
            out.push(3);
            out.extend_from_slice(&behind.0);
            put_stored(out, state);
        }
    }
}

pub(super) fn next(input: &mut Reader<'_>) -> Result<Next<Infallible>, Malformed> {
    Ok(match input.byte()? {
        0 => Next::Stay,
        1 => Next::Tell,
        2 => Next::GoOn,
        3 => Next::Became {
            behind: input.digest()?,
            state: stored(input)?,
        },
        _ => return Err(malformed("what a holder does next")),
    })
}
