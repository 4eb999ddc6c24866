//! Messages: one fixed one of each kind, and any number of arbitrary ones.

use crate::errors::errors;
use proptest::collection::vec;
use proptest::prelude::*;
use std::borrow::Cow;
use std::convert::Infallible;
use tenure_model::attr::Xattrs;
use tenure_model::{
    ActId, Address, Attr, Batch, BranchId, BranchName, CheckpointName, ChunkPlace, Digest, DriveName, Epoch,
    Failure, Ino, InoRange, Kind, Lock, LockFamily, LockKind, LockOwner, LockRange, Locked, Name, Op,
    PackNumber, SessionId, Timestamp, limits,
};
use tenure_wire::message::{Ask, Hello, Request, Response};
use tenure_wire::shared::{
    Brought, Deed, Entry, Heard, Kept, LockAsk, Look, Ordered, Place, Seen, Sharer, WriteAt,
};
use tenure_wire::{
    Access, BranchInfo, Chunk, Error, Hold, Lent, Room, SealedPack, Shared, Shipped, Status, Verified, Who,
};

pub(crate) fn who() -> Who {
    Who {
        agent: "ada".into(),
        host: "loom".into(),
        pid: 4711,
        purpose: "mount at /home/ada/work".into(),
        hosted: false,
    }
}

pub(crate) fn drive(name: &str) -> DriveName {
    DriveName::parse(name).expect("it is a name")
}

pub(crate) fn branch(name: &str) -> BranchName {
    BranchName::parse(name).expect("it is a name")
}

pub(crate) fn checkpoint(name: &str) -> CheckpointName {
    CheckpointName::parse(name).expect("it is a name")
}

pub(crate) fn address(number: u64) -> Address {
    Address {
        pack: PackNumber(number),
        digest: Digest([number as u8; 32]),
    }
}

pub(crate) fn chunk(bytes: &[u8]) -> Chunk<'_> {
    Chunk {
        digest: Digest::of(bytes),
        bytes,
    }
}

pub(crate) fn place(number: u64, len: u32) -> ChunkPlace {
    ChunkPlace {
        at: address(number),
        offset: 4096 * number,
        len,
        inline: None,
    }
}

pub(crate) fn batch(session: SessionId, number: u64) -> Batch {
    Batch {
        session,
        branch: BranchId(1),
        epoch: Epoch(3),
        number,
        previous: Digest([9; 32]),
        chunks: vec![place(5, 200)],
        ops: b"not looked at here".to_vec(),
    }
}

pub(crate) fn hello() -> Hello {
    Hello {
        drive: Some(drive("work")),
        who: who(),
        sessions: vec![SessionId(1), SessionId(300)],
        identity: None,
    }
}

pub(crate) fn sharer() -> Sharer {
    Sharer {
        session: SessionId(300),
        branch: BranchId(7),
    }
}

fn lock() -> Lock {
    Lock {
        ino: Ino(20),
        family: LockFamily::Flock,
        owner: LockOwner {
            session: SessionId(300),
            number: 1 << 40,
        },
        range: LockRange {
            first: 5,
            last: u64::MAX,
        },
        kind: LockKind::Exclusive,
        pid: 4711,
    }
}

fn write() -> Deed {
    Deed::Write {
        ino: Ino(20),
        at: WriteAt::End,
        bytes: Box::from(*b"bytes"),
        time: NOON,
    }
}

fn act(number: u64) -> ActId {
    ActId {
        session: SessionId(300),
        number,
    }
}

const NOON: Timestamp = Timestamp {
    secs: 1_790_000_000,
    nanos: 5,
};

fn looks() -> Vec<(&'static str, Look)> {
    let (ino, name) = (Ino(20), Name::parse(b"name").expect("it is a name"));
    vec![
        ("look at attributes", Look::Attr(ino)),
        ("look a name up", Look::Lookup { parent: ino, name }),
        (
            "look at a listing",
            Look::List {
                parent: ino,
                after: 1 << 50,
                len: 4096,
            },
        ),
        ("look at a target", Look::Target(ino)),
        (
            "look at an attribute",
            Look::Xattr {
                ino,
                name: Box::from(*b"user.k"),
            },
        ),
        ("look at attributes' names", Look::Xattrs(ino)),
        (
            "look at bytes",
            Look::Read {
                ino,
                offset: 1 << 40,
                len: 70_000,
            },
        ),
        ("look for data", Look::NextData(ino, 300)),
        ("look for a hole", Look::NextHole(ino, 300)),
        ("look at the whole", Look::Totals),
    ]
}

