//! Every kind of value that has bytes, drawn at random.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tenure_model::attr::Xattrs;
use tenure_model::batch::{Batch, ChunkPlace};
use tenure_model::record::{Maker, Plan, Source};
use tenure_model::{
    Act, ActId, Address, Attr, AttrChange, BranchId, BranchName, CheckpointName, Digest, Epoch, Extent, Ino,
    Kind, Mark, Marking, Name, NewNode, Op, PackNumber, PackObject, Past, Piece, Reclaimed, Record,
    RenameMode, RequestKey, Root, Seq, SessionId, Staging, Stretch, Timestamp, Turn, Why, XattrMode,
    XattrName, limits,
};

/// Numbers of every length, the small and the extreme ones often.
pub(crate) fn number() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![
        4 => 0u64..300,
        3 => (any::<u64>(), 0u32..64).prop_map(|(number, shift)| number >> shift),
        1 => Just(u64::MAX),
        1 => Just(1 << 63),
    ]
}

pub(crate) fn short_number() -> impl Strategy<Value = u32> + Clone {
    prop_oneof![4 => 0u32..300, 3 => any::<u32>(), 1 => Just(u32::MAX)]
}

pub(crate) fn ino() -> impl Strategy<Value = Ino> + Clone {
    number().prop_map(Ino)
}

pub(crate) fn time() -> impl Strategy<Value = Timestamp> + Clone {
    let secs = prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), -3i64..2_000_000_000];
    (secs, 0u32..1_000_000_000).prop_map(|(secs, nanos)| Timestamp { secs, nanos })
}

pub(crate) fn digest() -> impl Strategy<Value = Digest> + Clone {
    any::<[u8; 32]>().prop_map(Digest)
}

pub(crate) fn address() -> impl Strategy<Value = Address> + Clone {
    (number(), digest()).prop_map(|(pack, digest)| Address {
        pack: PackNumber(pack),
        digest,
    })
}

pub(crate) fn kind() -> impl Strategy<Value = Kind> + Clone {
    prop_oneof![
        Just(Kind::Fifo),
        Just(Kind::CharDevice),
        Just(Kind::Directory),
        Just(Kind::BlockDevice),
        Just(Kind::File),
        Just(Kind::Symlink),
        Just(Kind::Socket),
    ]
}

fn mode() -> impl Strategy<Value = u32> + Clone {
    0u32..0o10_000
}

pub(crate) fn name() -> impl Strategy<Value = Name> + Clone {
    let text = vec(
        any::<u8>().prop_map(|byte| if matches!(byte, 0 | b'/') { b'.' } else { byte }),
        1..=255,
    );
    text.prop_filter_map("neither . nor ..", |bytes| Name::parse(&bytes).ok())
}

pub(crate) fn xattr_name() -> impl Strategy<Value = XattrName> + Clone {
    vec(1u8.., 1..=255).prop_filter_map("a name", |bytes| XattrName::parse(&bytes).ok())
}

const REFERENCE: &str = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}";

pub(crate) fn branch_name() -> impl Strategy<Value = BranchName> + Clone {
    REFERENCE.prop_filter_map("a name", |text| BranchName::parse(&text).ok())
}

pub(crate) fn checkpoint_name() -> impl Strategy<Value = CheckpointName> + Clone {
    REFERENCE.prop_filter_map("a name", |text| CheckpointName::parse(&text).ok())
}

pub(crate) fn request_key() -> impl Strategy<Value = RequestKey> + Clone {
    "[!-~]{1,200}".prop_filter_map("a key", |text| RequestKey::parse(&text).ok())
}

prop_compose! {
    pub(crate) fn attr()(
        kind in kind(),
        mode in mode(),
        [nlink, uid, gid, rdev] in [short_number(), short_number(), short_number(), short_number()],
        [size, allocated, parent] in [number(), number(), number()],
        xattrs in 0u8..8,
        [atime, mtime, ctime, btime] in [time(), time(), time(), time()],
    ) -> Attr {
        let (parent, xattrs) = (Ino(parent), Xattrs(xattrs));
        Attr { kind, mode, nlink, uid, gid, rdev, size, allocated, parent, xattrs, atime, mtime, ctime, btime }
    }
}

