//! The bytes of every row, as they were written first. A file under `tests/golden/` is added and never changed.

use super::super::ancestry::Edge;
use super::super::sharing::Mark;
use super::*;
use std::fmt::Debug;
use std::path::PathBuf;
use tenure_model::ActId;

const NOON: Timestamp = Timestamp {
    secs: 1_795_867_200,
    nanos: 999_999_999,
};

fn digest(first: u8) -> Digest {
    Digest(std::array::from_fn(|at| first.wrapping_add(at as u8)))
}

/// Holds a row and its key against the golden file: a line with the key, a line with the row.
fn golden<T: Codec + PartialEq + Debug>(name: &str, key: &[u8], row: &T) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format!("{name}.hex"));
    let text = std::fs::read_to_string(&path).expect("the golden file is there");
    let lines: Vec<Vec<u8>> = text.lines().map(bytes).collect();
    assert_eq!(lines.len(), 2, "{name} is a key and a row");
    assert_eq!(key, lines[0], "the key of {name}");
    assert_eq!(row.written(), lines[1], "{name} is written as ever");
    assert_eq!(T::parsed(&lines[1]).as_ref(), Ok(row), "{name} is read as ever");
    for len in 0..lines[1].len() {
        // What is left may be a row as it was before something was added.
        let cut = T::parsed(&lines[1][..len]);
        assert!(
            cut.is_err() || cut.is_ok_and(|row| row.written() == lines[1][..len]),
            "{name} cut to {len} bytes is refused"
        );
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex
        .chars()
        .map(|digit| digit.to_digit(16).expect("a hex digit"))
        .collect();
    digits
        .chunks_exact(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8)
        .collect()
}

fn branch() -> Line {
    Line {
        name: "main".into(),
        kind: LineKind::Branch,
        from: String::new(),
        made: NOON,
        root: None,
        totals: Totals { inodes: 1, bytes: 0 },
        base: None,
        until: None,
        key: None,
        is_changed: false,
        by: None,
    }
}

#[test]
fn rows_are_written_as_ever() {
    let head = Head {
        hash_key: [7; 16],
        next_line: BranchId(300),
        next_ino: Ino(1 << 40),
        made: NOON,
    };
    golden("head", &head_key(), &head);
    golden("line_branch", &line_key(BranchId(1)), &branch());
    let checkpoint = Line {
        name: "good".into(),
        kind: LineKind::Checkpoint {
            message: "it works".into(),
            maker: Maker::Asked,
        },
        from: "branch main".into(),
        root: Some(Address {
            pack: PackNumber(1 << 24 | 2),
            digest: digest(0x10),
        }),
        totals: Totals {
            inodes: 1_000_000,
            bytes: 1 << 40,
        },
        ..branch()
    };
    golden("line_checkpoint", &line_key(BranchId(300)), &checkpoint);
    let stray = Line {
        name: "stray-main-box-1-301".into(),
        kind: LineKind::Stray {
            of: BranchId(1),
            by: SessionId(1 << 24 | 1),
            base: 300,
        },
        from: "branch main of ada on box-1 (process 42, mount at /work)".into(),
        ..branch()
    };
    golden("line_stray", &line_key(BranchId(301)), &stray);
    golden("name", &name_key("main"), &1u64);
    let grant = Grant {
        session: SessionId(1 << 24 | 1),
        number: 300,
        digest: digest(0x20),
    };
    golden("grant", &grant_key(BranchId(1)), &grant);
    let lent = |next, end| {
        Lent(InoRange {
            next: Ino(next),
            end: Ino(end),
        })
    };
    let session = Session {
        who: "ada on box-1 (process 42, mount at /work)".into(),
        hosted: true,
        is_over: false,
        opened: NOON,
        inos: vec![lent(16, 1 << 20 | 16), lent(1 << 30, 1 << 31)],
    };
    golden("session", &session_key(SessionId(1 << 24 | 1)), &session);
    let over = Session {
        hosted: false,
        is_over: true,
        ..session
    };
    golden("session_over", &session_key(SessionId(1 << 24 | 1)), &over);
    let pack = Pack {
        tag: [1, 2, 3, 4, 5, 6, 7, 8],
    };
    golden("pack", &pack_key(PackNumber(1 << 24 | 2)), &pack);
    let recent = super::super::recent::Recent::of(300, [digest(0x30), digest(0x40)]);
    golden("recent", &recent_key(BranchId(1)), &recent);
    let act = |number| ActId {
        session: SessionId(1 << 24 | 1),
        number,
    };
    let mark = |number, behind| Mark {
        number,
        digest: digest(0x50),
        behind,
    };
    let marks = [mark(299, None), mark(300, Some(act(299)))];
    let sharing = Sharing::of(SessionId(1 << 24 | 1), marks, act(300));
    golden("sharing", &sharing_key(BranchId(1)), &sharing);
    let session = SessionId(1 << 24 | 1);
    let sharing = sharing.with_chain(session, Recent::of(1, [digest(0x30), digest(0x40)]));
    golden("sharing_shipped", &sharing_key(BranchId(1)), &sharing);
}

