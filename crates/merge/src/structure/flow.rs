//! Reads values between brackets, as JSON and TOML write them, with what stands between them.

use super::Unread;
use super::node::{Entry, Group, Kind, Node, Stand, Style};
use super::values::{Id, Values};
use crate::limits::DEPTH_MAX;

/// What formats do differently.
pub(super) trait Grammar {
    /// What is between a key and its value.
    const SEPARATOR: u8;

    /// Returns the bytes of the comment that `rest` begins with, without the end of its line; none if it begins with none.
    fn comment(rest: &str) -> Result<Option<usize>, Unread>;

    /// Returns a key and its bytes.
    fn key(rest: &str) -> Result<(Box<str>, usize), Unread>;

    /// Returns the value that is no group with which `rest` begins, and its bytes.
    fn scalar(rest: &str, values: &mut Values) -> Result<(Id, usize), Unread>;
}

/// Goes through a text.
pub(super) struct Cursor<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
}

impl<'t> Cursor<'t> {
    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    pub(super) fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn since(&self, start: usize) -> &'t str {
        &self.text[start..self.at]
    }

    /// Returns a reason that says where it is.
    pub(super) fn wrong(&self, what: &str) -> Unread {
        let line = 1 + self.text[..self.at].matches('\n').count();
        format!("line {line}: {what}")
    }

    fn place<T>(&self, read: Result<T, Unread>) -> Result<T, Unread> {
        read.map_err(|what| self.wrong(&what))
    }

    /// Passes blanks, ends of lines and comments.
    pub(super) fn blanks<G: Grammar>(&mut self) -> Result<(), Unread> {
        loop {
            let blank = self
                .rest()
                .bytes()
                .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
                .count();
            self.at += blank;
            match self.place(G::comment(self.rest()))? {
                Some(len) => self.at += len,
                None => return Ok(()),
            }
        }
    }

    /// Reads a value.
    pub(super) fn node<G: Grammar>(&mut self, values: &mut Values, depth: usize) -> Result<Node<'t>, Unread> {
        values.room()?;
        let start = self.at;
        let kind = match self.byte() {
            Some(b'{') => Kind::Map,
            Some(b'[') => Kind::List,
            Some(_) => {
                let (id, len) = self.place(G::scalar(self.rest(), values))?;
                self.at += len;
                return Ok(Node {
                    text: self.since(start),
                    id,
                    group: None,
                });
            }
            None => return Err(self.wrong("it ends where a value is expected")),
        };
        if depth >= DEPTH_MAX {
            return Err(self.wrong("values are too deep in values"));
        }
        let group = self.group::<G>(kind, values, depth + 1)?;
        let entries = group.entries.iter();
        let id = match kind {
            Kind::List => values.list(entries.map(|entry| entry.value.id).collect::<Vec<_>>()),
            Kind::Map => {
                let map = values.map(entries.map(|entry| (entry.key.clone(), entry.value.id)));
                map.map_err(|key| self.wrong(&format!("`{key}` is there twice")))?
            }
        };
        Ok(Node {
            text: self.since(start),
            id,
            group: Some(group),
        })
    }

    fn group<G: Grammar>(
        &mut self,
        kind: Kind,
        values: &mut Values,
        depth: usize,
    ) -> Result<Group<'t>, Unread> {
        let closing = if kind == Kind::Map { b'}' } else { b']' };
        let start = self.at;
        self.at += 1;
        let open = self.since(start);
        let mut entries = Vec::new();
        let mut comma_ends = true;
        loop {
            let before = self.at;
            self.blanks::<G>()?;
            if self.byte() == Some(closing) {
                self.at += 1;
                let style = Style::Commas {
                    comma_ends: comma_ends && !entries.is_empty(),
                };
                return Ok(Group {
                    kind,
                    style,
                    open,
                    entries,
                    close: self.since(before),
                });
            }
            if !comma_ends {
                return Err(self.wrong("a comma or a closing bracket is missing"));
            }
            let lead = self.since(before);
            let (entry, has_comma) = self.entry::<G>(lead, kind, values, depth)?;
            comma_ends = has_comma;
            entries.push(entry);
        }
    }

    /// Reads an entry, and says whether a comma is behind it.
    fn entry<G: Grammar>(
        &mut self,
        lead: &'t str,
        kind: Kind,
        values: &mut Values,
        depth: usize,
    ) -> Result<(Entry<'t>, bool), Unread> {
        let (mut key, mut name, mut joint) = (Box::default(), "", "");
        if kind == Kind::Map {
            let (read, len) = self.place(G::key(self.rest()))?;
            (key, name) = (read, &self.rest()[..len]);
            self.at += len;
            let start = self.at;
            self.blanks::<G>()?;
            if self.byte() != Some(G::SEPARATOR) {
                return Err(self.wrong("a key has no value"));
            }
            self.at += 1;
            self.blanks::<G>()?;
            joint = self.since(start);
        }
        let value = self.node::<G>(values, depth)?;
        let end = self.at;
        self.blanks::<G>()?;
        let has_comma = self.byte() == Some(b',');
        let mut pause = "";
        if has_comma {
            pause = self.since(end);
            self.at += 1;
        } else {
            self.at = end;
        }
        let tail = self.tail::<G>()?;
        let entry = Entry {
            key,
            lead,
            name,
            joint,
            value,
            pause,
            tail,
            stand: Stand::Anywhere,
        };
        Ok((entry, has_comma))
    }

    /// Reads a comment that ends this line.
    fn tail<G: Grammar>(&mut self) -> Result<&'t str, Unread> {
        let rest = self.rest();
        let blank = rest
            .bytes()
            .take_while(|byte| matches!(byte, b' ' | b'\t'))
            .count();
        let Some(comment) = self.place(G::comment(&rest[blank..]))? else {
            return Ok("");
        };
        let (tail, behind) = rest.split_at(blank + comment);
        let ends_line = behind.trim_start_matches([' ', '\t', '\r']).starts_with('\n');
        if !ends_line {
            return Ok("");
        }
        self.at += tail.len();
        Ok(tail)
    }
}