fn asks() -> Vec<(&'static str, Ask<'static>)> {
    let kept = |number, place| Kept {
        number,
        place,
        deed: write(),
    };
    let behind = Some(act(299));
    let (lock_asked, ticket) = (lock(), Some(5));
    let take = LockAsk::Take {
        lock: lock_asked,
        ticket,
    };
    let give_back = LockAsk::GiveBack {
        ino: Ino(20),
        family: LockFamily::Posix,
        owner: lock().owner,
        range: lock().range,
    };
    let mut asks = vec![
        (
            "act",
            Ask::Act {
                number: 300,
                deed: Cow::Owned(Deed::Op(Op::Drop { ino: Ino(20) })),
                hold: Hold::Open,
            },
        ),
        (
            "act of bytes",
            Ask::Act {
                number: 301,
                deed: Cow::Owned(write()),
                hold: Hold::No,
            },
        ),
        (
            "act of bytes at their place",
            Ask::Act {
                number: 302,
                deed: Cow::Owned(Deed::Write {
                    ino: Ino(20),
                    at: WriteAt::Offset(300),
                    bytes: Box::from(*b"bytes"),
                    time: NOON,
                }),
                hold: Hold::No,
            },
        ),
        ("hold", Ask::Hold(Ino(20))),
        ("let go", Ask::LetGo(vec![Ino(20), Ino(300)].into())),
        ("sync", Ask::Sync),
        ("lock", Ask::Lock(take)),
        ("lock: test", Ask::Lock(LockAsk::Test(lock()))),
        ("lock: give back", Ask::Lock(give_back)),
        ("lock: forget", Ask::Lock(LockAsk::Forget { ticket: 5 })),
        ("hear", Ask::Hear),
        (
            "rejoin",
            Ask::Rejoin(Cow::Owned(Brought {
                open: vec![Ino(20)],
                locks: vec![lock()],
                acts: vec![
                    kept(300, Some(Place { behind })),
                    kept(301, Some(Place { behind: None })),
                    kept(302, None),
                ],
                ..Brought::default()
            })),
        ),
    ];
    let looks = looks().into_iter();
    asks.extend(looks.map(|(name, look)| (name, Ask::Look(Cow::Owned(look), 0))));
    asks
}

fn shared_responses() -> Vec<(&'static str, Response<'static>)> {
    let attr = Attr {
        kind: Kind::File,
        mode: 0o644,
        nlink: 1,
        uid: 1000,
        gid: 100,
        rdev: 0,
        size: 300,
        allocated: 300,
        parent: Ino::ROOT,
        xattrs: Xattrs::default(),
        atime: NOON,
        mtime: NOON,
        ctime: NOON,
        btime: NOON,
    };
    let heard = Heard {
        tickets: vec![5, 300],
        demands: Vec::new(),
    };
    let entry = Entry {
        cookie: 1 << 50,
        ino: Ino(20),
        kind: Kind::Directory,
        name: Box::from(*b"name"),
    };
    vec![
        (
            "ordered",
            Response::Ordered(Ordered {
                behind: Some(act(299)),
                inode: Some((Ino(20), attr)),
            }),
        ),
        (
            "ordered as the first",
            Response::Ordered(Ordered {
                behind: None,
                inode: None,
            }),
        ),
        ("seen: an inode", Response::Seen(Seen::Inode(Ino(20), attr))),
        ("seen: entries", Response::Seen(Seen::Entries(vec![entry]))),
        ("seen: bytes", Response::Seen(Seen::Bytes(b"bytes".to_vec()))),
        ("seen: an offset", Response::Seen(Seen::Offset(300))),
        (
            "seen: the whole",
            Response::Seen(Seen::Totals {
                inodes: 12,
                bytes: 3456,
            }),
        ),
        ("locked", Response::Locked(Locked::Taken)),
        ("locked: in the way", Response::Locked(Locked::Blocked(lock()))),
        ("locked: queued", Response::Locked(Locked::Queued)),
        ("locked: deadlock", Response::Locked(Locked::Deadlock)),
        ("tickets", Response::Heard(heard)),
        (
            "lent, to be shared",
            Response::Lent(Lent {
                branch: Some(BranchId(7)),
                hash_key: [7; 16],
                inos: InoRange {
                    next: Ino(16),
                    end: Ino(1 << 20 | 16),
                },
                state: Shared::Kept,
            }),
        ),
    ]
}

/// One request of each kind.
pub(crate) fn requests() -> Vec<(&'static str, Request<'static>)> {
    let mut requests = of_sessions();
    requests.extend(of_drives());
    let asks = asks().into_iter();
    requests.extend(asks.map(|(name, ask)| (name, Request::Shared(sharer(), ask))));
    requests.extend(crate::leases::requests());
    requests.extend(crate::lent::requests());
    requests.extend(crate::differences::requests());
    requests.extend(crate::turns::requests());
    requests.extend(crate::lines::requests());
    requests
}

