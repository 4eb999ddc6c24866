//! The bytes of every kind of value, as they were written first. They are kept for ever: a program reads what the
//! programs before it have written, so a file under `tests/golden/` is added and never changed.

mod records;

use records::{records, records_of_lines, records_of_sessions, turns};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tenure_model::acl::Acl;
use tenure_model::attr::Xattrs;
use tenure_model::batch::chain_start;
use tenure_model::codec::Codec;
use tenure_model::record::{Maker, Plan, Source};
use tenure_model::{
    Act, ActId, Address, Attr, AttrChange, Batch, BranchId, BranchName, CheckpointName, ChunkPlace, Conflict,
    ConflictKind, Digest, Epoch, Extent, FileOutcome, Ino, Kind, Mark, Marking, Name, NewNode, Op,
    PackNumber, PackObject, Past, Piece, Reclaimed, Record, RenameMode, RequestKey, Root, Seq, SessionId,
    Staging, Stretch, Timestamp, Turn, What, Why, XattrMode, XattrName,
};

const NOON: Timestamp = Timestamp {
    secs: 1_795_867_200,
    nanos: 999_999_999,
};
const BEFORE_1970: Timestamp = Timestamp { secs: -2, nanos: 1 };

fn digest(first: u8) -> Digest {
    Digest(std::array::from_fn(|at| first.wrapping_add(at as u8)))
}

fn address() -> Address {
    Address {
        pack: PackNumber(300),
        digest: digest(0x10),
    }
}

fn name(text: &str) -> Name {
    Name::parse(text.as_bytes()).expect("it is a name")
}

fn xattr_name(text: &str) -> XattrName {
    XattrName::parse(text.as_bytes()).expect("it is a name")
}

fn branch_name(text: &str) -> BranchName {
    BranchName::parse(text).expect("it is a name")
}

fn checkpoint_name(text: &str) -> CheckpointName {
    CheckpointName::parse(text).expect("it is a name")
}

pub(super) fn attr() -> Attr {
    Attr {
        kind: Kind::File,
        mode: 0o6755,
        nlink: 2,
        uid: 1000,
        gid: 100,
        rdev: 0x0103,
        size: 1 << 40,
        allocated: 4096,
        parent: Ino(0),
        xattrs: Xattrs(Xattrs::ANY | Xattrs::ACCESS_ACL),
        atime: NOON,
        mtime: BEFORE_1970,
        ctime: Timestamp { secs: 0, nanos: 0 },
        btime: Timestamp { secs: 64, nanos: 128 },
    }
}

fn attr_change() -> AttrChange {
    AttrChange {
        mode: Some(0o4711),
        uid: None,
        gid: Some(0),
        size: Some(300),
        atime: None,
        mtime: Some(NOON),
    }
}

fn chunk() -> Extent {
    Extent::Chunk {
        at: address(),
        start: 4096,
        len: 1000,
    }
}

fn inline() -> Extent {
    Extent::Inline(Box::from(*b"bytes"))
}

fn node() -> NewNode {
    NewNode {
        kind: Kind::CharDevice,
        mode: 0o1666,
        umask: 0o022,
        uid: 1000,
        gid: 100,
        rdev: 0x0501,
        target: Box::from([]),
    }
}

pub(super) fn symlink() -> NewNode {
    NewNode {
        kind: Kind::Symlink,
        mode: 0o777,
        umask: 0,
        rdev: 0,
        target: Box::from(*b"../to"),
        ..node()
    }
}

/// Every variant of `Op` that names entries.
fn entry_ops() -> Vec<(&'static str, Op)> {
    let (parent, time) = (Ino(1), NOON);
    let rename = |mode| Op::Rename {
        from: parent,
        name: name("old"),
        to: Ino(300),
        new_name: name("new"),
        mode,
        time,
    };
    let create = |node| Op::Create {
        parent,
        name: name("a\u{e9}"),
        ino: Ino(1 << 32),
        node,
        time,
    };
    vec![
        ("op_create_device", create(node())),
        ("op_create_symlink", create(symlink())),
        (
            "op_create_unnamed",
            Op::CreateUnnamed {
                parent,
                ino: Ino(17),
                node: node(),
                time,
            },
        ),
        (
            "op_link",
            Op::Link {
                ino: Ino(17),
                parent,
                name: name("b"),
                time,
            },
        ),
        (
            "op_unlink",
            Op::Unlink {
                parent,
                name: name("b"),
                time,
            },
        ),
        (
            "op_rmdir",
            Op::Rmdir {
                parent,
                name: name("d"),
                time: BEFORE_1970,
            },
        ),
        ("op_rename_replace", rename(RenameMode::Replace)),
        ("op_rename_no_replace", rename(RenameMode::NoReplace)),
        ("op_rename_exchange", rename(RenameMode::Exchange)),
        ("op_rename_whiteout", rename(RenameMode::Whiteout(Ino(18)))),
        ("op_drop", Op::Drop { ino: Ino(17) }),
    ]
}

