//! A WebSocket (RFC 6455) as a stream of bytes: what stands in its binary messages, one behind the other. Where messages
//! begin and end means nothing.
//!
//! Invariant: what the other end says about the socket itself is heard whenever somebody reads, and answered at once or
//! with what is sent next.

use super::channel::{Channel, Received};
use super::tunnel::Tunnel;
use parking_lot::Mutex;
use rustix::rand::{GetRandomFlags, getrandom};
use std::io::{self, Cursor, IoSlice};
use std::net::Shutdown;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

/// Bytes of a message at most: few enough that an answer to a ping need not wait for long.
const SENT_LEN_MAX: usize = 64 << 10;
/// Bytes of a header and of all that a message about the socket itself can hold.
const CONTROL_LEN_MAX: usize = 14 + 125;
/// Clear bytes that are read at once where what comes is not known to be long.
const CLEAR_LEN: usize = 4 << 10;

/// Which end of a WebSocket this is: what a client sends is masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Server,
}

/// One end of a WebSocket.
pub struct WebStream {
    channel: Channel,
    end: End,
    reading: Mutex<Reading>,
    writing: Mutex<Writing>,
    /// Bytes sent since anything was heard.
    unheard: AtomicUsize,
}

/// What the reader has.
struct Reading {
    received: Received,
    /// Clear bytes that were not looked at: `clear[from..]`.
    clear: Vec<u8>,
    from: usize,
    /// Bytes that are left of the message that is read.
    left: u64,
    mask: Mask,
    is_over: bool,
}

#[derive(Default)]
struct Writing {
    /// What was asked last and could not be answered at once.
    owed: Option<Vec<u8>>,
    /// A message while it is masked.
    masked: Vec<u8>,
}

/// What the bytes of a message are mixed with.
#[derive(Clone, Copy)]
struct Mask([u8; 4]);

impl WebStream {
    /// Begins behind the handshake, with the clear bytes that have come since.
    pub(super) fn new(channel: Channel, end: End, received: Received, clear: Vec<u8>) -> Self {
        Self {
            channel,
            end,
            reading: Mutex::new(Reading {
                received,
                clear,
                from: 0,
                left: 0,
                mask: Mask([0; 4]),
                is_over: false,
            }),
            writing: Mutex::default(),
            unheard: AtomicUsize::new(0),
        }
    }

    /// Reads bytes; 0 at the end.
    pub(in crate::transport) fn read(&self, out: &mut [u8]) -> io::Result<usize> {
        let mut reading = self.reading.lock();
        let reading = &mut *reading;
        while !reading.is_over && !out.is_empty() {
            if reading.left == 0 {
                if !self.next_message(reading)? {
                    break;
                }
                continue;
            }
            let most = usize::try_from(reading.left).map_or(out.len(), |left| left.min(out.len()));
            let out = &mut out[..most];
            let len = match reading.clear.len() - reading.from {
                0 => self.channel.read(&mut reading.received, out)?,
                ready => {
                    let len = ready.min(out.len());
                    out[..len].copy_from_slice(&reading.clear[reading.from..reading.from + len]);
                    reading.from += len;
                    len
                }
            };
            reading.mask.apply(&mut out[..len]);
            reading.left -= len as u64;
            return Ok(len);
        }
        Ok(0)
    }