prop_compose! {
    pub(crate) fn attr_change()(
        [mode, uid, gid] in [option::of(short_number()), option::of(short_number()), option::of(short_number())],
        size in option::of(number()),
        [atime, mtime] in [option::of(time()), option::of(time())],
    ) -> AttrChange {
        AttrChange { mode, uid, gid, size, atime, mtime }
    }
}

pub(crate) fn extent() -> impl Strategy<Value = Extent> + Clone {
    let max = limits::CHUNK_LEN_MAX as u32;
    let range = (1..=max).prop_flat_map(move |len| (0..=max - len, Just(len)));
    prop_oneof![
        (address(), range).prop_map(|(at, (start, len))| Extent::Chunk { at, start, len }),
        vec(any::<u8>(), 1..=limits::INLINE_LEN_MAX).prop_map(|bytes| Extent::Inline(bytes.into())),
    ]
}

pub(crate) fn piece() -> BoxedStrategy<Piece> {
    (extent(), number())
        .prop_map(|(extent, offset)| Piece {
            offset: offset.min(u64::MAX - extent.len()),
            extent,
        })
        .boxed()
}

prop_compose! {
    pub(crate) fn node()(
        kind in kind(),
        mode in mode(),
        [umask, uid, gid, rdev] in [short_number(), short_number(), short_number(), short_number()],
        target in vec(any::<u8>(), 0..40),
    ) -> NewNode {
        NewNode { kind, mode, umask, uid, gid, rdev, target: target.into() }
    }
}

pub(crate) fn rename_mode() -> impl Strategy<Value = RenameMode> + Clone {
    prop_oneof![
        Just(RenameMode::Replace),
        Just(RenameMode::NoReplace),
        Just(RenameMode::Exchange),
        ino().prop_map(RenameMode::Whiteout),
    ]
}

pub(crate) fn xattr_mode() -> impl Strategy<Value = XattrMode> + Clone {
    prop_oneof![
        Just(XattrMode::Set),
        Just(XattrMode::Create),
        Just(XattrMode::Replace)
    ]
}

pub(crate) fn op() -> BoxedStrategy<Op> {
    prop_oneof![entry_op(), content_op(), attribute_op()].boxed()
}

fn entry_op() -> BoxedStrategy<Op> {
    prop_oneof![
        (ino(), name(), ino(), node(), time()).prop_map(|(parent, name, ino, node, time)| Op::Create {
            parent,
            name,
            ino,
            node,
            time
        }),
        (ino(), ino(), node(), time()).prop_map(|(parent, ino, node, time)| Op::CreateUnnamed {
            parent,
            ino,
            node,
            time
        }),
        (ino(), ino(), name(), time()).prop_map(|(ino, parent, name, time)| Op::Link {
            ino,
            parent,
            name,
            time
        }),
        (ino(), name(), time()).prop_map(|(parent, name, time)| Op::Unlink { parent, name, time }),
        (ino(), name(), time()).prop_map(|(parent, name, time)| Op::Rmdir { parent, name, time }),
        (ino(), name(), ino(), name(), rename_mode(), time()).prop_map(
            |(from, name, to, new_name, mode, time)| Op::Rename {
                from,
                name,
                to,
                new_name,
                mode,
                time
            }
        ),
        ino().prop_map(|ino| Op::Drop { ino }),
    ]
    .boxed()
}

fn content_op() -> BoxedStrategy<Op> {
    let range = || (ino(), number(), number(), time());
    prop_oneof![
        (ino(), vec(piece(), 0..4), number(), option::of(time())).prop_map(|(ino, pieces, size, time)| {
            Op::Write {
                ino,
                pieces,
                size,
                time,
            }
        }),
        range().prop_map(|(ino, offset, len, time)| Op::Punch {
            ino,
            offset,
            len,
            time
        }),
        range().prop_map(|(ino, offset, len, time)| Op::Collapse {
            ino,
            offset,
            len,
            time
        }),
        range().prop_map(|(ino, offset, len, time)| Op::Insert {
            ino,
            offset,
            len,
            time
        }),
        (ino(), number(), ino(), number(), number(), time()).prop_map(
            |(from, from_offset, to, to_offset, len, time)| Op::Copy {
                from,
                from_offset,
                to,
                to_offset,
                len,
                time
            }
        ),
    ]
    .boxed()
}