#[test]
fn rows_about_what_goes_by_itself_are_written_as_ever() {
    let key = RequestKey::parse("job-7/try-3").expect("it is one");
    let fork = Line {
        name: "try-3".into(),
        from: "branch main".into(),
        base: Some(BranchId(300)),
        until: Some(NOON),
        key: Some(key.clone()),
        ..branch()
    };
    golden("line_fork_for_a_time", &line_key(BranchId(302)), &fork);
    let hidden = Line {
        kind: LineKind::Checkpoint {
            message: String::new(),
            maker: Maker::Owner,
        },
        key: None,
        by: Some("ada on box-1".into()),
        ..fork
    };
    golden("line_checkpoint_of_the_owner", &line_key(BranchId(303)), &hidden);
    let changed = Line {
        is_changed: true,
        ..branch()
    };
    golden("line_changed", &line_key(BranchId(304)), &changed);
    let plan = Plan {
        every_secs: 600,
        keep_secs: 86_400,
    };
    golden("plan", &plan_key(), &plan);
    let object = PackObject {
        pack: PackNumber(1 << 24 | 2),
        tag: [0xfe; 8],
    };
    golden("condemned", &condemned_key(object), &70_000u64);
    assert_eq!(condemned_of(&condemned_key(object)), object);
    let reclaimed = Reclaimed {
        objects: 300,
        bytes: 1 << 40,
        time: NOON,
    };
    golden("reclaimed", &reclaimed_key(), &reclaimed);
    let marking = tenure_model::Marking {
        branch: BranchId(2),
        mark: Some(tenure_model::Mark::Staged { into: BranchId(1) }),
        by: "ada on box-1".into(),
        time: Timestamp { secs: 1, nanos: 2 },
    };
    golden("mark", &mark_key(BranchId(2)), &marking);
    let keyed = Keyed {
        line: BranchId(302),
        asked: digest(0x60),
    };
    golden("key", &request_key(&key), &keyed);
}

#[test]
fn rows_of_a_later_version_are_refused() {
    let head = Head {
        hash_key: [7; 16],
        next_line: BranchId(2),
        next_ino: Ino(16),
        made: NOON,
    };
    let mut bytes = head.written();
    bytes[0] += 1;
    let refused = Head::parsed(&bytes).expect_err("the version is another");
    assert!(refused.to_string().contains("another version"), "{refused}");
}

#[test]
fn keys_of_one_kind_are_adjacent_and_in_order() {
    let keys = [
        head_key().to_vec(),
        line_key(BranchId(1)).to_vec(),
        line_key(BranchId(256)).to_vec(),
        name_key("a"),
        name_key("main"),
        grant_key(BranchId(0)).to_vec(),
        session_key(SessionId(0)).to_vec(),
        pack_key(PackNumber(u64::MAX)).to_vec(),
    ];
    assert!(keys.is_sorted());
    for ((from, to), key) in [
        (LINES, &keys[1]),
        (GRANTS, &keys[5]),
        (SESSIONS, &keys[6]),
        (PACKS, &keys[7]),
    ] {
        assert!(from <= &key[..] && &key[..] < to);
    }
    assert_eq!(number_of(&keys[2]), 256);
}

#[test]
fn what_is_no_row_is_refused() {
    let line = Line {
        root: Some(Address {
            pack: PackNumber(1),
            digest: digest(0),
        }),
        ..branch()
    };
    assert_eq!(leads_to(&line_key(BranchId(1)), &line.written()), Ok(line.root));
    assert!(
        leads_to(&line_key(BranchId(1)), &branch().written()).is_err(),
        "a stored line has a root"
    );
    assert!(
        leads_to(&line_key(BranchId(1))[..8], &line.written()).is_err(),
        "its key has a number"
    );
    assert!(leads_to(&grant_key(BranchId(1)), &line.written()).is_err());
    assert!(leads_to(&[9], &[]).is_err());
    assert!(leads_to(&[], &[]).is_err());
}

#[test]
fn rows_of_histories_are_written_as_ever() {
    golden("stretch", &stretch_key(BranchId(300)), &70_000u64);
    let stretch = Stretch {
        line: BranchId(300),
        since: Seq(70_000),
    };
    let edge = Edge {
        of: Stretch {
            line: BranchId(1),
            since: Seq(0),
        },
        at: Seq(80_000),
        root: Some(Address {
            pack: PackNumber(1 << 24 | 2),
            digest: digest(0x10),
        }),
        totals: Totals {
            inodes: 1_000_000,
            bytes: 1 << 40,
        },
    };
    golden("edge", &edge_key(stretch, Seq(80_001)), &edge);
    assert_eq!(edge_of(&edge_key(stretch, Seq(80_001))), (stretch, Seq(80_001)));
}
