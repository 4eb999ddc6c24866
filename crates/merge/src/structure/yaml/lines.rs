//! Takes a document of YAML apart by its lines: each entry of a block mapping or list ends its line.

use super::{Form, Item, Unread, Values};
use crate::structure::node::{Entry, Group, Kind, Node, Stand, Style};
use crate::structure::values::Id;
use std::ops::Range;

/// Reads the document that a text has.
pub(super) fn read<'t>(text: &'t str, document: &Item, values: &mut Values) -> Result<Node<'t>, Unread> {
    let mut lines = Lines { text, at: 0, values };
    let open = lines.preamble();
    let mut node = lines.group(document, open.len())?;
    let group = node.group.as_mut().ok_or("it is no mapping or list")?;
    let end = lines.at;
    group.open = open;
    group.close = &text[end..];
    node.text = text;
    Ok(node)
}

struct Lines<'t, 'v> {
    text: &'t str,
    at: usize,
    values: &'v mut Values,
}

impl<'t> Lines<'t, '_> {
    /// Passes directives and the line that begins the document.
    fn preamble(&mut self) -> &'t str {
        let mut end = 0;
        for line in self.text.split_inclusive('\n') {
            let word = line.trim_end();
            if word == "---" || word.starts_with("--- #") {
                self.at = end + line.len();
                break;
            }
            if !(word.is_empty() || word.starts_with(['#', '%'])) {
                break;
            }
            end += line.len();
        }
        &self.text[..self.at]
    }

    /// Reads a block mapping or list whose first entry, with what stands before it, begins at `start`.
    fn group(&mut self, item: &Item, start: usize) -> Result<Node<'t>, Unread> {
        self.at = start;
        let (kind, entries) = match &item.form {
            Form::Whole | Form::Block => return Err("it is no mapping or list".to_owned()),
            Form::Map(entries) => {
                let read = entries.iter().map(|(key, value)| {
                    let before = self.lead();
                    if self.at != key.range.start || key.range.is_empty() {
                        return Err(self.wrong("a key does not begin its line"));
                    }
                    self.at = key.range.end;
                    let name = &self.text[key.range.clone()];
                    let colon = self.rest().trim_start_matches([' ', '\t']);
                    if !colon.starts_with(':') {
                        return Err(self.wrong("a key has no colon in its line"));
                    }
                    let joint_start = self.at;
                    self.at = self.text.len() - colon.len() + 1;
                    self.entry(key.said.clone(), before, name, joint_start, value)
                });
                (Kind::Map, read.collect::<Result<Vec<_>, _>>()?)
            }
            Form::List(elements) => {
                let read = elements.iter().map(|element| {
                    let before = self.lead();
                    if !self.rest().starts_with('-') {
                        return Err(self.wrong("an element does not begin its line"));
                    }
                    let name = &self.rest()[..1];
                    self.at += 1;
                    self.entry(Box::default(), before, name, self.at, element)
                });
                (Kind::List, read.collect::<Result<Vec<_>, _>>()?)
            }
        };
        let ids = entries.iter().map(|entry| (entry.key.clone(), entry.value.id));
        let id = match kind {
            Kind::Map => self.values.map(ids).expect("each key was read once"),
            Kind::List => self.values.list(ids.map(|(_, id)| id).collect::<Vec<_>>()),
        };
        let group = Group {
            kind,
            style: Style::Lines,
            open: "",
            entries,
            close: "",
        };
        Ok(Node {
            text: &self.text[start..self.at],
            id,
            group: Some(group),
        })
    }

    /// Reads the value of an entry, behind its colon or dash, and what ends its line.
    fn entry(
        &mut self,
        key: Box<str>,
        (lead, stand): (&'t str, Stand),
        name: &'t str,
        joint_start: usize,
        value: &Item,
    ) -> Result<Entry<'t>, Unread> {
        let (start, tail);
        let node = match value.form {
            Form::Map(_) | Form::List(_) => {
                start = self.first_line(value)?;
                let node = self.group(value, start)?;
                tail = "";
                node
            }
            Form::Block => {
                let block = self.block(value);
                start = block.start;
                self.at = block.end;
                tail = self.end_of_line()?;
                self.whole(block)
            }
            Form::Whole => {
                let range = self.inline(value)?;
                start = range.start;
                self.at = range.end;
                tail = self.end_of_line()?;
                self.whole(range)
            }
        };
        Ok(Entry {
            key,
            lead,
            name,
            joint: &self.text[joint_start..start],
            // With the tag and the anchor that the joint has.
            value: Node { id: value.id, ..node },
            pause: "",
            tail,
            stand,
        })
    }

    fn whole(&self, range: Range<usize>) -> Node<'t> {
        Node {
            text: &self.text[range],
            id: Id::default(),
            group: None,
        }
    }

    /// Returns where a value is that begins behind its colon or dash; nothing is there.
    fn inline(&self, value: &Item) -> Result<Range<usize>, Unread> {
        if !value.range.is_empty() {
            let is_behind = value.range.start >= self.at;
            return is_behind
                .then(|| value.range.clone())
                .ok_or_else(|| self.wrong("a value is not where it is expected"));
        }
        if value.has_properties {
            return Err(self.wrong("nothing has a tag or an anchor"));
        }
        Ok(self.at..self.at)
    }

    /// Returns the lines of a block: behind that of its mark, without empty ones at its end that say nothing.
    fn block(&self, value: &Item) -> Range<usize> {
        let rest = self.rest();
        let mark = rest.find('\n').map_or(rest, |at| &rest[..=at]);
        let start = self.at + mark.len();
        let mut end = value.range.end.max(start);
        let keeps_empty_lines = mark.contains('+');
        loop {
            let line = self.text[..end].rfind('\n').map_or(0, |at| at + 1);
            if line > start && self.text[line..end].trim_matches(' ').is_empty() && line < end {
                end = line;
            } else if line == end && end > start && !keeps_empty_lines {
                let last = self.text[start..end - 1]
                    .rfind('\n')
                    .map_or(start, |at| start + at + 1);
                if !self.text[last..end].trim().is_empty() {
                    return start..end;
                }
                end = last;
            } else {
                return start..end;
            }
        }
    }

    /// Returns where the first entry of a group begins with what stands before it: in the next line, or in this one behind a dash.
    fn first_line(&self, group: &Item) -> Result<usize, Unread> {
        let rest = self.rest();
        let line_end = self.at + rest.find('\n').map_or(rest.len(), |at| at + 1);
        if group.range.start >= line_end || self.text[group.range.start..].starts_with(['#', '\r', '\n']) {
            return Ok(line_end);
        }
        if group.range.start < self.at {
            return Err(self.wrong("a value is not where it is expected"));
        }
        Ok(group.range.start)
    }

    /// Passes blanks and comments, and says whether they begin a line.
    fn lead(&mut self) -> (&'t str, Stand) {
        let start = self.at;
        let is_line = start == 0 || self.text[..start].ends_with('\n');
        let stand = if is_line { Stand::Line } else { Stand::Anywhere };
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            if !self.rest().starts_with('#') {
                return (&self.text[start..self.at], stand);
            }
            let rest = self.rest();
            self.at += rest.find('\n').unwrap_or(rest.len());
        }
    }

    /// Passes what is behind a value in its line.
    fn end_of_line(&mut self) -> Result<&'t str, Unread> {
        if self.text[..self.at].ends_with('\n') {
            return Ok("");
        }
        let rest = self.rest();
        let len = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let tail = &rest[..len];
        let word = tail.trim();
        if !word.is_empty() && !word.starts_with('#') {
            return Err(self.wrong("something is behind a value in its line"));
        }
        self.at += len;
        Ok(tail)
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn wrong(&self, what: &str) -> Unread {
        let line = 1 + self.text[..self.at].matches('\n').count();
        format!("line {line}: {what}")
    }
}