fn attribute_op() -> BoxedStrategy<Op> {
    prop_oneof![
        (ino(), attr_change(), time()).prop_map(|(ino, change, time)| Op::SetAttr { ino, change, time }),
        (
            ino(),
            xattr_name(),
            vec(any::<u8>(), 0..200),
            xattr_mode(),
            time()
        )
            .prop_map(|(ino, name, value, mode, time)| Op::SetXattr {
                ino,
                name,
                value: value.into(),
                mode,
                time
            }),
        (ino(), xattr_name(), time()).prop_map(|(ino, name, time)| Op::RemoveXattr { ino, name, time }),
    ]
    .boxed()
}

pub(crate) fn chunk_place() -> BoxedStrategy<ChunkPlace> {
    let bytes = prop_oneof![
        (1..=limits::CHUNK_LEN_MAX as u32).prop_map(|len| (len, None)),
        vec(any::<u8>(), 1..200).prop_map(|bytes| (bytes.len() as u32, Some(bytes.into()))),
    ];
    (address(), number(), bytes)
        .prop_map(|(at, offset, (len, inline))| ChunkPlace {
            at,
            offset: offset.min(u64::MAX - u64::from(len)),
            len,
            inline,
        })
        .boxed()
}

pub(crate) fn batch() -> BoxedStrategy<Batch> {
    let ops =
        vec(op(), 0..4).prop_map(|ops| ops.iter().flat_map(tenure_model::codec::Codec::written).collect());
    (
        [number(), number(), number(), number()],
        digest(),
        vec(chunk_place(), 0..4),
        ops,
    )
        .prop_map(
            |([session, branch, epoch, number], previous, chunks, ops)| Batch {
                session: SessionId(session),
                branch: BranchId(branch),
                epoch: Epoch(epoch),
                number,
                previous,
                chunks,
                ops,
            },
        )
        .boxed()
}

pub(crate) fn source() -> BoxedStrategy<Source> {
    prop_oneof![
        number().prop_map(|branch| Source::Branch(BranchId(branch))),
        checkpoint_name().prop_map(Source::Checkpoint),
    ]
    .boxed()
}

pub(crate) fn record() -> BoxedStrategy<Record> {
    prop_oneof![drive_record(), session_record(), branch_record()].boxed()
}

fn drive_record() -> BoxedStrategy<Record> {
    (
        any::<[u8; 16]>(),
        branch_name(),
        short_number(),
        short_number(),
        time(),
    )
        .prop_map(|(hash_key, branch, uid, gid, time)| Record::DriveCreated {
            hash_key,
            branch,
            uid,
            gid,
            time,
        })
        .boxed()
}

fn session_record() -> BoxedStrategy<Record> {
    let session = number().prop_map(SessionId);
    prop_oneof![
        (session.clone(), ".{0,40}", any::<bool>(), time()).prop_map(|(session, who, hosted, time)| {
            Record::SessionOpened {
                session,
                who,
                hosted,
                time,
            }
        }),
        session
            .clone()
            .prop_map(|session| Record::SessionClosed { session }),
        (session.clone(), number(), number()).prop_map(|(session, branch, inos)| Record::Granted {
            session,
            branch: BranchId(branch),
            inos,
        }),
        (session.clone(), number()).prop_map(|(session, count)| Record::InosLent { session, count }),
        (session.clone(), number(), number()).prop_map(|(session, branch, inos)| Record::Joined {
            session,
            branch: BranchId(branch),
            inos,
        }),
        (session, number()).prop_map(|(session, branch)| Record::Left {
            session,
            branch: BranchId(branch)
        }),
        act().prop_map(Record::Act),
        (number(), number()).prop_map(|(branch, ino)| Record::Dropped {
            branch: BranchId(branch),
            ino: Ino(ino)
        }),
        number().prop_map(|branch| Record::Returned {
            branch: BranchId(branch)
        }),
        batch().prop_map(Record::Batch),
    ]
    .boxed()
}

