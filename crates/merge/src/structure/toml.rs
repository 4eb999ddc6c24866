//! Reads TOML (toml.io, 1.1): what it says by the crate `toml`, and where that is written by going through its lines.
//!
//! As nodes a file is a map of its first keys and its tables, each table a map of its keys, an array of tables a list. A table is called by
//! its header, so the same data can be other nodes; then what comes of them says the wrong thing, and is not taken.

use super::Unread;
use super::flow::{Cursor, Grammar};
use super::node::{Entry, Group, Kind, Node, Stand, Style};
use super::values::{Id, Values};
use crate::limits::TABLES_MAX;

/// Returns what a text says.
pub(super) fn value(text: &str, values: &mut Values) -> Result<Id, Unread> {
    if text
        .lines()
        .filter(|line| line.trim_start().starts_with('['))
        .count()
        > TABLES_MAX
    {
        return Err(format!("it has more than {TABLES_MAX} tables"));
    }
    let table: ::toml::Table = text
        .parse()
        .map_err(|error: ::toml::de::Error| error.message().to_owned())?;
    table_id(&table, values)
}

fn table_id(table: &::toml::Table, values: &mut Values) -> Result<Id, Unread> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        entries.push((Box::from(key.as_str()), value_id(value, values)?));
    }
    Ok(values.map(entries).expect("a table has each key once"))
}

fn value_id(value: &::toml::Value, values: &mut Values) -> Result<Id, Unread> {
    values.room()?;
    Ok(match value {
        ::toml::Value::Table(table) => table_id(table, values)?,
        ::toml::Value::Array(elements) => {
            let ids = elements.iter().map(|element| value_id(element, values));
            let ids = ids.collect::<Result<Vec<_>, _>>()?;
            values.list(ids)
        }
        ::toml::Value::String(text) => values.scalar(format!("s{text}")),
        ::toml::Value::Integer(number) => values.scalar(format!("i{number}")),
        // As bits, so that one that is no number is the same as itself.
        ::toml::Value::Float(number) => values.scalar(format!("f{:x}", number.to_bits())),
        ::toml::Value::Boolean(is_true) => values.scalar(format!("b{is_true}")),
        ::toml::Value::Datetime(time) => values.scalar(format!("d{time}")),
    })
}

/// Reads a text that is known to be valid.
pub(super) fn read<'t>(text: &'t str, values: &mut Values) -> Result<Node<'t>, Unread> {
    let mut reader = Reader {
        cursor: Cursor { text, at: 0 },
        values,
        lead: 0,
    };
    let mut entries = reader.keys()?;
    entries.extend(reader.tables(&[])?);
    let close = reader.cursor.since(reader.lead);
    if reader.cursor.at < text.len() {
        return Err(reader
            .cursor
            .wrong("a table is apart from those that it belongs to"));
    }
    reader.map(entries, text, close)
}

struct Reader<'t, 'v> {
    cursor: Cursor<'t>,
    values: &'v mut Values,
    /// Where the blanks and comments before the next entry begin; the cursor is behind them.
    lead: usize,
}

/// The line that begins a table.
struct Header<'t> {
    path: Vec<String>,
    is_array: bool,
    text: &'t str,
    /// What is behind it in its line.
    tail: &'t str,
}