/// Every variant of `Op` that changes a file's content.
fn content_ops() -> Vec<(&'static str, Op)> {
    let (ino, time, offset, len) = (Ino(17), NOON, 1 << 20, 4096);
    let pieces = vec![
        Piece {
            offset: 0,
            extent: inline(),
        },
        Piece {
            offset,
            extent: chunk(),
        },
    ];
    vec![
        (
            "op_write",
            Op::Write {
                ino,
                pieces,
                size: 1 << 21,
                time: Some(time),
            },
        ),
        (
            "op_write_without_time",
            Op::Write {
                ino,
                pieces: Vec::new(),
                size: 5,
                time: None,
            },
        ),
        (
            "op_punch",
            Op::Punch {
                ino,
                offset,
                len,
                time,
            },
        ),
        (
            "op_collapse",
            Op::Collapse {
                ino,
                offset,
                len,
                time,
            },
        ),
        (
            "op_insert",
            Op::Insert {
                ino,
                offset,
                len,
                time,
            },
        ),
        (
            "op_copy",
            Op::Copy {
                from: ino,
                from_offset: 1,
                to: Ino(18),
                to_offset: 300,
                len,
                time,
            },
        ),
    ]
}

/// Every variant of `Op` that changes attributes.
fn attribute_ops() -> Vec<(&'static str, Op)> {
    let (ino, time) = (Ino(17), NOON);
    let set_xattr = |mode| Op::SetXattr {
        ino,
        name: xattr_name("user.mime"),
        value: Box::from(*b"text/plain"),
        mode,
        time,
    };
    vec![
        (
            "op_set_attr",
            Op::SetAttr {
                ino,
                change: attr_change(),
                time,
            },
        ),
        ("op_set_xattr", set_xattr(XattrMode::Set)),
        ("op_set_xattr_create", set_xattr(XattrMode::Create)),
        ("op_set_xattr_replace", set_xattr(XattrMode::Replace)),
        (
            "op_remove_xattr",
            Op::RemoveXattr {
                ino,
                name: xattr_name("user.mime"),
                time,
            },
        ),
    ]
}

fn batch() -> Batch {
    Batch {
        session: SessionId(3),
        branch: BranchId(2),
        epoch: Epoch(9),
        number: 1000,
        previous: digest(0x80),
        chunks: vec![chunk_place(None), chunk_place(Some(Box::from(*b"chunk")))],
        ops: Op::Drop { ino: Ino(17) }.written(),
    }
}

fn chunk_place(inline: Option<Box<[u8]>>) -> ChunkPlace {
    ChunkPlace {
        at: address(),
        offset: 1 << 30,
        len: 5,
        inline,
    }
}

/// What is said of merges.
fn hold_outcomes(golden: &mut Golden) {
    let conflict = Conflict {
        kind: ConflictKind::Content,
        path: (*b"src/lib").into(),
        beside: Some((*b"src/lib~try").into()),
        ours: Ino(300),
        theirs: Ino(301),
        place: None,
        from: "try".into(),
    };
    let moved = Conflict {
        kind: ConflictKind::Moved,
        beside: None,
        theirs: Ino(0),
        place: Some((*b"there/lib").into()),
        ..conflict.clone()
    };
    golden.holds("conflict", &conflict);
    golden.holds("conflict_moved", &moved);
    let kind = ConflictKind::DirectoryRemovedThere;
    for (name, what) in [
        ("file_outcome_taken", What::Taken),
        ("file_outcome_removed", What::Removed),
        ("file_outcome_merged", What::Merged("text".into())),
        ("file_outcome_conflicted", What::Conflicted(kind)),
    ] {
        let path = (*b"src/lib").into();
        golden.holds(name, &FileOutcome { path, what });
    }
    for (number, kind) in ConflictKind::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, number, "{kind:?}");
    }
}

fn act() -> Act {
    Act {
        id: ActId {
            session: SessionId(3),
            number: 200,
        },
        branch: BranchId(2),
        mark: digest(0x50),
        chunks: vec![chunk_place(None)],
        op: Op::Drop { ino: Ino(300) },
    }
}

/// Holds values against the files named after them.
#[derive(Default)]
struct Golden {
    files: BTreeMap<String, Vec<u8>>,
    faults: Vec<String>,
}