fn act() -> BoxedStrategy<Act> {
    let id = (number(), number()).prop_map(|(session, number)| ActId {
        session: SessionId(session),
        number,
    });
    (id, number(), digest(), vec(chunk_place(), 0..3), op())
        .prop_map(|(id, branch, mark, chunks, op)| Act {
            id,
            branch: BranchId(branch),
            mark,
            chunks,
            op,
        })
        .boxed()
}

fn mark() -> BoxedStrategy<Mark> {
    let staged = number().prop_map(|into| Mark::Staged { into: BranchId(into) });
    prop_oneof![staged, Just(Mark::Protected)].boxed()
}

fn branch_record() -> BoxedStrategy<Record> {
    let branch = number().prop_map(BranchId);
    prop_oneof![
        (
            source(),
            branch_name(),
            time(),
            option::of(time()),
            option::of(request_key()),
            option::of((number(), ".{0,20}"))
        )
            .prop_map(|(from, name, time, until, key, staged)| Record::Forked {
                from,
                name,
                time,
                until,
                key,
                staged: staged.map(|(into, by)| Staging {
                    into: BranchId(into),
                    by
                }),
            }),
        (branch.clone(), branch_name()).prop_map(|(line, name)| Record::Renamed { line, name }),
        (number(), number()).prop_map(|(every_secs, keep_secs)| Record::Planned(Plan {
            every_secs,
            keep_secs
        })),
        vec((number(), any::<[u8; 8]>()), 0..4).prop_map(|objects| {
            let object = |(pack, tag)| PackObject {
                pack: PackNumber(pack),
                tag,
            };
            Record::Condemned(objects.into_iter().map(object).collect())
        }),
        (number(), number(), time()).prop_map(|(objects, bytes, time)| Record::Reclaimed(Reclaimed {
            objects,
            bytes,
            time
        })),
        (branch.clone(), option::of(mark()), ".{0,20}", time()).prop_map(|(branch, mark, by, time)| {
            Record::Marked(Marking {
                branch,
                mark,
                by,
                time,
            })
        }),
        branch.clone().prop_map(|branch| Record::BranchDeleted { branch }),
        (
            branch.clone(),
            checkpoint_name(),
            ".{0,40}",
            time(),
            option::of(time()),
            any::<bool>()
        )
            .prop_map(
                |(branch, name, message, time, until, is_owners)| Record::CheckpointMade {
                    branch,
                    name,
                    message,
                    time,
                    until,
                    maker: if is_owners { Maker::Owner } else { Maker::Asked },
                }
            ),
        checkpoint_name().prop_map(|name| Record::CheckpointDeleted { name }),
        (branch.clone(), branch_name(), time()).prop_map(|(branch, stray, time)| Record::Revoked {
            branch,
            stray,
            time,
        }),
        (number(), branch, branch_name(), time()).prop_map(|(session, branch, stray, time)| Record::Ousted {
            session: SessionId(session),
            branch,
            stray,
            time,
        }),
        turn().prop_map(Record::Turned),
    ]
    .boxed()
}

fn root() -> BoxedStrategy<Root> {
    (address(), number(), number())
        .prop_map(|(page, inodes, bytes)| Root { page, inodes, bytes })
        .boxed()
}

fn turn() -> BoxedStrategy<Turn> {
    let past = (number(), number(), number(), root()).prop_map(|(line, since, at, root)| Past {
        stretch: Stretch {
            line: BranchId(line),
            since: Seq(since),
        },
        at: Seq(at),
        root,
    });
    let path = || vec(any::<u8>(), 0..40).prop_map(Box::from);
    let why = prop_oneof![
        (".{0,20}", past.clone()).prop_map(|(from, past)| Why::Merged { from, past }),
        (".{0,20}", past).prop_map(|(to, past)| Why::Undone { to, past }),
        (path(), ".{0,20}").prop_map(|(path, from)| Why::Restored { path, from }),
        path().prop_map(|path| Why::Resolved { path }),
        (".{0,20}", vec(path(), 0..3)).prop_map(|(from, paths)| Why::Accepted { from, paths }),
    ];
    (number(), root(), number(), why, ".{0,40}", time())
        .prop_map(|(branch, to, inos, why, by, time)| Turn {
            branch: BranchId(branch),
            to,
            inos,
            why,
            by,
            time,
        })
        .boxed()
}