    /// Goes to the next message that holds bytes, or a step further; false at the end.
    fn next_message(&self, reading: &mut Reading) -> io::Result<bool> {
        let mut cursor = Cursor::new(&reading.clear[reading.from..]);
        let parsed = FrameHeader::parse(&mut cursor).map_err(|error| wrong(&error.to_string()))?;
        let header_len = cursor.position() as usize;
        let Some((header, len)) = parsed else {
            return self.fill(reading);
        };
        if header.rsv1 || header.rsv2 || header.rsv3 {
            return Err(wrong("a message in an extension that nobody asked for"));
        }
        let mask = match (self.end, header.mask) {
            (End::Server, Some(mask)) => mask,
            (End::Client, None) => [0; 4],
            (End::Server, None) | (End::Client, Some(_)) => {
                return Err(wrong("a message that is masked wrongly"));
            }
        };
        match header.opcode {
            OpCode::Data(Data::Binary | Data::Continue) => {
                reading.from += header_len;
                reading.left = len;
                reading.mask = Mask(mask);
                Ok(true)
            }
            OpCode::Data(Data::Text | Data::Reserved(_)) => Err(wrong("a message of text")),
            OpCode::Control(control) => {
                let from = reading.from + header_len;
                let Some(len) = usize::try_from(len)
                    .ok()
                    .filter(|len| *len <= 125 && header.is_final)
                else {
                    return Err(wrong("a control message that is too long"));
                };
                if reading.clear.len() < from + len {
                    return self.fill(reading);
                }
                let mut payload = reading.clear[from..from + len].to_vec();
                Mask(mask).apply(&mut payload);
                reading.from = from + len;
                self.control(reading, control, payload)
            }
        }
    }

    /// Reads more clear bytes; false at the end.
    fn fill(&self, reading: &mut Reading) -> io::Result<bool> {
        let kept = reading.clear.len() - reading.from;
        debug_assert!(kept < CONTROL_LEN_MAX, "a header and a control message are short");
        reading.clear.copy_within(reading.from.., 0);
        reading.from = 0;
        reading.clear.resize(kept + CLEAR_LEN, 0);
        let read = self
            .channel
            .read(&mut reading.received, &mut reading.clear[kept..]);
        reading.clear.truncate(kept + read.as_ref().map_or(0, |len| *len));
        Ok(read? > 0)
    }

    fn control(&self, reading: &mut Reading, control: Control, payload: Vec<u8>) -> io::Result<bool> {
        match control {
            Control::Ping => {
                self.owe(payload)?;
                Ok(true)
            }
            Control::Pong => Ok(true),
            Control::Close => {
                reading.is_over = true;
                // Who has said that it ends may not listen any more.
                let _ = self.say(Control::Close, &payload[..payload.len().min(2)]);
                Ok(false)
            }
            Control::Reserved(_) => Err(wrong("a message of an unknown kind")),
        }
    }

    /// Takes some of the bytes, and returns how many.
    pub(in crate::transport) fn send(&self, parts: &[IoSlice<'_>], wait: Duration) -> io::Result<usize> {
        let mut tunnel = self.channel.empty_tunnel(wait)?;
        let all = parts.iter().map(|part| part.len()).sum::<usize>();
        let len = all.min(SENT_LEN_MAX);
        let mut writing = self.writing.lock();
        self.pay(&mut writing, &mut tunnel)?;
        let binary = OpCode::Data(Data::Binary);
        self.put(&mut writing, &mut tunnel, binary, &first(parts, len), len)?;
        self.channel.push(&mut tunnel)?;
        self.unheard.fetch_add(len, Ordering::Relaxed);
        Ok(len)
    }

    /// Hands what was taken to the kernel.
    pub(in crate::transport) fn flush(&self, wait: Duration) -> io::Result<()> {
        let mut tunnel = self.channel.empty_tunnel(wait)?;
        self.pay(&mut self.writing.lock(), &mut tunnel)?;
        self.channel.push(&mut tunnel).map(drop)
    }

    /// Asks the other end whether it is there, unless bytes to it are waiting anyway.
    pub(in crate::transport) fn ping(&self) -> io::Result<()> {
        self.say(Control::Ping, &[])
    }

    /// Tells the other end that this one is there, though it has not asked.
    pub(in crate::transport) fn show_life(&self) -> io::Result<()> {
        self.say(Control::Pong, &[])
    }

    /// Tells whether anything has come since this was asked before.
    pub(in crate::transport) fn was_heard(&self) -> bool {
        let was_heard = self.channel.was_heard();
        if was_heard {
            self.unheard.store(0, Ordering::Relaxed);
        }
        was_heard
    }

    /// Returns how many bytes were sent since anything was heard.
    pub(in crate::transport) fn unheard(&self) -> usize {
        self.unheard.load(Ordering::Relaxed)
    }

    pub(in crate::transport) fn set_read_timeout(&self, wait: Option<Duration>) -> io::Result<()> {
        self.channel.set_read_timeout(wait)
    }

    pub(in crate::transport) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.channel.shutdown(how)
    }