impl Golden {
    fn read() -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let mut golden = Golden::default();
        for entry in folder.read_dir().expect("the golden files are there") {
            let path = entry.expect("the folder can be read").path();
            let name = path
                .file_stem()
                .expect("a file has a name")
                .to_string_lossy()
                .into_owned();
            let hex = std::fs::read_to_string(&path).expect("golden files are text");
            golden.files.insert(name, bytes(&hex));
        }
        golden
    }

    fn holds<T: Codec + PartialEq + std::fmt::Debug>(&mut self, name: &str, value: &T) {
        let written = value.written();
        let Some(golden) = self.files.remove(name) else {
            return self
                .faults
                .push(format!("{name}.hex is missing; it should be\n{}", hex(&written)));
        };
        if golden != written {
            self.faults
                .push(format!("{name}: what is written now is\n{}", hex(&written)));
        }
        match T::parsed(&golden) {
            Ok(read) if read == *value => {}
            read => self.faults.push(format!("{name}: what is read now is {read:?}")),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<_> = digits.chunks(32).map(<[String]>::concat).collect();
    lines.join("\n") + "\n"
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("golden files are hex"))
        .collect()
}

#[test]
fn every_kind_of_value_is_its_golden_bytes() {
    let mut golden = Golden::read();
    golden.holds("timestamp", &NOON);
    golden.holds("timestamp_before_1970", &BEFORE_1970);
    golden.holds("address", &address());
    golden.holds("attr", &attr());
    golden.holds("attr_change", &attr_change());
    golden.holds("extent_inline", &inline());
    golden.holds("extent_chunk", &chunk());
    golden.holds(
        "piece",
        &Piece {
            offset: 1 << 20,
            extent: chunk(),
        },
    );
    golden.holds("node_device", &node());
    golden.holds("node_symlink", &symlink());
    entry_ops().iter().for_each(|(name, op)| golden.holds(name, op));
    content_ops().iter().for_each(|(name, op)| golden.holds(name, op));
    attribute_ops()
        .iter()
        .for_each(|(name, op)| golden.holds(name, op));
    golden.holds("chunk_place", &chunk_place(None));
    golden.holds("chunk_place_inline", &chunk_place(Some(Box::from(*b"chunk"))));
    golden.holds("batch", &batch());
    records()
        .into_iter()
        .chain(records_of_lines())
        .chain(records_of_sessions())
        .chain(turns())
        .for_each(|(name, record)| golden.holds(name, &record));
    hold_outcomes(&mut golden);
    for name in ["acl", "chain_start"] {
        golden.files.remove(name).expect("it has a test of its own");
    }
    golden.faults.extend(
        golden
            .files
            .keys()
            .map(|name| format!("{name}.hex belongs to no value")),
    );
    assert!(golden.faults.is_empty(), "{}", golden.faults.join("\n"));
}

#[test]
fn the_chain_of_a_grant_begins_as_ever() {
    let start = chain_start(SessionId(3), BranchId(2), Ino(300));
    let golden = &Golden::read().files["chain_start"];
    assert_eq!(hex(&start.0), hex(golden));
    assert_eq!(start, Digest::of(b"grant\x03\x02\xac\x02"));
}

#[test]
fn an_access_control_list_is_its_golden_bytes() {
    const NOBODY: u32 = u32::MAX;
    let lines = [
        (0x01, 7, NOBODY),
        (0x02, 6, 1000),
        (0x04, 5, NOBODY),
        (0x08, 4, 100),
        (0x10, 7, NOBODY),
        (0x20, 1, NOBODY),
    ];
    let value = super::access::value(&lines);
    let acl = Acl::parse(&value).expect("the list is valid");
    assert_eq!(acl.to_value(), value);
    assert_eq!(Golden::read().files.get("acl"), Some(&value), "{}", hex(&value));
}

#[test]
fn every_kind_of_inode_is_named_by_its_bits_as_linux_has_them() {
    let kinds = [
        (Kind::Fifo, 0o010_644, 1),
        (Kind::CharDevice, 0o020_644, 2),
        (Kind::Directory, 0o040_644, 4),
        (Kind::BlockDevice, 0o060_644, 6),
        (Kind::File, 0o100_644, 8),
        (Kind::Symlink, 0o120_644, 10),
        (Kind::Socket, 0o140_644, 12),
    ];
    for (kind, st_mode, d_type) in kinds {
        assert_eq!(Kind::of(st_mode), Some(kind));
        assert_eq!(kind.d_type(), d_type);
        assert_eq!(Kind::of_d_type(d_type), Some(kind));
        let attr = Attr {
            kind,
            mode: 0o644,
            ..attr()
        };
        assert_eq!(attr.st_mode(), st_mode);
        assert_eq!(attr.is_directory(), kind == Kind::Directory);
    }
    let others = (0..16).filter(|bits| kinds.iter().all(|(_, _, d_type)| d_type != bits));
    for bits in others {
        assert_eq!(Kind::of(u32::from(bits) << 12), None);
        assert_eq!(Kind::of_d_type(bits), None);
    }
}
