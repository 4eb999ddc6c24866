//! The rows of the state's tree: which there are, their keys and their bytes (`docs/FORMAT.md`, "Drive state").
//!
//! Invariant: a row's key begins with the byte of its kind, and numbers in keys are big-endian, so that rows of one
//! kind are adjacent and in order.

use super::ancestry::Edge;
use super::recent::Recent;
use super::sharing::Sharing;
use tenure_core::Totals;
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_list, put_option, put_varint};
use tenure_model::record::{Maker, Plan};
use tenure_model::{
    Address, BranchId, Digest, Ino, InoRange, Marking, PackNumber, PackObject, Reclaimed, RequestKey, Seq,
    SessionId, Stretch, Timestamp,
};

const HEAD: u8 = 0;
const LINE: u8 = 1;
const NAME: u8 = 2;
const GRANT: u8 = 3;
const SESSION: u8 = 4;
const PACK: u8 = 5;
const RECENT: u8 = 6;
const SHARING: u8 = 7;
const STRETCH: u8 = 8;
const EDGE: u8 = 9;
const KEY: u8 = 10;
const PLAN: u8 = 11;
const CONDEMNED: u8 = 20;
const RECLAIMED: u8 = 21;
const MARK: u8 = 24;

/// The version of all rows; a state of a later one is refused.
const VERSION: u8 = 1;

/// Key of the one row about the drive itself.
pub(crate) fn head_key() -> [u8; 1] {
    [HEAD]
}

/// Key of a branch or checkpoint.
pub(crate) fn line_key(id: BranchId) -> [u8; 9] {
    numbered(LINE, id.0)
}

/// Key of the number that a name stands for.
pub(crate) fn name_key(name: &str) -> Vec<u8> {
    [&[NAME], name.as_bytes()].concat()
}

/// Key of who holds a branch.
pub(crate) fn grant_key(branch: BranchId) -> [u8; 9] {
    numbered(GRANT, branch.0)
}

/// Key of a session.
pub(crate) fn session_key(session: SessionId) -> [u8; 9] {
    numbered(SESSION, session.0)
}

/// Key of a sealed pack.
pub(crate) fn pack_key(pack: PackNumber) -> [u8; 9] {
    numbered(PACK, pack.0)
}

/// Key of the latest batches of a branch's grant.
pub(crate) fn recent_key(branch: BranchId) -> [u8; 9] {
    numbered(RECENT, branch.0)
}

/// Key of how a branch is shared.
pub(crate) fn sharing_key(branch: BranchId) -> [u8; 9] {
    numbered(SHARING, branch.0)
}

/// Key of the record that has put a line back to an earlier state.
pub(crate) fn stretch_key(line: BranchId) -> [u8; 9] {
    numbered(STRETCH, line.0)
}

/// Key of what is in a stretch from a record on.
pub(crate) fn edge_key(stretch: Stretch, from: Seq) -> [u8; 25] {
    let mut key = [EDGE; 25];
    for (at, number) in [stretch.line.0, stretch.since.0, from.0].into_iter().enumerate() {
        key[1 + 8 * at..9 + 8 * at].copy_from_slice(&number.to_be_bytes());
    }
    key
}

/// Returns the stretch and the record in a key of an edge.
pub(crate) fn edge_of(key: &[u8]) -> (Stretch, Seq) {
    let number = |at: usize| {
        let bytes = key[1 + 8 * at..9 + 8 * at].try_into();
        u64::from_be_bytes(bytes.expect("keys of edges are 25 bytes"))
    };
    let stretch = Stretch {
        line: BranchId(number(0)),
        since: Seq(number(1)),
    };
    (stretch, Seq(number(2)))
}

/// Key of what a request was that had a key.
pub(crate) fn request_key(key: &RequestKey) -> Vec<u8> {
    [&[KEY], key.as_str().as_bytes()].concat()
}

/// Key of the plan by which the owner makes checkpoints by itself.
pub(crate) fn plan_key() -> [u8; 1] {
    [PLAN]
}

/// Key of an object of a pack that was given up.
pub(crate) fn condemned_key(object: PackObject) -> [u8; 17] {
    let mut key = [CONDEMNED; 17];
    key[1..9].copy_from_slice(&object.pack.0.to_be_bytes());
    key[9..].copy_from_slice(&object.tag);
    key
}