fn of_sessions() -> Vec<(&'static str, Request<'static>)> {
    let session = SessionId(300);
    vec![
        ("open", Request::Open(who())),
        ("close", Request::Close(session)),
        ("renew", Request::Renew(session)),
        (
            "lend exclusive",
            Request::Lend {
                session,
                name: "main",
                access: Access::Exclusive,
            },
        ),
        (
            "lend read",
            Request::Lend {
                session,
                name: "v1",
                access: Access::Read,
            },
        ),
        (
            "lend shared",
            Request::Lend {
                session,
                name: "main",
                access: Access::Shared,
            },
        ),
        ("lend inos", Request::LendInos(session)),
        (
            "give back",
            Request::GiveBack {
                session,
                branch: BranchId(7),
            },
        ),
        (
            "place",
            Request::Place {
                session,
                chunks: vec![chunk(b"first"), chunk(b"the second")],
            },
        ),
        (
            "secure",
            Request::Secure {
                session,
                places: vec![place(1, 300), place(2, 70_000)],
            },
        ),
        ("ship", Request::Ship(batch(session, 2))),
        ("page", Request::Page(address(5))),
        (
            "read",
            Request::Read {
                at: address(6),
                start: 100,
                len: 70_000,
            },
        ),
        ("sealed", Request::Sealed(PackNumber(5))),
        (
            "part",
            Request::Part {
                pack: PackNumber(5),
                tag: [9; 8],
                offset: 1 << 20,
                len: 2 << 20,
            },
        ),
        ("room", Request::Room),
    ]
}

fn of_drives() -> Vec<(&'static str, Request<'static>)> {
    vec![
        ("delete branch", Request::DeleteBranch(branch("try"))),
        ("branches", Request::Branches),
        ("status", Request::Status),
        ("fold", Request::Fold),
        ("check", Request::Check { deep: true }),
        (
            "control",
            Request::Control {
                verb: "status",
                arguments: b"{}",
            },
        ),
    ]
}

/// A branch that is lent whole.
pub(crate) fn lent() -> Lent<Infallible> {
    Lent {
        branch: Some(BranchId(1)),
        hash_key: [3; 16],
        inos: InoRange {
            next: Ino(16),
            end: Ino(1 << 20),
        },
        state: Shared::Stored {
            root: address(8),
            inodes: 12,
            bytes: 3456,
        },
    }
}

/// One response of each kind.
pub(crate) fn responses() -> Vec<(&'static str, Response<'static>)> {
    let mut responses = vec![
        ("done", Response::Done),
        ("opened", Response::Opened(crate::leases::opened())),
        ("lent", Response::Lent(lent())),
        (
            "inos",
            Response::Inos(InoRange {
                next: Ino(16),
                end: Ino(32),
            }),
        ),
        ("placed", Response::Placed(vec![place(5, 200), place(6, 1)])),
        (
            "shipped",
            Response::Shipped(Shipped {
                digest: Digest([4; 32]),
            }),
        ),
        ("bytes", Response::Bytes(b"of a page"[..].into())),
        (
            "room",
            Response::Room(Room {
                total: 1 << 40,
                free: 1 << 30,
            }),
        ),
        ("status", Response::Status(status())),
        ("status of a check", Response::Status(status_of_a_check())),
        ("findings", Response::Findings(vec!["pack 5 is short".into()])),
        (
            "sealed",
            Response::Sealed(vec![SealedPack {
                tag: [9; 8],
                len: 5 << 20,
            }]),
        ),
    ];
    responses.extend(shared_responses());
    responses.extend(crate::leases::responses());
    responses.extend(crate::lent::responses());
    responses.extend(crate::differences::responses());
    responses.extend(crate::turns::responses());
    responses.extend(crate::lines::responses());
    responses
}

pub(crate) fn branch_info() -> BranchInfo {
    BranchInfo {
        branch: Some(BranchId(1)),
        name: "main".into(),
        from: String::new(),
        made: NOON,
        inodes: 12,
        bytes: 3456,
        is_stray: false,
        holder: Some("ada on loom".into()),
        message: "before the upgrade".into(),
        line: None,
        base: None,
        until: None,
        is_automatic: false,
        by: None,
        mark: None,
    }
}