impl<'t> Reader<'t, '_> {
    /// Reads the keys up to the next header.
    fn keys(&mut self) -> Result<Vec<Entry<'t>>, Unread> {
        let mut entries = Vec::new();
        loop {
            self.lead = self.cursor.at;
            self.cursor.blanks::<Toml>()?;
            if matches!(self.cursor.byte(), None | Some(b'[')) {
                return Ok(entries);
            }
            let lead = self.cursor.since(self.lead);
            let start = self.cursor.at;
            let (key, len) = Toml::key(self.cursor.rest())?;
            self.cursor.at += len;
            let name = self.cursor.since(start);
            let start = self.cursor.at;
            self.spaces();
            if self.cursor.byte() != Some(b'=') {
                return Err(self.cursor.wrong("a key has no value"));
            }
            self.cursor.at += 1;
            self.spaces();
            let joint = self.cursor.since(start);
            let value = self.cursor.node::<Toml>(self.values, 0)?;
            entries.push(Entry {
                key,
                lead,
                name,
                joint,
                value,
                pause: "",
                tail: self.end_of_line(),
                stand: Stand::Line,
            });
        }
    }

    /// Reads the tables that are below `above`.
    fn tables(&mut self, above: &[String]) -> Result<Vec<Entry<'t>>, Unread> {
        let mut entries = Vec::new();
        while let Some(header) = self.next_header()? {
            if !header.path.starts_with(above) || header.path.len() == above.len() {
                break;
            }
            if header.is_array {
                entries.push(self.array(&header.path)?);
                continue;
            }
            let (lead, header) = self.take_header(header);
            let start = self.cursor.at;
            let keys = self.keys()?;
            let text = &self.cursor.text[start..self.lead];
            let value = self.map(keys, text, "")?;
            entries.push(Entry {
                key: format!("[{}]", header.path.join("\0")).into(),
                lead,
                name: header.text,
                joint: header.tail,
                value,
                pause: "",
                tail: "",
                stand: Stand::Section,
            });
        }
        Ok(entries)
    }

    /// Reads the tables of an array, which are one behind the other.
    fn array(&mut self, path: &[String]) -> Result<Entry<'t>, Unread> {
        let start = self.lead;
        let mut elements = Vec::new();
        while let Some(header) = self.next_header()? {
            if !header.is_array || header.path != path {
                break;
            }
            let (lead, header) = self.take_header(header);
            let start = self.cursor.at;
            let mut entries = self.keys()?;
            entries.extend(self.tables(path)?);
            let text = &self.cursor.text[start..self.lead];
            let value = self.map(entries, text, "")?;
            elements.push(Entry {
                key: Box::default(),
                lead,
                name: header.text,
                joint: header.tail,
                value,
                pause: "",
                tail: "",
                stand: Stand::Section,
            });
        }
        let ids: Vec<Id> = elements.iter().map(|element| element.value.id).collect();
        let value = Node {
            text: &self.cursor.text[start..self.lead],
            id: self.values.list(ids),
            group: Some(Group {
                kind: Kind::List,
                style: Style::Lines,
                open: "",
                entries: elements,
                close: "",
            }),
        };
        Ok(Entry {
            key: format!("[[{}]]", path.join("\0")).into(),
            lead: "",
            name: "",
            joint: "",
            value,
            pause: "",
            tail: "",
            stand: Stand::Section,
        })
    }

    fn map(&mut self, entries: Vec<Entry<'t>>, text: &'t str, close: &'t str) -> Result<Node<'t>, Unread> {
        let ids = entries.iter().map(|entry| (entry.key.clone(), entry.value.id));
        let id = self
            .values
            .map(ids)
            .map_err(|_| "a table is in several places".to_owned())?;
        Ok(Node {
            text,
            id,
            group: Some(Group {
                kind: Kind::Map,
                style: Style::Lines,
                open: "",
                entries,
                close,
            }),
        })
    }

    /// Reads the header at which the cursor is, without passing it.
    fn next_header(&self) -> Result<Option<Header<'t>>, Unread> {
        let rest = self.cursor.rest();
        if rest.is_empty() {
            return Ok(None);
        }
        let is_array = rest.starts_with("[[");
        let inner = rest.trim_start_matches('[');
        let open = rest.len() - inner.len();
        let blank = inner.len() - inner.trim_start_matches([' ', '\t']).len();
        let (path, len) = path(&inner[blank..])?;
        let behind = &inner[blank + len..];
        let closing = behind.len() - behind.trim_start_matches([' ', '\t']).len();
        let end = open + blank + len + closing + if is_array { 2 } else { 1 };
        let text = rest.get(..end).filter(|text| text.ends_with(']'));
        Ok(Some(Header {
            path,
            is_array,
            text: text.ok_or_else(|| self.cursor.wrong("a header does not end"))?,
            tail: "",
        }))
    }

    /// Passes a header, and returns what stood before it.
    fn take_header(&mut self, header: Header<'t>) -> (&'t str, Header<'t>) {
        let lead = self.cursor.since(self.lead);
        self.cursor.at += header.text.len();
        let tail = self.end_of_line();
        (lead, Header { tail, ..header })
    }

    fn spaces(&mut self) {
        let rest = self.cursor.rest();
        self.cursor.at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
    }

    /// Passes what is left of this line, with its end.
    fn end_of_line(&mut self) -> &'t str {
        let rest = self.cursor.rest();
        let len = rest.find('\n').map_or(rest.len(), |at| at + 1);
        self.cursor.at += len;
        &rest[..len]
    }
}

