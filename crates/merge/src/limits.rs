//! The bounds of a merge, each with its reason.

/// Bytes of a side that is merged by lines: longer files are made by programs, and nobody reads what became of their lines.
pub(crate) const TEXT_LEN_MAX: usize = 16 << 20;
/// Lines of a side: with more, files that share little would take minutes to compare.
pub(crate) const LINES_MAX: usize = 1 << 20;
/// Bytes of a side that is merged by structure: a lockfile of a large project has one.
pub(crate) const STRUCTURE_LEN_MAX: usize = 4 << 20;
/// Values of all sides: each takes some 250 bytes of memory with where it is written, and a large lockfile has 100,000.
pub(crate) const VALUES_MAX: usize = 1 << 19;
/// Tables of a file of TOML: the crate that reads them takes time by their square, half a second for these. A large lockfile has 3,000.
pub(crate) const TABLES_MAX: usize = 20_000;
/// How deep values may be in values: each level is a call deep, and people write ten.
pub(crate) const DEPTH_MAX: usize = 100;
/// Bytes from the beginning among which a file that is no text has a zero, as git decides it.
pub(crate) const PROBE_LEN: usize = 8000;
/// Bytes of a file of attributes; it is looked through for every file that is merged.
pub(crate) const ATTRIBUTES_LEN_MAX: usize = 256 << 10;
/// Rules of all files of attributes of a tree, for the same reason.
pub(crate) const RULES_MAX: usize = 10_000;
/// Bytes of a pattern: matching one takes as many steps as its length times the path's.
pub(crate) const PATTERN_LEN_MAX: usize = 512;
/// Bytes of a path as in `PATH_MAX`; no pattern fits a longer one.
pub(crate) const PATH_LEN_MAX: usize = 4096;