/// The bytes of one value of any kind, and a reader of that kind.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) bytes: Vec<u8>,
    pub(crate) kind: WrittenKind,
}

/// The kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrittenKind {
    Timestamp,
    Attr,
    AttrChange,
    Address,
    Extent,
    Piece,
    Node,
    RenameMode,
    XattrMode,
    Name,
    XattrName,
    Op,
    ChunkPlace,
    Batch,
    Source,
    Record,
}

impl WrittenKind {
    pub(crate) const ALL: [WrittenKind; 16] = [
        WrittenKind::Timestamp,
        WrittenKind::Attr,
        WrittenKind::AttrChange,
        WrittenKind::Address,
        WrittenKind::Extent,
        WrittenKind::Piece,
        WrittenKind::Node,
        WrittenKind::RenameMode,
        WrittenKind::XattrMode,
        WrittenKind::Name,
        WrittenKind::XattrName,
        WrittenKind::Op,
        WrittenKind::ChunkPlace,
        WrittenKind::Batch,
        WrittenKind::Source,
        WrittenKind::Record,
    ];

    /// Reads a value of this kind and returns what would be written for it.
    pub(crate) fn rewritten(self, bytes: &[u8]) -> Option<Vec<u8>> {
        fn rewritten<T: tenure_model::codec::Codec>(bytes: &[u8]) -> Option<Vec<u8>> {
            T::parsed(bytes).ok().map(|value| value.written())
        }
        match self {
            WrittenKind::Timestamp => rewritten::<Timestamp>(bytes),
            WrittenKind::Attr => rewritten::<Attr>(bytes),
            WrittenKind::AttrChange => rewritten::<AttrChange>(bytes),
            WrittenKind::Address => rewritten::<Address>(bytes),
            WrittenKind::Extent => rewritten::<Extent>(bytes),
            WrittenKind::Piece => rewritten::<Piece>(bytes),
            WrittenKind::Node => rewritten::<NewNode>(bytes),
            WrittenKind::RenameMode => rewritten::<RenameMode>(bytes),
            WrittenKind::XattrMode => rewritten::<XattrMode>(bytes),
            WrittenKind::Name => rewritten::<Name>(bytes),
            WrittenKind::XattrName => rewritten::<XattrName>(bytes),
            WrittenKind::Op => rewritten::<Op>(bytes),
            WrittenKind::ChunkPlace => rewritten::<ChunkPlace>(bytes),
            WrittenKind::Batch => rewritten::<Batch>(bytes),
            WrittenKind::Source => rewritten::<Source>(bytes),
            WrittenKind::Record => rewritten::<Record>(bytes),
        }
    }
}

pub(crate) fn written() -> impl Strategy<Value = Written> {
    fn of<T: tenure_model::codec::Codec + std::fmt::Debug>(
        kind: WrittenKind,
        value: impl Strategy<Value = T> + 'static,
    ) -> BoxedStrategy<Written> {
        value
            .prop_map(move |value| Written {
                bytes: value.written(),
                kind,
            })
            .boxed()
    }
    prop_oneof![
        1 => of(WrittenKind::Timestamp, time()),
        1 => of(WrittenKind::Attr, attr()),
        1 => of(WrittenKind::AttrChange, attr_change()),
        1 => of(WrittenKind::Extent, extent()),
        1 => of(WrittenKind::Piece, piece()),
        1 => of(WrittenKind::Node, node()),
        1 => of(WrittenKind::ChunkPlace, chunk_place()),
        1 => of(WrittenKind::Source, source()),
        4 => of(WrittenKind::Op, op()),
        2 => of(WrittenKind::Batch, batch()),
        3 => of(WrittenKind::Record, record()),
    ]
}
