//! Answers on their way to a client. Who has an answer writes it himself; where the client does not read, a thread of the
//! connection's own takes over, so that nobody who works for other clients waits for this one.
//!
//! Invariant: answers are written whole, one after the other, by one thread at a time; after a failure none is written.

use super::stream::Stream;
use super::window::Slot;
use crate::frame::{self, Broken, HEADER_LEN};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;
use tenure_model::limits;

/// The answers to one client that are not written yet.
pub(super) struct Outbox {
    stream: Arc<Stream>,
    stuck_max: Duration,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Outgoing>,
    /// Whether somebody writes; he writes everything.
    is_written: bool,
    is_closed: bool,
}

/// One answer.
pub(super) struct Outgoing {
    header: [u8; HEADER_LEN],
    parts: [Vec<u8>; 2],
    sent: usize,
    /// The call that it answers counts as underway until it is sent.
    _slot: Option<Slot>,
}

enum Sent {
    Whole,
    Stuck,
    Failed(io::Error),
}

impl Outgoing {
    /// Returns the frame of a message, or why it is none.
    pub(super) fn new(
        head: Vec<u8>,
        tail: Vec<u8>,
        slot: Option<Slot>,
    ) -> Result<Self, (Broken, Option<Slot>)> {
        match frame::header([&head[..], &tail[..]].into_iter(), limits::MESSAGE_LEN_MAX) {
            Ok(header) => Ok(Self {
                header,
                parts: [head, tail],
                sent: 0,
                _slot: slot,
            }),
            Err(broken) => Err((broken, slot)),
        }
    }

    /// Writes what was not sent yet; gives up when there is no room in the socket for `patience`.
    fn send(&mut self, stream: &Stream, patience: Duration) -> Sent {
        match self.send_rest(stream, patience) {
            Ok(()) => Sent::Whole,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::Stuck,
            Err(error) => Sent::Failed(error),
        }
    }

    fn send_rest(&mut self, stream: &Stream, patience: Duration) -> io::Result<()> {
        let all = self.header.len() + self.parts.iter().map(Vec::len).sum::<usize>();
        while self.sent < all {
            let mut slices = [&self.header[..], &self.parts[0], &self.parts[1]].map(IoSlice::new);
            let mut rest = &mut slices[..];
            IoSlice::advance_slices(&mut rest, self.sent);
            self.sent += stream.send(rest, patience)?;
        }
        stream.flush(patience)
    }
}

impl Outbox {
    pub(super) fn new(stream: Arc<Stream>, stuck_max: Duration) -> Arc<Self> {
        Arc::new(Self {
            stream,
            stuck_max,
            queue: Mutex::default(),
        })
    }

    /// Writes an answer, or leaves it to whoever writes. Waits at most `patience` for a client that does not read.
    pub(super) fn push(self: &Arc<Self>, frame: Outgoing, patience: Duration) {
        let mut queue = self.queue.lock();
        if queue.is_closed {
            drop(queue);
            return drop(frame);
        }
        queue.frames.push_back(frame);
        if std::mem::replace(&mut queue.is_written, true) {
            return;
        }
        drop(queue);
        if self.drain(patience) {
            return;
        }
        let outbox = self.clone();
        let finish = move || {
            if !outbox.drain(outbox.stuck_max) {
                tracing::warn!("a client reads no answers; its connection is ended");
                outbox.close();
            }
        };
        if let Err(error) = std::thread::Builder::new()
            .name("tenure-stuck".into())
            .spawn(finish)
        {
            tracing::warn!(%error, "no thread can be started for a client that reads slowly");
            self.close();
        }
    }

    /// Throws away what is not written, and ends the connection.
    pub(super) fn close(&self) {
        let mut queue = self.queue.lock();
        queue.is_closed = true;
        let frames = std::mem::take(&mut queue.frames);
        drop(queue);
        drop(frames);
        // A socket whose other end has gone is as shut as it can be.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Writes everything; returns false when the client has not read for `patience`, and then somebody must go on.
    fn drain(&self, patience: Duration) -> bool {
        loop {
            let mut queue = self.queue.lock();
            let Some(mut frame) = queue.frames.pop_front() else {
                queue.is_written = false;
                return true;
            };
            drop(queue);
            match frame.send(&self.stream, patience) {
                Sent::Whole => {}
                Sent::Stuck => {
                    let mut queue = self.queue.lock();
                    if queue.is_closed {
                        return true;
                    }
                    queue.frames.push_front(frame);
                    return false;
                }
                Sent::Failed(error) => {
                    tracing::debug!(%error, "a client has gone before it was answered");
                    self.close();
                    return true;
                }
            }
        }
    }
}
