//! Frames: how messages stand one behind the other in a stream of bytes.
//!
//! A frame is the length of its payload, a checksum over length and payload, and the payload. Nothing here knows what a
//! payload means. Invariant: what `FrameReader` returns is what was sent, and no length makes it reserve more memory
//! than has arrived and one step.

use std::io::{self, Read};
use thiserror::Error;

/// Bytes before a payload: its length and the checksum, each of 4 bytes, little-endian.
pub const HEADER_LEN: usize = 8;
/// Bytes that are asked of the stream at once: a call's frame, and the next ones that came with it.
const BUFFER_LEN: usize = 16 << 10;
/// Bytes of a payload that are reserved before they have arrived.
const STEP_LEN: usize = 256 << 10;

/// Why a stream yields no frame.
#[derive(Debug, Error)]
pub enum Broken {
    /// The stream failed. After `WouldBlock` and `TimedOut` reading may go on.
    #[error("the connection failed: {0}")]
    Stream(#[from] io::Error),
    /// The stream ended within a frame.
    #[error("the connection ended within a message")]
    Cut,
    /// A frame is longer than it may be.
    #[error("a message of {len} bytes is too long; at most {len_max} are allowed")]
    TooLong {
        /// Bytes of the payload, as its header says.
        len: usize,
        /// The most that are allowed.
        len_max: usize,
    },
    /// The checksum does not fit.
    #[error("the checksum of a message is wrong")]
    Checksum,
}

/// Returns the header of the frame whose payload is the concatenation of `parts`.
pub fn header<'a>(
    parts: impl Iterator<Item = &'a [u8]> + Clone,
    len_max: usize,
) -> Result<[u8; HEADER_LEN], Broken> {
    let len = parts.clone().map(<[u8]>::len).sum();
    let Some(len32) = u32::try_from(len).ok().filter(|_| len <= len_max) else {
        return Err(Broken::TooLong { len, len_max });
    };
    let len32 = len32.to_le_bytes();
    let crc = parts.fold(crc32c::crc32c(&len32), crc32c::crc32c_append);
    let mut header = [0; HEADER_LEN];
    header[..4].copy_from_slice(&len32);
    header[4..].copy_from_slice(&crc.to_le_bytes());
    Ok(header)
}

/// Takes frames out of a stream. It may be asked again after the stream had nothing for a while.
#[derive(Debug)]
pub struct FrameReader {
    len_max: usize,
    buffer: Box<[u8]>,
    /// What was read and not yet taken: `buffer[from..to]`.
    from: usize,
    to: usize,
    open: Option<Open>,
}

/// A frame whose header was read.
#[derive(Debug)]
struct Open {
    len: usize,
    header: [u8; HEADER_LEN],
    payload: Vec<u8>,
}

impl FrameReader {
    /// Starts between two frames of a stream, none of which may be longer than `len_max`.
    pub fn new(len_max: usize) -> Self {
        Self {
            len_max,
            buffer: vec![0; BUFFER_LEN].into(),
            from: 0,
            to: 0,
            open: None,
        }
    }

    /// Sets how long a frame may be from now on.
    pub fn set_len_max(&mut self, len_max: usize) {
        self.len_max = len_max;
    }

    /// Returns the next payload, or none when the stream ends behind a frame.
    pub fn next(&mut self, stream: &mut impl Read) -> Result<Option<Vec<u8>>, Broken> {
        if self.open.is_none() {
            while self.to - self.from < HEADER_LEN {
                if self.fill(stream)? == 0 {
                    return if self.from == self.to {
                        Ok(None)
                    } else {
                        Err(Broken::Cut)
                    };
                }
            }
            self.open = Some(self.begin()?);
        }
        let mut open = self.open.take().expect("it was there or has just been opened");
        let ready = (self.to - self.from).min(open.len - open.payload.len());
        open.payload
            .extend_from_slice(&self.buffer[self.from..self.from + ready]);
        self.from += ready;
        match open.fill(stream) {
            Ok(()) => open.close().map(Some),
            Err(broken) => {
                self.open = Some(open);
                Err(broken)
            }
        }
    }

    /// Takes a header from the buffer.
    fn begin(&mut self) -> Result<Open, Broken> {
        let header: [u8; HEADER_LEN] = self.buffer[self.from..self.from + HEADER_LEN]
            .try_into()
            .expect("the slice is as long as a header");
        let len = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        if len > self.len_max {
            return Err(Broken::TooLong {
                len,
                len_max: self.len_max,
            });
        }
        self.from += HEADER_LEN;
        Ok(Open {
            len,
            header,
            payload: Vec::with_capacity(len.min(STEP_LEN)),
        })
    }

    /// Reads once into the buffer; returns how many bytes came, 0 at the end.
    fn fill(&mut self, stream: &mut impl Read) -> io::Result<usize> {
        self.buffer.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        loop {
            match stream.read(&mut self.buffer[self.to..]) {
                Ok(len) => {
                    self.to += len;
                    return Ok(len);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Open {
    /// Reads what the payload lacks.
    fn fill(&mut self, stream: &mut impl Read) -> Result<(), Broken> {
        while self.payload.len() < self.len {
            let missing = (self.len - self.payload.len()).min(STEP_LEN);
            self.payload.reserve(missing);
            if stream
                .by_ref()
                .take(missing as u64)
                .read_to_end(&mut self.payload)?
                == 0
            {
                return Err(Broken::Cut);
            }
        }
        Ok(())
    }

    fn close(self) -> Result<Vec<u8>, Broken> {
        let crc = crc32c::crc32c_append(crc32c::crc32c(&self.header[..4]), &self.payload);
        if crc.to_le_bytes() == self.header[4..] {
            Ok(self.payload)
        } else {
            Err(Broken::Checksum)
        }
    }
}