/// Returns the object in such a key.
pub(crate) fn condemned_of(key: &[u8]) -> PackObject {
    let (pack, tag) = key[1..].split_at(8);
    PackObject {
        pack: PackNumber(u64::from_be_bytes(
            pack.try_into().expect("keys of objects are 17 bytes"),
        )),
        tag: tag.try_into().expect("keys of objects are 17 bytes"),
    }
}

/// Key of how much was given up since the drive was made.
pub(crate) fn reclaimed_key() -> [u8; 1] {
    [RECLAIMED]
}

/// Key of what is said of a branch.
pub(crate) fn mark_key(branch: BranchId) -> [u8; 9] {
    numbered(MARK, branch.0)
}

/// First keys of the kinds, and what is behind the last of them.
pub(crate) const LINES: (&[u8], &[u8]) = (&[LINE], &[NAME]);
pub(crate) const NAMES: (&[u8], &[u8]) = (&[NAME], &[GRANT]);
pub(crate) const GRANTS: (&[u8], &[u8]) = (&[GRANT], &[SESSION]);
pub(crate) const SESSIONS: (&[u8], &[u8]) = (&[SESSION], &[PACK]);
pub(crate) const PACKS: (&[u8], &[u8]) = (&[PACK], &[RECENT]);
pub(crate) const RECENTS: (&[u8], &[u8]) = (&[RECENT], &[SHARING]);
pub(crate) const SHARINGS: (&[u8], &[u8]) = (&[SHARING], &[STRETCH]);
pub(crate) const EDGES: (&[u8], &[u8]) = (&[EDGE], &[EDGE + 1]);
pub(crate) const MARKS: (&[u8], &[u8]) = (&[MARK], &[MARK + 1]);
pub(crate) const KEYS: (&[u8], &[u8]) = (&[KEY], &[KEY + 1]);
pub(crate) const CONDEMNED_ONES: (&[u8], &[u8]) = (&[CONDEMNED], &[CONDEMNED + 1]);

fn numbered(kind: u8, number: u64) -> [u8; 9] {
    let mut key = [kind; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Returns the number in a key of a numbered row.
pub(crate) fn number_of(key: &[u8]) -> u64 {
    u64::from_be_bytes(key[1..].try_into().expect("keys of numbered rows are nine bytes"))
}

/// Returns the root page of the tree that a row leads to, if it leads to one; refuses a row that is none: a key of no kind, or a value that
/// is not of the key's kind. What recovery begins with and what is kept for it are both found by this.
pub(crate) fn leads_to(key: &[u8], value: &[u8]) -> Result<Option<Address>, Malformed> {
    let is_numbered = key.len() == 9;
    let looked_at = match key.first() {
        Some(&LINE) if is_numbered => {
            let root = Line::parsed(value)?.root;
            return root.ok_or(malformed("line: it has no root")).map(Some);
        }
        Some(&EDGE) if key.len() == 25 => {
            let root = Edge::parsed(value)?.root;
            return root.ok_or(malformed("edge: it has no root")).map(Some);
        }
        Some(&HEAD) if key.len() == 1 => Head::parsed(value).map(drop),
        Some(&NAME) => u64::parsed(value).map(drop),
        Some(&GRANT) if is_numbered => Grant::parsed(value).map(drop),
        Some(&SESSION) if is_numbered => Session::parsed(value).map(drop),
        Some(&PACK) if is_numbered => Pack::parsed(value).map(drop),
        Some(&RECENT) if is_numbered => Recent::parsed(value).map(drop),
        Some(&SHARING) if is_numbered => Sharing::parsed(value).map(drop),
        Some(&STRETCH) if is_numbered => u64::parsed(value).map(drop),
        Some(&KEY) => Keyed::parsed(value).map(drop),
        Some(&PLAN) if key.len() == 1 => Plan::parsed(value).map(drop),
        Some(&CONDEMNED) if key.len() == 17 => u64::parsed(value).map(drop),
        Some(&RECLAIMED) if key.len() == 1 => Reclaimed::parsed(value).map(drop),
        Some(&MARK) if is_numbered => Marking::parsed(value).map(drop),
        Some(_) | None => Err(malformed("row: it is of no kind")),
    };
    looked_at.map(|()| None)
}

/// What there is about the drive itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Keys the hash of names in directories.
    pub(crate) hash_key: [u8; 16],
    /// The number that the next branch or checkpoint gets.
    pub(crate) next_line: BranchId,
    /// The first inode number that was never lent.
    pub(crate) next_ino: Ino,
    /// When the drive was made.
    pub(crate) made: Timestamp,
}

impl Codec for Head {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        out.extend_from_slice(&self.hash_key);
        put_varint(out, self.next_line.0);
        put_varint(out, self.next_ino.0);
        self.made.write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        if input.byte()? != VERSION {
            return Err(malformed("drive state: it is of another version"));
        }
        Ok(Self {
            hash_key: input.take(16)?.try_into().expect("16 bytes were taken"),
            next_line: BranchId(input.varint()?),
            next_ino: Ino(input.varint()?),
            made: Timestamp::read(input)?,
        })
    }
}

