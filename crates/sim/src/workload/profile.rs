//! Profiles: kinds of programs, as how often they do what.

/// A kind of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Many small files, made, changed and removed.
    SmallFiles,
    /// Few files that are written page by page and synced, with a log that grows and is cut.
    Database,
    /// Files that are written anew beside the old ones and renamed over them.
    Savers,
    /// Few large files, written in bulk, copied, punched and cut.
    BigFiles,
    /// Directories in directories, moved about.
    DeepTrees,
    /// Everything.
    Mixed,
}

/// What a step is about, to be chosen by weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    Create,
    Mkdir,
    Unnamed,
    Link,
    Unlink,
    Rmdir,
    Rename,
    Attribute,
    Xattr,
    Drop,
    Write,
    Append,
    Resize,
    Range,
    Copy,
    Sync,
    SyncAll,
    Read,
    Look,
    Compare,
    Pass,
    Jump,
    Idle,
    Branches,
    Inspect,
    Remount,
    Reopen,
    Switch,
    Rival,
    Fold,
    Check,
    Crash,
    Trouble,
}

/// How often a topic comes up: for small files, databases, savers, big files, deep trees, and everything.
const WEIGHTS: &[(Topic, [u64; 6])] = &[
    (Topic::Create, [60, 4, 30, 6, 30, 40]),
    (Topic::Mkdir, [8, 1, 2, 1, 40, 10]),
    (Topic::Unnamed, [3, 0, 3, 1, 0, 3]),
    (Topic::Link, [6, 0, 6, 1, 6, 6]),
    (Topic::Unlink, [25, 1, 6, 2, 10, 15]),
    (Topic::Rmdir, [4, 0, 0, 0, 12, 5]),
    (Topic::Rename, [10, 2, 50, 2, 40, 25]),
    (Topic::Attribute, [6, 1, 4, 1, 8, 6]),
    (Topic::Xattr, [5, 0, 2, 1, 3, 5]),
    (Topic::Drop, [4, 1, 4, 2, 2, 4]),
    (Topic::Write, [60, 120, 60, 40, 15, 60]),
    (Topic::Append, [15, 30, 15, 30, 5, 20]),
    (Topic::Resize, [6, 6, 4, 6, 1, 8]),
    (Topic::Range, [2, 4, 2, 14, 1, 6]),
    (Topic::Copy, [3, 2, 3, 12, 1, 6]),
    (Topic::Sync, [8, 40, 14, 6, 8, 14]),
    (Topic::SyncAll, [2, 1, 2, 2, 3, 2]),
    (Topic::Read, [20, 30, 15, 15, 8, 20]),
    (Topic::Look, [15, 3, 10, 3, 15, 12]),
    (Topic::Compare, [1, 1, 1, 1, 1, 1]),
    (Topic::Pass, [14, 10, 20, 14, 14, 14]),
    (Topic::Jump, [1, 1, 1, 1, 1, 1]),
    (Topic::Idle, [1, 1, 1, 1, 1, 1]),
    (Topic::Branches, [3, 2, 3, 3, 3, 4]),
    (Topic::Inspect, [2, 1, 2, 2, 2, 3]),
    (Topic::Remount, [1, 1, 1, 1, 1, 2]),
    (Topic::Reopen, [1, 1, 1, 1, 1, 2]),
    (Topic::Switch, [4, 3, 4, 3, 4, 6]),
    (Topic::Rival, [2, 2, 2, 2, 2, 3]),
    (Topic::Fold, [2, 2, 2, 2, 2, 3]),
    (Topic::Check, [1, 1, 1, 1, 1, 1]),
    (Topic::Crash, [3, 3, 3, 3, 3, 4]),
    (Topic::Trouble, [3, 3, 3, 3, 3, 4]),
];

impl Profile {
    /// Every profile.
    pub const ALL: [Profile; 6] = [
        Profile::SmallFiles,
        Profile::Database,
        Profile::Savers,
        Profile::BigFiles,
        Profile::DeepTrees,
        Profile::Mixed,
    ];

    pub(super) fn topic(self, random: &mut crate::random::Random) -> Topic {
        let weights = WEIGHTS.iter().map(|(_, weights)| weights[self as usize]);
        WEIGHTS[random.weighted(weights)].0
    }

    /// Returns how many bytes a write has, chosen at random.
    pub(super) fn write_len(self, random: &mut crate::random::Random) -> usize {
        let (small, middle, large) = match self {
            Profile::SmallFiles | Profile::Savers => (50, 48, 2),
            Profile::Database => (10, 90, 0),
            Profile::BigFiles => (10, 40, 50),
            Profile::DeepTrees => (90, 10, 0),
            Profile::Mixed => (40, 50, 10),
        };
        let len = match random.weighted([small, middle, large].into_iter()) {
            0 => random.between(1, 300),
            1 if self == Profile::Database => 4096,
            1 => random.between(300, 40_000),
            _ => random.between(40_000, 2_500_000),
        };
        len as usize
    }

    /// Returns how many files there may be before more are removed than made.
    pub(super) fn files_max(self) -> usize {
        match self {
            Profile::SmallFiles | Profile::Mixed => 120,
            Profile::DeepTrees => 80,
            Profile::Savers => 30,
            Profile::Database | Profile::BigFiles => 6,
        }
    }

    /// Returns how many steps its worlds have.
    pub(crate) fn steps(self) -> u64 {
        match self {
            Profile::SmallFiles | Profile::Savers | Profile::DeepTrees | Profile::Mixed => 700,
            Profile::Database => 500,
            Profile::BigFiles => 250,
        }
    }
}
