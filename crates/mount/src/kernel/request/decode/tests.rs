//! Golden bytes of requests, and bytes that are no requests.

use super::*;
use crate::kernel::flags::InitFlags;
use crate::kernel::payload::Source;
use crate::kernel::request::head;

/// The header of a request of user 1000, group 100, thread 77 on inode 5, with what follows it.
fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&(40 + body.len() as u32).to_ne_bytes());
    bytes.extend_from_slice(&opcode.to_ne_bytes());
    bytes.extend_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&[0xe8, 3, 0, 0, 100, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(body);
    bytes
}

fn with_extension(mut message: Vec<u8>, extension: &[u8]) -> Vec<u8> {
    message[36] = u8::try_from(extension.len() / 8).unwrap();
    message.extend_from_slice(extension);
    message
}

fn parsed(bytes: &[u8], flags: InitFlags) -> Result<Message<'_>, Malformed> {
    let header = head(bytes).unwrap();
    decode(&header, Body::contiguous(Source::unkept(bytes)), flags)
}

fn shown(bytes: &[u8]) -> String {
    let message = parsed(bytes, InitFlags::NONE).unwrap();
    if let Message::Request(request) = message {
        return format!("{:?}", request.operation);
    }
    format!("{message:?}")
}

/// Numbers of 4 bytes, as most structs of the protocol are made of.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[test]
fn a_header_says_who_asks() {
    let bytes = message(opcode::LOOKUP, b"n\0");
    let Ok(Message::Request(request)) = parsed(&bytes, InitFlags::NONE) else {
        panic!("it is a request")
    };
    let who = (
        request.unique,
        request.nodeid,
        request.uid,
        request.gid,
        request.pid,
    );
    assert_eq!(who, (2, 5, 1000, 100, 77));
    assert_eq!(request.supplementary_group, None);
}

#[test]
fn requests_have_these_bytes() {
    let setattr = {
        let mut body = words(&[1 | 8 | 16 | 32 | 64 | 128 | 2048, 0, 9, 0, 4096, 0, 0, 0]);
        body.extend(words(&[1, 0, 2, 0, 3, 0, 0, 7, 0, 0o644, 0, 0, 0, 0]));
        body
    };
    let lock = words(&[9, 0, 8, 0, 1, 0, 2, 0, 1, 77, 1, 0]);
    let write = [words(&[9, 0, 4096, 0, 3, 5, 0, 0, 2, 0]), b"abc".to_vec()].concat();
    let cases = [
        (
            opcode::LOOKUP,
            b"name\0".to_vec(),
            "Lookup { name: [110, 97, 109, 101] }",
        ),
        (opcode::GETATTR, words(&[1, 0, 9, 0]), "Getattr { fh: Some(9) }"),
        (opcode::GETATTR, words(&[0, 0, 9, 0]), "Getattr { fh: None }"),
        (
            opcode::SETATTR,
            setattr,
            "Setattr(Setattr { mode: Some(420), uid: None, gid: None, size: Some(4096), atime: Some(Now), \
             mtime: Some(At(Time { seconds: 2, nanoseconds: 7 })), ctime: None, fh: Some(9), \
             lock_owner: None, kill_suidgid: true })",
        ),
        (
            opcode::SYMLINK,
            b"l\0to\0".to_vec(),
            "Symlink { name: [108], target: [116, 111] }",
        ),
        (
            opcode::MKNOD,
            [words(&[0o100_600, 0, 0o22, 0]), b"f\0".to_vec()].concat(),
            "Mknod { name: [102], mode: 33152, rdev: 0, umask: 18 }",
        ),
        (
            opcode::RENAME2,
            [words(&[6, 0, 1, 0]), b"a\0b\0".to_vec()].concat(),
            "Rename { name: [97], new_parent: 6, new_name: [98], flags: 1 }",
        ),
        (
            opcode::LINK,
            [words(&[6, 0]), b"a\0".to_vec()].concat(),
            "Link { ino: 6, name: [97] }",
        ),
        (
            opcode::READ,
            words(&[9, 0, 0, 1, 4096, 2, 8, 0, 0, 0]),
            "Read { fh: 9, offset: 4294967296, size: 4096, flags: 0, lock_owner: Some(8) }",
        ),
        (
            opcode::WRITE,
            write,
            "Write { fh: 9, offset: 4096, data: Payload { bytes: [97, 98, 99], lease: None }, \
             write_flags: WriteFlags { cache: true, kill_suidgid: true }, flags: 2, lock_owner: None }",
        ),
        (
            opcode::SETLKW,
            lock,
            "Setlk { fh: 9, lock: Lock { owner: 8, start: 1, end: 2, kind: Write, pid: 77, flock: true }, wait: true }",
        ),
        (
            opcode::SETXATTR,
            [words(&[3, 1]), b"user.a\0xyz".to_vec()].concat(),
            "Setxattr { name: [117, 115, 101, 114, 46, 97], value: [120, 121, 122], flags: 1, acl_kill_sgid: false }",
        ),
        (
            opcode::COPY_FILE_RANGE_64,
            words(&[1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 0, 0]),
            "CopyFileRange { fh: 1, offset: 2, to: 3, to_fh: 4, to_offset: 5, length: 6, flags: 0, wide: true }",
        ),
        (opcode::FORGET, words(&[3, 0]), "Forget { nodeid: 5, lookups: 3 }"),
        (
            opcode::BATCH_FORGET,
            words(&[2, 0, 7, 0, 1, 0, 8, 0, 2, 0]),
            "BatchForget([ForgetOne { nodeid: 7, nlookup: 1 }, ForgetOne { nodeid: 8, nlookup: 2 }])",
        ),
        (opcode::INTERRUPT, words(&[44, 0]), "Interrupt { unique: 44 }"),
        (99, vec![1, 2, 3], "Unknown { opcode: 99 }"),
    ];
    for (opcode, body, expected) in cases {
        assert_eq!(shown(&message(opcode, &body)), expected, "opcode {opcode}");
    }
}

