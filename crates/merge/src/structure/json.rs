//! Reads JSON (RFC 8259), also with comments and commas behind the last entry, as configurations of programs have them.

use super::Unread;
use super::flow::{Cursor, Grammar};
use super::node::Node;
use super::values::{Id, Values};

/// Reads a text whose value is a map or a list.
pub(super) fn read<'t>(text: &'t str, values: &mut Values) -> Result<Node<'t>, Unread> {
    let mut cursor = Cursor { text, at: 0 };
    cursor.blanks::<Json>()?;
    let start = cursor.at;
    let mut node = cursor.node::<Json>(values, 0)?;
    let end = cursor.at;
    cursor.blanks::<Json>()?;
    if cursor.at < text.len() {
        return Err(cursor.wrong("something is behind the value"));
    }
    // What is around the value is part of what opens and closes it.
    let group = node.group.as_mut().ok_or("it is no map or list")?;
    group.open = &text[..start + group.open.len()];
    group.close = &text[end - group.close.len()..];
    node.text = text;
    Ok(node)
}

struct Json;

impl Grammar for Json {
    const SEPARATOR: u8 = b':';

    fn comment(rest: &str) -> Result<Option<usize>, Unread> {
        if rest.starts_with("//") {
            return Ok(Some(rest.find(['\r', '\n']).unwrap_or(rest.len())));
        }
        match rest.strip_prefix("/*") {
            Some(behind) => {
                let len = behind.find("*/").ok_or("a comment does not end")?;
                Ok(Some(len + 4))
            }
            None => Ok(None),
        }
    }

    fn key(rest: &str) -> Result<(Box<str>, usize), Unread> {
        if !rest.starts_with('"') {
            return Err("a key is not in quotes".to_owned());
        }
        let len = quoted(rest)?;
        Ok((unquoted(&rest[..len])?.into(), len))
    }

    fn scalar(rest: &str, values: &mut Values) -> Result<(Id, usize), Unread> {
        if rest.starts_with('"') {
            let len = quoted(rest)?;
            let text = unquoted(&rest[..len])?;
            return Ok((values.scalar(format!("s{text}")), len));
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let word = &rest[..len];
        if matches!(word, "true" | "false" | "null") || is_number(word) {
            // As it is written: how precise a number is must be kept.
            return Ok((values.scalar(format!("n{word}")), len));
        }
        Err("a value is no JSON".to_owned())
    }
}

/// Returns the bytes of a string with its quotes.
fn quoted(rest: &str) -> Result<usize, Unread> {
    let mut bytes = rest.bytes().enumerate().skip(1);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Ok(at + 1),
            b'\\' => {
                bytes.next();
            }
            0..=0x1f => break,
            _ => {}
        }
    }
    Err("a string does not end in its line".to_owned())
}

/// Returns what a string says. What is no text, half of a surrogate pair, is said as it is written.
fn unquoted(quoted: &str) -> Result<String, Unread> {
    let inner = &quoted[1..quoted.len() - 1];
    if !inner.contains('\\') {
        return Ok(inner.to_owned());
    }
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let (c, len) = match rest.as_bytes().get(1) {
            Some(b'n') => ('\n', 2),
            Some(b't') => ('\t', 2),
            Some(b'r') => ('\r', 2),
            Some(b'b') => ('\u{8}', 2),
            Some(b'f') => ('\u{c}', 2),
            Some(escaped @ (b'"' | b'\\' | b'/')) => (char::from(*escaped), 2),
            Some(b'u') => {
                let (c, len) = unit(rest)?;
                match c {
                    Some(c) => (c, len),
                    None => {
                        // A zero is in no other string, since a text with one is not read.
                        text.push('\0');
                        text.push_str(&rest[2..len].to_ascii_lowercase());
                        rest = &rest[len..];
                        continue;
                    }
                }
            }
            _ => return Err("a string has an unknown escape".to_owned()),
        };
        text.push(c);
        rest = &rest[len..];
    }
    text.push_str(rest);
    Ok(text)
}

/// Reads `\uXXXX`, or two that are one character.
fn unit(rest: &str) -> Result<(Option<char>, usize), Unread> {
    let digits = |rest: &str| {
        let digits = rest.strip_prefix("\\u")?.get(..4)?;
        let are_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        are_hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
    };
    let first = digits(rest).ok_or("a string has an unknown escape")?;
    if let 0xd800..0xdc00 = first
        && let Some(second @ 0xdc00..0xe000) = digits(&rest[6..])
    {
        let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return Ok((char::from_u32(code), 12));
    }
    // Nor is a zero that is escaped to be taken for half of a pair.
    Ok((char::from_u32(first).filter(|c| *c != '\0'), 6))
}

fn is_number(word: &str) -> bool {
    let word = word.strip_prefix('-').unwrap_or(word);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(word);
    if whole == 0 || (whole > 1 && word.starts_with('0')) {
        return false;
    }
    let mut rest = &word[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let len = digits(fraction);
        if len == 0 {
            return false;
        }
        rest = &fraction[len..];
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let len = digits(exponent);
        if len == 0 {
            return false;
        }
        rest = &exponent[len..];
    }
    rest.is_empty()
}
