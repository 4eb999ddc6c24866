//! What files named `.tenureattributes` say: which driver merges the files whose paths fit a pattern.
//!
//! They are written as git's attributes are, and only `merge` counts: `*.lock merge=binary`, `merge` (text), `-merge` and `binary` (both
//! sides are kept), `!merge` (what its name says). They name a driver that there is, never a command. In a file the last line that fits
//! counts, and of several files the one nearest to the path. What cannot be followed is passed over, and told.

mod pattern;

use crate::driver::Driver;
use crate::limits::{ATTRIBUTES_LEN_MAX, RULES_MAX};
use pattern::Pattern;
use std::fmt::{self, Display};

/// The attributes of a tree.
#[derive(Debug, Clone, Default)]
pub struct Attributes {
    /// Of directories further from the top first; each in the order of its lines.
    files: Vec<File>,
    complaints: Vec<Complaint>,
}

#[derive(Debug, Clone)]
struct File {
    /// From the top, without a slash at its end; empty for the top itself.
    directory: Vec<u8>,
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    pattern: Pattern,
    /// None goes by the file's name.
    driver: Option<Driver>,
}

/// A line of attributes that is not followed, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The directory in which the file is, from the top.
    pub directory: Vec<u8>,
    /// The line, from one on; none where it is about the whole file.
    pub line: Option<usize>,
    /// What is wrong with it.
    pub why: String,
}

impl Attributes {
    /// Reads the attributes of the top of a tree.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut attributes = Self::default();
        attributes.add(b"", bytes);
        attributes
    }

    /// Reads the attributes of a directory as well, whose path is from the top of the tree.
    pub fn add(&mut self, directory: &[u8], bytes: &[u8]) {
        let directory = trimmed(directory);
        let mut reader = Reader {
            directory,
            room: RULES_MAX - self.files.iter().map(|file| file.rules.len()).sum::<usize>(),
            rules: Vec::new(),
            complaints: Vec::new(),
        };
        reader.read(bytes);
        self.complaints.extend(reader.complaints);
        let file = File {
            directory: directory.to_vec(),
            rules: reader.rules,
        };
        let depth = depth(directory);
        let place = self
            .files
            .partition_point(|other| self::depth(&other.directory) >= depth);
        self.files.insert(place, file);
    }

    /// Returns the lines that are not followed.
    pub fn complaints(&self) -> &[Complaint] {
        &self.complaints
    }

    /// Returns which driver is named for the file at `path`, from the top of the tree.
    pub fn driver(&self, path: &[u8]) -> Option<Driver> {
        let path = trimmed(path);
        let fits = |file: &File| {
            let below = below(&file.directory, path)?;
            file.rules
                .iter()
                .rev()
                .find(|rule| rule.pattern.fits(below))
                .map(|rule| rule.driver)
        };
        self.files.iter().find_map(fits).flatten()
    }
}

impl Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directory = String::from_utf8_lossy(&self.directory);
        let slash = if directory.is_empty() { "" } else { "/" };
        write!(f, "{directory}{slash}.tenureattributes")?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        write!(f, ": {}", self.why)
    }
}

fn trimmed(path: &[u8]) -> &[u8] {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    path.strip_suffix(b"/").unwrap_or(path)
}

fn depth(directory: &[u8]) -> usize {
    directory
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
        .count()
}

/// Returns a path from `directory` on, where it is below it.
fn below<'p>(directory: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    if directory.is_empty() {
        return Some(path);
    }
    path.strip_prefix(directory)?.strip_prefix(b"/")
}

/// Reads one file.
struct Reader<'a> {
    directory: &'a [u8],
    /// How many rules it may have.
    room: usize,
    rules: Vec<Rule>,
    complaints: Vec<Complaint>,
}