struct Toml;

impl Grammar for Toml {
    const SEPARATOR: u8 = b'=';

    fn comment(rest: &str) -> Result<Option<usize>, Unread> {
        let len = rest.find(['\r', '\n']).unwrap_or(rest.len());
        Ok(rest.starts_with('#').then_some(len))
    }

    fn key(rest: &str) -> Result<(Box<str>, usize), Unread> {
        let (path, len) = path(rest)?;
        Ok((path.join("\0").into(), len))
    }

    fn scalar(rest: &str, values: &mut Values) -> Result<(Id, usize), Unread> {
        let len = match rest.as_bytes() {
            [b'"' | b'\'', ..] => quoted(rest)?,
            _ => {
                let end = rest.find([',', ']', '}', '#', '\r', '\n']).unwrap_or(rest.len());
                rest[..end].trim_end_matches([' ', '\t']).len()
            }
        };
        if len == 0 {
            return Err("a value is missing".to_owned());
        }
        Ok((values.scalar(&rest[..len]), len))
    }
}

/// Returns the names of a dotted key, and its bytes.
fn path(rest: &str) -> Result<(Vec<String>, usize), Unread> {
    let mut names = Vec::new();
    let mut end = 0;
    loop {
        let from = &rest[end..];
        let from = from.trim_start_matches([' ', '\t']);
        let start = rest.len() - from.len();
        let len = match from.as_bytes() {
            [b'"' | b'\'', ..] => quoted(from)?,
            _ => from
                .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'))
                .unwrap_or(from.len()),
        };
        if len == 0 {
            return Err("a key is missing".to_owned());
        }
        let name = &from[..len];
        names.push(match name.as_bytes()[0] {
            // Escapes stay as they are written.
            b'"' if name.contains('\\') => name.to_owned(),
            b'"' | b'\'' => name[1..len - 1].to_owned(),
            _ => name.to_owned(),
        });
        end = start + len;
        let behind = rest[end..].trim_start_matches([' ', '\t']);
        if !behind.starts_with('.') {
            return Ok((names, end));
        }
        end = rest.len() - behind.len() + 1;
    }
}

/// Returns the bytes of a string with its quotes.
fn quoted(rest: &str) -> Result<usize, Unread> {
    let quote = &rest[..1];
    let long = quote.repeat(3);
    let has_escapes = quote == "\"";
    let (open, close) = if rest.starts_with(&long) {
        (3, &*long)
    } else {
        (1, quote)
    };
    let mut at = open;
    while at < rest.len() {
        let behind = &rest[at..];
        if has_escapes && behind.starts_with('\\') {
            at += 1 + behind[1..].chars().next().map_or(0, char::len_utf8);
        } else if behind.starts_with(close) {
            // Up to two quotes more are the end of what is in a long one.
            let quotes = behind
                .bytes()
                .take_while(|byte| *byte == quote.as_bytes()[0])
                .count();
            return Ok(at + if open == 3 { quotes.min(5) } else { 1 });
        } else {
            at += behind.chars().next().map_or(1, char::len_utf8);
        }
    }
    Err("a string does not end".to_owned())
}
