//! A request that outlives the buffer that it was read into, to be handled once more on another thread.
//!
//! Invariant: what is kept has been decoded once, so it can be decoded again.

use super::abi;
use super::flags::InitFlags;
use super::payload::{Shared, Source};
use super::request::{Body, Message, Request, decode};

/// What a request was decoded from.
#[derive(Clone, Copy, Debug)]
pub struct Original<'a> {
    header: &'a abi::InHeader,
    body: &'a Body<'a>,
    flags: InitFlags,
}

/// A request that was kept.
#[derive(Debug)]
pub struct Kept {
    header: abi::InHeader,
    /// The part behind the header, where that came apart from all that follows.
    fixed: Option<Box<[u8]>>,
    rest: Shared,
    flags: InitFlags,
}

impl<'a> Original<'a> {
    pub(super) fn new(header: &'a abi::InHeader, body: &'a Body<'a>, flags: InitFlags) -> Original<'a> {
        Original { header, body, flags }
    }

    /// Returns the request to keep: in the buffer that it was read into where that is worth it, else copied.
    pub fn keep(self) -> Kept {
        let (fixed, rest) = self.body.parts();
        Kept {
            header: *self.header,
            fixed: fixed.map(Box::from),
            rest: rest.share(),
            flags: self.flags,
        }
    }
}

impl Kept {
    /// Returns the request as it was.
    pub fn request(&self) -> Request<'_> {
        let source: Source<'_> = self.rest.source();
        let body = match &self.fixed {
            None => Body::contiguous(source),
            Some(fixed) => Body::split(fixed, source.bytes),
        };
        match decode(&self.header, body, self.flags) {
            Ok(Message::Request(request)) => request,
            Ok(_) | Err(_) => unreachable!("it was a request when it was kept"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::payload::Pool;
    use super::super::request::{Operation, head};
    use super::super::{SHARE_MIN, abi::opcode};
    use super::*;
    use zerocopy::IntoBytes;

    /// A WRITE of so many bytes to inode 5: its header and what follows, up to the bytes.
    fn write(len: usize) -> (Vec<u8>, Vec<u8>) {
        let fixed = [0, 0, 4096, 0, len as u32, 0, 0, 0, 0, 0].as_bytes().to_vec();
        let mut head = vec![0; size_of::<abi::InHeader>()];
        head[..4].copy_from_slice(&((40 + fixed.len() + len) as u32).to_ne_bytes());
        head[4..8].copy_from_slice(&opcode::WRITE.to_ne_bytes());
        head[8] = 2;
        head[16] = 5;
        (head, fixed)
    }

    fn check(kept: &Kept, len: usize, is_shared: bool) {
        let request = kept.request();
        assert_eq!((request.unique, request.nodeid), (2, 5));
        let Operation::Write { offset, data, .. } = request.operation else {
            panic!("it was a write")
        };
        assert_eq!((offset, data.bytes()), (4096, &vec![7; len][..]));
        assert_eq!(data.share().is_kept(), is_shared);
    }

    #[test]
    fn a_request_that_is_kept_is_the_same_when_its_buffer_has_the_next() {
        for (len, is_shared) in [(SHARE_MIN, true), (100, false)] {
            let (head_bytes, fixed) = write(len);
            let bytes = [&head_bytes[..], &fixed, &vec![7; len]].concat();
            let mut buffer = Pool::new(1 << 20, 1).take();
            buffer.space()[..bytes.len()].copy_from_slice(&bytes);
            let source = buffer.filled(bytes.len());
            let header = head(source.bytes).expect("it has a header");
            let body = Body::contiguous(source);
            let kept = Original::new(&header, &body, InitFlags::NONE).keep();
            buffer.space().fill(9);
            check(&kept, len, is_shared);
        }
    }

    #[test]
    fn a_request_that_came_in_two_parts_is_kept_with_both() {
        let (head_bytes, fixed) = write(100);
        let (header, payload) = (head(&head_bytes).expect("it is one"), vec![7; 100]);
        let body = Body::split(&fixed, &payload);
        let kept = Original::new(&header, &body, InitFlags::NONE).keep();
        drop((fixed, payload));
        check(&kept, 100, false);
    }
}
