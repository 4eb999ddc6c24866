//! A pattern of git's attributes: which paths it fits.
//!
//! Without a slash it fits names in any directory, with one the path from its file's directory on. `*` and `?` stand for no slash, `**`
//! between slashes for any directories, `[a-z]` and `[[:alpha:]]` for one byte (gitignore(5), and `wildmatch.c` for the corners).
//!
//! Invariant: matching takes at most as many steps as the pattern's length times the path's.

use crate::limits::{PATH_LEN_MAX, PATTERN_LEN_MAX};

#[derive(Debug, Clone)]
pub(super) struct Pattern {
    parts: Vec<Part>,
    scope: Scope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// The last name of the path.
    Name,
    /// The path from the file's directory on.
    Path,
    /// Ends in a slash, and so fits directories alone, or cannot fit at all.
    Nothing,
}

#[derive(Debug, Clone)]
enum Part {
    Byte(u8),
    /// `?`
    Any,
    OneOf(Box<[bool; 256]>),
    /// `*`: bytes other than slashes.
    Star,
    /// `**`: any bytes.
    Rest,
    /// `**/`: directories, which are the next two parts, or none.
    Directories,
}

impl Pattern {
    pub(super) fn parse(pattern: &[u8]) -> Result<Self, String> {
        if pattern.len() > PATTERN_LEN_MAX {
            return Err(format!("a pattern has at most {PATTERN_LEN_MAX} bytes"));
        }
        if pattern.ends_with(b"/") {
            return Ok(Self {
                parts: Vec::new(),
                scope: Scope::Nothing,
            });
        }
        let mut scope = if pattern.contains(&b'/') {
            Scope::Path
        } else {
            Scope::Name
        };
        let pattern = pattern.strip_prefix(b"/").unwrap_or(pattern);
        let parts = parts(pattern, scope).unwrap_or_else(|| {
            scope = Scope::Nothing;
            Vec::new()
        });
        Ok(Self { parts, scope })
    }

    /// Returns whether it fits a path, which is from the file's directory on.
    pub(super) fn fits(&self, path: &[u8]) -> bool {
        let text = match self.scope {
            Scope::Nothing => return false,
            Scope::Name => path.rsplit(|byte| *byte == b'/').next().unwrap_or(path),
            Scope::Path => path,
        };
        text.len() <= PATH_LEN_MAX && fits(&self.parts, text)
    }
}

/// Goes through a text with all the places of the pattern at which it may be by then.
fn fits(parts: &[Part], text: &[u8]) -> bool {
    let mut here = vec![false; parts.len() + 1];
    let mut next = here.clone();
    here[0] = true;
    for byte in text {
        // What stands for nothing is passed.
        pass(parts, &mut here);
        next.fill(false);
        for (place, part) in parts.iter().enumerate() {
            if !here[place] {
                continue;
            }
            match part {
                Part::Byte(wanted) => next[place + 1] |= wanted == byte,
                Part::Any => next[place + 1] |= *byte != b'/',
                Part::OneOf(bytes) => next[place + 1] |= *byte != b'/' && bytes[usize::from(*byte)],
                Part::Star => next[place] |= *byte != b'/',
                Part::Rest => next[place] = true,
                Part::Directories => {}
            }
        }
        std::mem::swap(&mut here, &mut next);
        if !here.contains(&true) {
            return false;
        }
    }
    pass(parts, &mut here);
    here[parts.len()]
}

/// Goes on behind parts that stand for nothing here.
fn pass(parts: &[Part], here: &mut [bool]) {
    for (place, part) in parts.iter().enumerate().filter(|(_, part)| part.may_be_nothing()) {
        here[place + 1] |= here[place];
        if let Part::Directories = part {
            here[place + 3] |= here[place];
        }
    }
}

impl Part {
    fn may_be_nothing(&self) -> bool {
        match self {
            Self::Star | Self::Rest | Self::Directories => true,
            Self::Byte(_) | Self::Any | Self::OneOf(_) => false,
        }
    }
}

/// Returns the parts of a pattern; none where it can fit nothing.
fn parts(pattern: &[u8], scope: Scope) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    let mut is_plain = true;
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'\\' => {
                let (byte, behind) = rest.split_first()?;
                parts.push(Part::Byte(*byte));
                rest = behind;
            }
            b'?' => parts.push(Part::Any),
            b'[' => {
                let (bytes, behind) = one_of(rest)?;
                parts.push(Part::OneOf(Box::new(bytes)));
                rest = behind;
            }
            b'*' => {
                // Git takes what is before the first special byte away first, so that behind it is a start too.
                let is_start = is_plain || matches!(parts.last(), Some(Part::Byte(b'/')));
                let stars = 1 + rest.iter().take_while(|byte| **byte == b'*').count();
                rest = &rest[stars - 1..];
                match rest.strip_prefix(b"/") {
                    Some(behind) if stars > 1 && is_start && scope == Scope::Path => {
                        parts.extend([Part::Directories, Part::Rest, Part::Byte(b'/')]);
                        rest = behind;
                    }
                    None if stars > 1 && is_start && rest.is_empty() => parts.push(Part::Rest),
                    Some(_) | None => parts.push(Part::Star),
                }
            }
            _ => {
                parts.push(Part::Byte(*byte));
                continue;
            }
        }
        is_plain = false;
    }
    Some(parts)
}

/// Reads what stands behind `[`: which bytes it fits, and what follows it.
fn one_of(rest: &[u8]) -> Option<([bool; 256], &[u8])> {
    let mut bytes = [false; 256];
    let negated = rest.strip_prefix(b"!").or_else(|| rest.strip_prefix(b"^"));
    let mut rest = negated.unwrap_or(rest);
    let mut is_first = true;
    // What a range may begin with.
    let mut before = None;
    loop {
        let (byte, behind) = rest.split_first()?;
        rest = behind;
        match byte {
            b']' if !is_first => break,
            b'[' if rest.starts_with(b":") => {
                let end = rest.iter().position(|byte| *byte == b']')?;
                before = match rest[1..end].strip_suffix(b":") {
                    Some(class) => {
                        put_class(&mut bytes, class)?;
                        rest = &rest[end + 1..];
                        None
                    }
                    None => {
                        bytes[usize::from(b'[')] = true;
                        Some(b'[')
                    }
                };
            }
            b'-' if before.is_some() && rest.first().is_some_and(|next| *next != b']') => {
                let (last, behind) = literal(rest)?;
                rest = behind;
                let first = before.take().unwrap_or(last);
                (first..=last).for_each(|byte| bytes[usize::from(byte)] = true);
            }
            b'\\' => {
                let (byte, behind) = rest.split_first()?;
                rest = behind;
                bytes[usize::from(*byte)] = true;
                before = Some(*byte);
            }
            _ => {
                bytes[usize::from(*byte)] = true;
                before = Some(*byte);
            }
        }
        is_first = false;
    }
    if negated.is_some() {
        bytes.iter_mut().for_each(|fits| *fits = !*fits);
    }
    Some((bytes, rest))
}

/// Returns the byte that comes next, behind a backslash or not.
fn literal(rest: &[u8]) -> Option<(u8, &[u8])> {
    let rest = rest.strip_prefix(b"\\").unwrap_or(rest);
    rest.split_first().map(|(byte, behind)| (*byte, behind))
}

fn put_class(bytes: &mut [bool; 256], class: &[u8]) -> Option<()> {
    let fits: fn(&u8) -> bool = match class {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    };
    (0..=255_u8)
        .filter(fits)
        .for_each(|byte| bytes[usize::from(byte)] = true);
    Some(())
}