    /// Answers a ping now, or with what is sent next: only the last one needs an answer (RFC 6455, 5.5.3).
    fn owe(&self, payload: Vec<u8>) -> io::Result<()> {
        let mut tunnel = self.channel.tunnel();
        let mut writing = self.writing.lock();
        writing.owed = Some(payload);
        if self.channel.push(&mut tunnel)? {
            self.pay(&mut writing, &mut tunnel)?;
            self.channel.push(&mut tunnel)?;
        }
        Ok(())
    }

    fn pay(&self, writing: &mut Writing, tunnel: &mut Tunnel) -> io::Result<()> {
        match writing.owed.take() {
            Some(payload) => {
                let pong = OpCode::Control(Control::Pong);
                self.put(writing, tunnel, pong, &[IoSlice::new(&payload)], payload.len())
            }
            None => Ok(()),
        }
    }

    /// Says something about the socket, unless bytes are waiting for room.
    fn say(&self, control: Control, payload: &[u8]) -> io::Result<()> {
        let mut tunnel = self.channel.tunnel();
        if !self.channel.push(&mut tunnel)? {
            return Ok(());
        }
        let (mut writing, control) = (self.writing.lock(), OpCode::Control(control));
        let parts = [IoSlice::new(payload)];
        self.put(&mut writing, &mut tunnel, control, &parts, payload.len())?;
        self.channel.push(&mut tunnel).map(drop)
    }

    /// Puts one message of `len` bytes into the tunnel.
    fn put(
        &self,
        writing: &mut Writing,
        tunnel: &mut Tunnel,
        opcode: OpCode,
        parts: &[IoSlice<'_>],
        len: usize,
    ) -> io::Result<()> {
        let mask = match self.end {
            End::Client => Some(new_mask()?),
            End::Server => None,
        };
        let header = FrameHeader {
            opcode,
            mask,
            ..FrameHeader::default()
        };
        let mut head = Vec::with_capacity(14);
        header
            .format(len as u64, &mut head)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let Some(mask) = mask else {
            let all: Vec<_> = std::iter::once(IoSlice::new(&head))
                .chain(parts.iter().copied())
                .collect();
            return tunnel.put(&all);
        };
        let masked = &mut writing.masked;
        masked.clear();
        masked.extend_from_slice(&head);
        parts.iter().for_each(|part| masked.extend_from_slice(part));
        Mask(mask).apply(&mut masked[head.len()..]);
        tunnel.put(&[IoSlice::new(masked)])
    }
}

impl Mask {
    /// Mixes bytes with the mask, and turns it so that it fits what comes behind them.
    fn apply(&mut self, bytes: &mut [u8]) {
        if self.0 == [0; 4] {
            return;
        }
        let mut words = bytes.chunks_exact_mut(4);
        for word in &mut words {
            word.iter_mut().zip(self.0).for_each(|(byte, mask)| *byte ^= mask);
        }
        let rest = words.into_remainder();
        rest.iter_mut().zip(self.0).for_each(|(byte, mask)| *byte ^= mask);
        self.0.rotate_left(rest.len());
    }
}

/// Draws a mask: nobody who chooses what is sent may know what a proxy on the way sees of it (RFC 6455, 10.3).
fn new_mask() -> io::Result<[u8; 4]> {
    let mut mask = [0; 4];
    getrandom(&mut mask, GetRandomFlags::empty())?;
    Ok(mask)
}

/// Returns the first `len` bytes of some parts.
fn first<'a>(parts: &'a [IoSlice<'a>], len: usize) -> Vec<IoSlice<'a>> {
    let mut left = len;
    let cut = |part: &'a IoSlice<'a>| {
        let part = &part[..left.min(part.len())];
        left -= part.len();
        (!part.is_empty()).then(|| IoSlice::new(part))
    };
    parts.iter().filter_map(cut).collect()
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("it is no WebSocket of this kind: {what}"),
    )
}