#[test]
fn a_setxattr_is_longer_where_that_was_agreed_on() {
    let bytes = message(
        opcode::SETXATTR,
        &[words(&[1, 0, 1, 0]), b"n\0v".to_vec()].concat(),
    );
    let Ok(Message::Request(request)) = parsed(&bytes, InitFlags::SETXATTR_EXT) else {
        panic!("a request")
    };
    assert!(matches!(
        request.operation,
        Operation::Setxattr {
            value: b"v",
            acl_kill_sgid: true,
            ..
        }
    ));
}

#[test]
fn an_extension_names_the_group() {
    let mkdir = message(opcode::MKDIR, &[words(&[0o755, 0o22]), b"d\0".to_vec()].concat());
    let bytes = with_extension(mkdir, &words(&[16, 32, 1, 4242]));
    let Ok(Message::Request(request)) = parsed(&bytes, InitFlags::NONE) else {
        panic!("a request")
    };
    assert_eq!(request.supplementary_group, Some(4242));
    assert!(matches!(request.operation, Operation::Mkdir { name: b"d", .. }));
}

#[test]
fn an_old_init_is_shorter() {
    let bytes = message(opcode::INIT, &words(&[7, 31, 131_072, 1 << 16]));
    let Ok(Message::Init(init)) = parsed(&bytes, InitFlags::NONE) else {
        panic!("an INIT")
    };
    assert_eq!((init.minor, init.flags), (31, InitFlags::WRITEBACK_CACHE));
    let new = [words(&[7, 45, 0, 1 << 30, 1 << 9]), vec![0; 44]].concat();
    let bytes = message(opcode::INIT, &new);
    let Ok(Message::Init(init)) = parsed(&bytes, InitFlags::NONE) else {
        panic!("an INIT")
    };
    assert!(init.flags.contains(InitFlags::OVER_IO_URING));
}

#[test]
fn what_makes_no_sense_gets_an_errno() {
    let cases = [
        (message(opcode::LOOKUP, b"no nul"), Errno::IO),
        (message(opcode::LOOKUP, b"\0"), Errno::INVAL),
        (message(opcode::LOOKUP, b"a\0b"), Errno::IO),
        (message(opcode::LINK, b"short"), Errno::IO),
        (
            message(
                opcode::WRITE,
                &[words(&[9, 0, 0, 0, 4, 0, 0, 0, 0, 0]), b"abc".to_vec()].concat(),
            ),
            Errno::IO,
        ),
        (
            message(opcode::SETLK, &words(&[9, 0, 8, 0, 1, 0, 2, 0, 7, 77, 1, 0])),
            Errno::INVAL,
        ),
        (
            message(opcode::BATCH_FORGET, &words(&[u32::MAX, 0, 1, 0])),
            Errno::IO,
        ),
        (
            with_extension(message(opcode::LOOKUP, b"a\0"), &words(&[99, 32])),
            Errno::IO,
        ),
    ];
    for (bytes, errno) in cases {
        assert_eq!(
            parsed(&bytes, InitFlags::NONE).unwrap_err().errno,
            errno,
            "{bytes:?}"
        );
    }
}

/// A small generator of numbers (xorshift64*), the same at each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

#[test]
fn no_bytes_make_the_decoder_panic() {
    let mut numbers = Numbers(0x7e4e_7265);
    for round in 0..200_000 {
        let opcode = numbers.next() as u32 % 60;
        let len = numbers.next() as usize % 160;
        let mut body: Vec<u8> = (0..len).map(|_| (numbers.next() >> 40) as u8).collect();
        if round % 2 == 0 {
            body.iter_mut()
                .filter(|byte| **byte > 64)
                .for_each(|byte| *byte = 0);
        }
        let mut bytes = message(opcode, &body);
        if round % 3 == 0 {
            bytes[36] = numbers.next() as u8 % 8;
        }
        let flags = if round % 5 == 0 {
            InitFlags::SETXATTR_EXT
        } else {
            InitFlags::NONE
        };
        if let Err(malformed) = parsed(&bytes, flags) {
            assert!([Errno::IO, Errno::INVAL].contains(&malformed.errno));
            assert_eq!((malformed.unique, malformed.opcode), (2, opcode));
        }
        let fixed = [7; 128];
        let header = head(&bytes).unwrap();
        let _ = decode(&header, Body::contiguous(Source::unkept(&fixed)), flags);
    }
    assert!(head(&[0; 39]).is_none());
}
