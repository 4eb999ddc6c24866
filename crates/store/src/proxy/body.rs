//! The body of a reply: all of its bytes, or less than it announces.

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Bytes that are sent, and how many more are announced.
pub(super) struct Body {
    bytes: Option<Bytes>,
    /// Bytes that are announced and do not come.
    lacking: u64,
}

impl Body {
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self {
            bytes: Some(bytes).filter(|bytes| !bytes.is_empty()),
            lacking: 0,
        }
    }

    /// Announces `len` bytes and sends those that there are; then the connection ends.
    pub(super) fn cut(bytes: Bytes, len: usize) -> Self {
        Self {
            lacking: (len - bytes.len()) as u64,
            ..Self::whole(bytes)
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        let next = match self.bytes.take() {
            Some(bytes) => Some(Ok(Frame::data(bytes))),
            None if self.lacking > 0 => Some(Err("cut")),
            None => None,
        };
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none() && self.lacking == 0
    }

    fn size_hint(&self) -> SizeHint {
        let here = self.bytes.as_ref().map_or(0, Bytes::len);
        SizeHint::with_exact(here as u64 + self.lacking)
    }
}