/// A branch, or a checkpoint: a state that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Its name; branches and checkpoints share one set of names.
    pub(crate) name: String,
    /// Which of the two it is.
    pub(crate) kind: LineKind,
    /// What it was made from, in words; empty for the first branch.
    pub(crate) from: String,
    /// When it was made.
    pub(crate) made: Timestamp,
    /// Its root page as the last fold wrote it; none before the first.
    pub(crate) root: Option<Address>,
    /// What it held then.
    pub(crate) totals: Totals,
    /// The line that it was made from; none of the first one, and where an earlier version made it.
    pub(crate) base: Option<BranchId>,
    /// From when on it goes by itself, once nobody holds it.
    pub(crate) until: Option<Timestamp>,
    /// The key of the request that made it.
    pub(crate) key: Option<RequestKey>,
    /// Whether it was changed since the owner has made a checkpoint of it by itself, or since it was made.
    pub(crate) is_changed: bool,
    /// Of a checkpoint, who held or shared its branch then, in words.
    pub(crate) by: Option<String>,
}

/// Flags of what stands behind a line that an earlier version would have written.
const HAS_BASE: u8 = 1;
const HAS_END: u8 = 2;
const HAS_KEY: u8 = 4;
const CHANGED: u8 = 8;
const HAS_HOLDER: u8 = 16;

/// Whether a line still changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// It does.
    Branch,
    /// It does not.
    Checkpoint {
        /// What it is for, in words.
        message: String,
        /// Who has it made.
        maker: Maker,
    },
    /// It does: it began as what a branch was when that was taken from its holder.
    Stray {
        /// The branch, as its holder's batches name it.
        of: BranchId,
        /// The session that had held it.
        by: SessionId,
        /// The last batch that was accepted before.
        base: u64,
    },
}

impl LineKind {
    /// Tells whether it can be changed.
    pub(crate) fn is_branch(&self) -> bool {
        match self {
            LineKind::Branch | LineKind::Stray { .. } => true,
            LineKind::Checkpoint { .. } => false,
        }
    }

    /// Returns what it is called.
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            LineKind::Branch => "branch",
            LineKind::Checkpoint { .. } => "checkpoint",
            LineKind::Stray { .. } => "stray",
        }
    }
}

impl Codec for Line {
    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.name.as_bytes());
        match &self.kind {
            LineKind::Branch => out.push(0),
            LineKind::Checkpoint { message, maker } => {
                out.push(match maker {
                    Maker::Asked => 1,
                    Maker::Owner => 3,
                });
                put_bytes(out, message.as_bytes());
            }
            LineKind::Stray { of, by, base } => {
                out.push(2);
                [of.0, by.0, *base]
                    .into_iter()
                    .for_each(|number| put_varint(out, number));
            }
        }
        put_bytes(out, self.from.as_bytes());
        self.made.write(out);
        put_option(out, self.root.as_ref());
        put_varint(out, self.totals.inodes);
        put_varint(out, self.totals.bytes);
        self.write_rest(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let name = input.text()?.to_owned();
        let kind = match input.byte()? {
            0 => LineKind::Branch,
            1 => LineKind::Checkpoint {
                message: input.text()?.to_owned(),
                maker: Maker::Asked,
            },
            2 => LineKind::Stray {
                of: BranchId(input.varint()?),
                by: SessionId(input.varint()?),
                base: input.varint()?,
            },
            3 => LineKind::Checkpoint {
                message: input.text()?.to_owned(),
                maker: Maker::Owner,
            },
            _ => return Err(malformed("kind of a line")),
        };
        let line = Self {
            name,
            kind,
            from: input.text()?.to_owned(),
            made: Timestamp::read(input)?,
            root: input.option()?,
            totals: Totals {
                inodes: input.varint()?,
                bytes: input.varint()?,
            },
            base: None,
            until: None,
            key: None,
            is_changed: false,
            by: None,
        };
        line.with_rest(input)
    }
}