impl Reader<'_> {
    fn read(&mut self, bytes: &[u8]) {
        if bytes.len() > ATTRIBUTES_LEN_MAX {
            return self.complain(
                None,
                format!(
                    "it has more than {} KiB and is not followed",
                    ATTRIBUTES_LEN_MAX >> 10
                ),
            );
        }
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if let Err(why) = self.line(line) {
                self.complain(Some(at + 1), why);
            }
            if self.rules.len() > self.room {
                self.rules.pop();
                return self.complain(
                    Some(at + 1),
                    format!("a tree has at most {RULES_MAX} rules; the rest is passed over"),
                );
            }
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            return Ok(());
        }
        let (pattern, attributes) = split(line)?;
        if pattern.starts_with(b"[attr]") {
            return Err("sets of attributes are not known here; only `merge` counts".to_owned());
        }
        if pattern.starts_with(b"!") {
            return Err("a pattern cannot be negated; write `\\!` for a name that begins so".to_owned());
        }
        let pattern = Pattern::parse(&pattern)?;
        let mut driver = None;
        let mut complaint = None;
        for word in attributes
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
        {
            match said(word) {
                Ok(Some(named)) => driver = Some(named),
                Ok(None) => {}
                Err(why) => complaint = Some(why),
            }
        }
        if let Some(driver) = driver {
            self.rules.push(Rule { pattern, driver });
        }
        complaint.map_or(Ok(()), Err)
    }

    fn complain(&mut self, line: Option<usize>, why: String) {
        self.complaints.push(Complaint {
            directory: self.directory.to_vec(),
            line,
            why,
        });
    }
}

/// Returns what an attribute says of merging: none for another attribute, and `Some(None)` for what goes by the name.
fn said(word: &[u8]) -> Result<Option<Option<Driver>>, String> {
    let shown = || String::from_utf8_lossy(word).into_owned();
    match word {
        b"merge" => Ok(Some(Some(Driver::Text))),
        b"-merge" | b"binary" => Ok(Some(Some(Driver::Binary))),
        b"!merge" => Ok(Some(None)),
        _ => {
            let Some(name) = word.strip_prefix(b"merge=") else {
                return Err(format!("`{}` is passed over: only `merge` counts", shown()));
            };
            let known = Driver::ALL.map(Driver::name).join(", ");
            let driver = Driver::named(name)
                .ok_or_else(|| format!("`{}` names no driver; there are {known}", shown()))?;
            Ok(Some(Some(driver)))
        }
    }
}

/// Splits a line into its pattern, which may be quoted as in C, and the rest.
fn split(line: &[u8]) -> Result<(Vec<u8>, &[u8]), String> {
    let Some(quoted) = line.strip_prefix(b"\"") else {
        let end = line
            .iter()
            .position(u8::is_ascii_whitespace)
            .unwrap_or(line.len());
        return Ok((line[..end].to_vec(), &line[end..]));
    };
    let mut pattern = Vec::new();
    let mut rest = quoted;
    loop {
        let (byte, behind) = rest.split_first().ok_or("a quoted pattern does not end")?;
        rest = behind;
        match byte {
            b'"' => return Ok((pattern, rest)),
            b'\\' => {
                let (byte, behind) = unescaped(rest).ok_or("a quoted pattern has an unknown escape")?;
                pattern.push(byte);
                rest = behind;
            }
            _ => pattern.push(*byte),
        }
    }
}

/// Returns the byte that stands behind a backslash in quotes, as C writes it, and what follows.
fn unescaped(rest: &[u8]) -> Option<(u8, &[u8])> {
    let (byte, behind) = rest.split_first()?;
    let plain = match byte {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'\\' | b'"' => *byte,
        b'0'..=b'3' => {
            let digits = rest
                .get(..3)
                .filter(|digits| digits.iter().all(|digit| matches!(digit, b'0'..=b'7')))?;
            let value = digits
                .iter()
                .fold(0_u8, |value, digit| (value << 3) | (digit - b'0'));
            return Some((value, &rest[3..]));
        }
        _ => return None,
    };
    Some((plain, behind))
}