pub(crate) fn status() -> Status {
    Status {
        drive: "work".into(),
        epoch: Epoch(3),
        tier: "folder".into(),
        journal_bytes: 4096,
        requests: [("get".to_owned(), 3), ("put".to_owned(), 300)].into(),
        page_bytes: 1 << 20,
        pid: 4711,
        trouble: None,
        verified: None,
    }
}

fn status_of_a_check() -> Status {
    let (packs, of, bytes) = (3, 40, 300);
    Status {
        verified: Some(Verified { packs, of, bytes }),
        ..status()
    }
}

/// Makes something live as long as a test, so that a message can borrow it.
fn kept<T: ?Sized>(value: Box<T>) -> &'static T {
    Box::leak(value)
}

pub(crate) fn any_text() -> impl Strategy<Value = String> {
    ".{0,20}"
}

pub(crate) fn any_name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9._-]{0,30}"
}

fn any_address() -> impl Strategy<Value = Address> {
    (any::<u64>(), any::<[u8; 32]>()).prop_map(|(pack, digest)| Address {
        pack: PackNumber(pack),
        digest: Digest(digest),
    })
}

fn any_places() -> impl Strategy<Value = Vec<ChunkPlace>> {
    let lengths = (1..=limits::CHUNK_LEN_MAX as u32).prop_map(|len| (len, None));
    let inlines = vec(any::<u8>(), 1..50).prop_map(|bytes| (bytes.len() as u32, Some(bytes.into())));
    let one = (any_address(), any::<u32>(), prop_oneof![lengths, inlines]);
    let one = one.prop_map(|(at, offset, (len, inline))| ChunkPlace {
        at,
        offset: u64::from(offset) << 31,
        len,
        inline,
    });
    vec(one, 0..5)
}

fn any_batch() -> impl Strategy<Value = Batch> {
    (
        any::<[u64; 4]>(),
        any::<[u8; 32]>(),
        any_places(),
        vec(any::<u8>(), 0..200),
    )
        .prop_map(
            |([session, branch, epoch, number], previous, chunks, ops)| Batch {
                session: SessionId(session),
                branch: BranchId(branch),
                epoch: Epoch(epoch),
                number,
                previous: Digest(previous),
                chunks,
                ops,
            },
        )
}

/// Any request.
pub(crate) fn any_request() -> impl Strategy<Value = Request<'static>> {
    let session = any::<u64>().prop_map(SessionId);
    let text = || any_text().prop_map(|text| kept(text.into_boxed_str()));
    let bytes = || vec(any::<u8>(), 0..100).prop_map(|bytes| kept(bytes.into_boxed_slice()));
    let chunks = vec(bytes().prop_map(chunk), 0..5);
    prop_oneof![
        prop::sample::select(requests()).prop_map(|(_, request)| request),
        (session.clone(), text()).prop_map(|(session, name)| Request::Lend {
            session,
            name,
            access: Access::Read
        }),
        (session.clone(), chunks).prop_map(|(session, chunks)| Request::Place { session, chunks }),
        any_batch().prop_map(Request::Ship),
        any_address().prop_map(Request::Page),
        (any_address(), any::<u32>(), any::<u32>()).prop_map(|(at, start, len)| Request::Read {
            at,
            start,
            len
        }),
        crate::lines::any_request(),
        (text(), bytes()).prop_map(|(verb, arguments)| Request::Control { verb, arguments }),
        (any_text(), any_text(), any::<u32>(), any::<bool>()).prop_map(|(agent, purpose, pid, hosted)| {
            Request::Open(Who {
                agent,
                host: "h".into(),
                pid,
                purpose,
                hosted,
            })
        }),
    ]
}

/// Any outcome of a call.
pub(crate) fn any_outcome() -> impl Strategy<Value = Result<Response<'static>, Error>> {
    prop_oneof![
        prop::sample::select(responses()).prop_map(|(_, response)| Ok(response)),
        prop::sample::select(errors()).prop_map(|(_, error)| Err(error)),
        any_places().prop_map(|places| Ok(Response::Placed(places))),
        vec(any::<u8>(), 0..300).prop_map(|bytes| Ok(Response::Bytes(bytes.into()))),
        vec(any_text(), 0..5).prop_map(|findings| Ok(Response::Findings(findings))),
        any_text().prop_map(|text| Err(Failure::Corrupt(text).into())),
        (
            any::<i64>(),
            0..1_000_000_000u32,
            any::<[u64; 2]>(),
            prop::option::of(any_text())
        )
            .prop_map(|(secs, nanos, [inodes, bytes], holder)| {
                let made = Timestamp { secs, nanos };
                Ok(Response::Branches(vec![BranchInfo {
                    made,
                    inodes,
                    bytes,
                    holder,
                    ..branch_info()
                }]))
            }),
    ]
}
