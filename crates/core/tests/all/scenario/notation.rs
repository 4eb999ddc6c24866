//! How scenarios write what is not text: names, extents, access control lists, kinds and errors.

use tenure_core::Standing;
use tenure_model::{Address, Digest, Extent, FileOutcome, Kind, Name, PackNumber, Piece, Refusal, What};

/// Returns a word's bytes: `\xff` is a byte, and `a{255}` at the end is that many of one.
pub(super) fn bytes(word: &str) -> Vec<u8> {
    if let Some((start, count)) = word.strip_suffix('}').and_then(|word| word.rsplit_once('{')) {
        let (mut start, count) = (bytes(start), number(count) as usize);
        let last = start.pop().expect("something is repeated");
        start.resize(start.len() + count, last);
        return start;
    }
    let mut parts = word.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("a byte has two hex digits"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

/// Returns bytes as a word; many equal ones at the end are counted.
pub(super) fn word(bytes: &[u8]) -> String {
    let Some(last) = bytes.last() else {
        return String::new();
    };
    let run = bytes.iter().rev().take_while(|byte| *byte == last).count();
    if run > 9 {
        return format!("{}{{{run}}}", bytes[..bytes.len() - run + 1].escape_ascii());
    }
    bytes.escape_ascii().to_string()
}

pub(super) fn name(word: &str) -> Result<Name, Refusal> {
    Name::parse(&bytes(word))
}

pub(super) fn number(word: &str) -> u64 {
    match word {
        "max" => i64::MAX as u64,
        "huge" => u64::MAX,
        word => word
            .replace('_', "")
            .parse()
            .unwrap_or_else(|_| panic!("{word:?} is not a number")),
    }
}

pub(super) fn octal(word: &str) -> u32 {
    u32::from_str_radix(word, 8).unwrap_or_else(|_| panic!("{word:?} is not a mode"))
}

/// Returns a piece: `7:text` holds the bytes themselves, `7:A[10..20]` is a part of the chunk A.
pub(super) fn piece(text: &str) -> Piece {
    let (offset, what) = text
        .split_once(':')
        .expect("a piece is an offset and what is there");
    let extent = match what.strip_suffix(']').and_then(|what| what.split_once('[')) {
        None => Extent::Inline(bytes(what).into()),
        Some((chunk, range)) => {
            let (start, end) = range.split_once("..").expect("a part of a chunk is a range");
            let (start, end) = (number(start) as u32, number(end) as u32);
            Extent::Chunk {
                at: chunk_address(chunk),
                start,
                len: end - start,
            }
        }
    };
    Piece {
        offset: number(offset),
        extent,
    }
}

fn chunk_address(letter: &str) -> Address {
    Address {
        pack: PackNumber(1),
        digest: Digest([letter.as_bytes()[0]; 32]),
    }
}

/// Returns an extent as `piece` reads it.
pub(super) fn extent(piece: &Piece) -> String {
    let what = match &piece.extent {
        Extent::Inline(bytes) => word(bytes),
        Extent::Chunk { at, start, len } => format!("{}[{start}..{}]", at.digest.0[0] as char, start + len),
    };
    format!("{}:{what}", piece.offset)
}

const TAGS: [(&str, u8); 6] = [("u:", 1), ("u", 2), ("g:", 4), ("g", 8), ("m:", 16), ("o:", 32)];

/// Returns the value of a list that is written as `u::rwx,u:5:rw-,g::r-x,m::rwx,o::---`; `-` has no lines.
pub(super) fn acl(text: &str) -> Vec<u8> {
    let mut value = vec![2, 0, 0, 0];
    for line in text.split(',').filter(|line| *line != "-") {
        let (who, perm) = line.rsplit_once(':').expect("a line ends with its permissions");
        let (tag, id) = who.split_once(':').expect("a line begins with a tag");
        let (tag, id) = match id {
            "" => (format!("{tag}:"), u32::MAX),
            id => (tag.to_owned(), number(id) as u32),
        };
        let tag = TAGS.iter().find(|(name, _)| *name == tag).expect("it is a tag").1;
        let perm = perm.chars().fold(0, |perm, c| perm << 1 | u8::from(c != '-'));
        value.extend_from_slice(&[tag, 0, perm, 0]);
        value.extend_from_slice(&id.to_le_bytes());
    }
    value
}

/// Returns a list as `acl` reads it.
pub(super) fn acl_text(value: &[u8]) -> String {
    let line = |line: &[u8]| {
        let tag = TAGS
            .iter()
            .find(|(_, tag)| *tag == line[0])
            .expect("it is a tag")
            .0;
        let id = u32::from_le_bytes([line[4], line[5], line[6], line[7]]);
        let id = if tag.len() == 2 {
            String::new()
        } else {
            format!(":{id}")
        };
        let bit = |at: usize, c: char| if line[2] >> (2 - at) & 1 == 1 { c } else { '-' };
        format!("{tag}{id}:{}{}{}", bit(0, 'r'), bit(1, 'w'), bit(2, 'x'))
    };
    let lines: Vec<_> = value[4..].chunks(8).map(line).collect();
    lines.join(",")
}

const KINDS: [(&str, Kind); 7] = [
    ("fifo", Kind::Fifo),
    ("char", Kind::CharDevice),
    ("directory", Kind::Directory),
    ("block", Kind::BlockDevice),
    ("file", Kind::File),
    ("symlink", Kind::Symlink),
    ("socket", Kind::Socket),
];

pub(super) fn kind(word: &str) -> Kind {
    KINDS
        .iter()
        .find(|(name, _)| *name == word)
        .expect("it is a kind")
        .1
}

pub(super) fn kind_name(kind: Kind) -> &'static str {
    KINDS
        .iter()
        .find(|(_, of)| *of == kind)
        .expect("every kind has a name")
        .0
}

/// Returns the name of the error number that a program sees.
pub(super) fn error(refusal: &Refusal) -> &'static str {
    match refusal.errno() {
        1 => "EPERM",
        2 => "ENOENT",
        6 => "ENXIO",
        13 => "EACCES",
        17 => "EEXIST",
        20 => "ENOTDIR",
        21 => "EISDIR",
        22 => "EINVAL",
        27 => "EFBIG",
        28 => "ENOSPC",
        31 => "EMLINK",
        34 => "ERANGE",
        36 => "ENAMETOOLONG",
        39 => "ENOTEMPTY",
        61 => "ENODATA",
        95 => "ENOTSUP",
        other => panic!("no rule of a branch answers with {other}"),
    }
}

/// Returns what has become of a file, as a line.
pub(super) fn outcome(outcome: &FileOutcome) -> String {
    let what = match &outcome.what {
        What::Taken => "taken".to_owned(),
        What::Removed => "removed".to_owned(),
        What::Merged(driver) => format!("merged by {driver}"),
        What::Conflicted(kind) => format!("conflict: {}", kind.word()),
    };
    format!("{} {what}", word(&outcome.path))
}

/// Returns a conflict as it stands, as a line.
pub(super) fn conflict(standing: &Standing) -> String {
    let side = |path: &Option<Box<[u8]>>| path.as_deref().map_or("nowhere".to_owned(), word);
    let Standing {
        conflict,
        ours,
        theirs,
        ..
    } = standing;
    let place = conflict
        .place
        .as_deref()
        .map(|place| format!(", there {}", word(place)));
    format!(
        "{} {}: ours {}, theirs {}{}",
        word(&conflict.path),
        conflict.kind.word(),
        side(ours),
        side(theirs),
        place.unwrap_or_default()
    )
}