impl Line {
    /// Writes what earlier versions did not know; nothing where there is nothing of it, as they wrote it.
    fn write_rest(&self, out: &mut Vec<u8>) {
        let flags = [
            (self.base.is_some(), HAS_BASE),
            (self.until.is_some(), HAS_END),
            (self.key.is_some(), HAS_KEY),
            (self.is_changed, CHANGED),
            (self.by.is_some(), HAS_HOLDER),
        ];
        let flags: u8 = flags.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum();
        if flags == 0 {
            return;
        }
        out.push(flags);
        if let Some(base) = self.base {
            put_varint(out, base.0);
        }
        if let Some(until) = &self.until {
            until.write(out);
        }
        if let Some(key) = &self.key {
            key.write(out);
        }
        if let Some(by) = &self.by {
            put_bytes(out, by.as_bytes());
        }
    }

    fn with_rest(mut self, input: &mut Reader<'_>) -> Result<Self, Malformed> {
        if input.is_empty() {
            return Ok(self);
        }
        let flags = input.byte()?;
        if flags == 0 || flags & !(HAS_BASE | HAS_END | HAS_KEY | CHANGED | HAS_HOLDER) != 0 {
            return Err(malformed("flags of a line"));
        }
        if flags & HAS_BASE != 0 {
            self.base = Some(BranchId(input.varint()?));
        }
        if flags & HAS_END != 0 {
            self.until = Some(Timestamp::read(input)?);
        }
        if flags & HAS_KEY != 0 {
            self.key = Some(RequestKey::read(input)?);
        }
        self.is_changed = flags & CHANGED != 0;
        if flags & HAS_HOLDER != 0 {
            self.by = Some(input.text()?.to_owned());
        }
        Ok(self)
    }
}

/// What a request was that had a key, as long as what it made is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keyed {
    /// What it made.
    pub(crate) line: BranchId,
    /// The digest of what was asked for.
    pub(crate) asked: Digest,
}

impl Codec for Keyed {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.line.0);
        out.extend_from_slice(&self.asked.0);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            line: BranchId(input.varint()?),
            asked: input.digest()?,
        })
    }
}

/// Who holds a branch, and where in its batches it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The holder.
    pub(crate) session: SessionId,
    /// The last batch that was accepted; 0 before the first.
    pub(crate) number: u64,
    /// Its digest; of nothing before the first.
    pub(crate) digest: Digest,
}

impl Codec for Grant {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.session.0);
        put_varint(out, self.number);
        out.extend_from_slice(&self.digest.0);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            session: SessionId(input.varint()?),
            number: input.varint()?,
            digest: input.digest()?,
        })
    }
}

/// Flags of a session.
const HOSTED: u8 = 1;
const OVER: u8 = 2;

/// A session, and the inode numbers that it may give out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// Who it is, in words.
    pub(crate) who: String,
    /// Whether it ends with the owner's process.
    pub(crate) hosted: bool,
    /// Whether something that it held was taken from it: nothing more is lent to it, and what it ships goes into strays.
    pub(crate) is_over: bool,
    /// When it was opened.
    pub(crate) opened: Timestamp,
    /// The numbers lent to it, in the order of lending.
    pub(crate) inos: Vec<Lent>,
}

/// Inode numbers as a row has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lent(pub(crate) InoRange);

impl Codec for Lent {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0.next.0);
        put_varint(out, self.0.end.0);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self(InoRange {
            next: Ino(input.varint()?),
            end: Ino(input.varint()?),
        }))
    }
}

impl Codec for Session {
    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.who.as_bytes());
        let hosted = if self.hosted { HOSTED } else { 0 };
        let over = if self.is_over { OVER } else { 0 };
        out.push(hosted | over);
        self.opened.write(out);
        put_list(out, &self.inos);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (who, flags) = (input.text()?.to_owned(), input.byte()?);
        if flags & !(HOSTED | OVER) != 0 {
            return Err(malformed("flags of a session"));
        }
        Ok(Self {
            who,
            hosted: flags & HOSTED != 0,
            is_over: flags & OVER != 0,
            opened: Timestamp::read(input)?,
            inos: input.list()?,
        })
    }
}

/// A sealed pack, by the tag that its object's key carries behind the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pack {
    /// The beginning of its index's digest.
    pub(crate) tag: [u8; 8],
}

impl Codec for Pack {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.tag);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            tag: input.take(8)?.try_into().expect("8 bytes were taken"),
        })
    }
}

#[cfg(test)]
mod tests;
