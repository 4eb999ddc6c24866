//! Reads YAML (yaml.org, 1.2): what it says by the crate `granit-parser`, and where that is written by going through its lines.
//!
//! As nodes only block mappings and block lists are taken apart; what is in brackets, quotes or a block of text is one value. A plain text
//! is another value than the same in quotes, since that can make it another thing.

mod lines;

use super::Unread;
use super::node::Node;
use super::values::{Id, Values};
use crate::limits::DEPTH_MAX;
use granit_parser::{Event, Options, Parser, ScalarStyle, StructureStyle, Tag};
use std::borrow::Cow;
use std::ops::Range;

/// Returns what a text says: its document, or a list of its documents.
pub(super) fn value(text: &str, values: &mut Values) -> Result<Id, Unread> {
    let documents = documents(text, values)?;
    if let [document] = &documents[..] {
        return Ok(document.id);
    }
    // A zero is in no text, so that this is no list that a document could be.
    let mark = values.scalar("\0");
    let mut ids = vec![mark];
    ids.extend(documents.iter().map(|document| document.id));
    Ok(values.list(ids))
}

/// Reads a text of one document, which is a mapping or a list.
pub(super) fn read<'t>(text: &'t str, values: &mut Values) -> Result<Node<'t>, Unread> {
    let documents = documents(text, values)?;
    let [document] = &documents[..] else {
        return Err(format!("it has {} documents", documents.len()));
    };
    lines::read(text, document, values)
}

/// A value and where it is.
struct Item {
    id: Id,
    /// Without its tag and anchor.
    range: Range<usize>,
    /// Whether it has a tag or an anchor.
    has_properties: bool,
    form: Form,
}

enum Form {
    /// Taken as a whole.
    Whole,
    /// A block of lines, behind `|` or `>`. Its range may end within the next line.
    Block,
    List(Vec<Item>),
    /// Keys and values.
    Map(Vec<(Key, Item)>),
}

/// A key that is a text.
struct Key {
    said: Box<str>,
    range: Range<usize>,
}

fn documents(text: &str, values: &mut Values) -> Result<Vec<Item>, Unread> {
    let options = {
        let mut options = Options::default();
        options.emit_anchor_events = true;
        options.block_nesting_limit = DEPTH_MAX;
        options.flow_nesting_limit = DEPTH_MAX;
        options
    };
    let mut reader = Reader {
        text,
        parser: Parser::new_from_str_with_options(text, options),
        values,
    };
    let mut documents = Vec::new();
    loop {
        let (event, range) = reader.next()?;
        if event == Event::StreamEnd {
            return Ok(documents);
        }
        if !matches!(
            event,
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd
        ) {
            documents.push(reader.item(event, range, 0)?);
        }
    }
}

struct Reader<'t, 'v> {
    text: &'t str,
    parser: Parser<'t, granit_parser::StrInput<'t>>,
    values: &'v mut Values,
}

impl<'t> Reader<'t, '_> {
    fn next(&mut self) -> Result<(Event<'t>, Range<usize>), Unread> {
        let next = self.parser.next_event().ok_or("it ends too early")?;
        let (event, span) = next.map_err(|error| {
            let line = error.marker().line();
            format!("line {line}: {}", error.info())
        })?;
        let range = span
            .byte_range()
            .filter(|range| self.text.get(range.clone()).is_some());
        let range = range.ok_or("it is not known where a value is")?;
        Ok((event, range))
    }

    /// Reads the value that begins with an event.
    fn item(&mut self, event: Event<'t>, range: Range<usize>, depth: usize) -> Result<Item, Unread> {
        self.values.room()?;
        if depth > DEPTH_MAX {
            return Err("values are too deep in values".to_owned());
        }
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the parser may learn events that begin no value"
        )]
        match event {
            Event::Alias(_) => {
                let id = self.values.scalar(format!("*{}", &self.text[range.clone()]));
                Ok(Item {
                    id,
                    range,
                    has_properties: false,
                    form: Form::Whole,
                })
            }
            Event::Scalar(text, style, anchor, tag) => {
                let id = self.values.scalar(said(&text, style));
                let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let item = Item {
                    id,
                    range,
                    has_properties: false,
                    form: if is_block { Form::Block } else { Form::Whole },
                };
                self.with_properties(item, anchor, tag)
            }
            Event::SequenceStart(style, anchor, tag) => {
                let head = self.with_properties(empty(range), anchor, tag)?;
                self.list(head, style, depth)
            }
            Event::MappingStart(style, anchor, tag) => {
                let head = self.with_properties(empty(range), anchor, tag)?;
                self.map(head, style, depth)
            }
            _ => Err("a value is missing".to_owned()),
        }
    }

    fn list(&mut self, head: Item, style: StructureStyle, depth: usize) -> Result<Item, Unread> {
        let mut elements = Vec::new();
        let end = loop {
            match self.next()? {
                (Event::SequenceEnd, range) => break range.end,
                (first, range) => elements.push(self.item(first, range, depth + 1)?),
            }
        };
        let ids: Vec<Id> = elements.iter().map(|element| element.id).collect();
        let list = self.values.list(ids);
        let form = if style == StructureStyle::Block {
            Form::List(elements)
        } else {
            Form::Whole
        };
        Ok(self.filled(head, list, end, form))
    }

    fn map(&mut self, head: Item, style: StructureStyle, depth: usize) -> Result<Item, Unread> {
        let mut entries = Vec::new();
        let end = loop {
            let (event, range) = self.next()?;
            if event == Event::MappingEnd {
                break range.end;
            }
            let Event::Scalar(text, _, 0, None) = &event else {
                return Err("a key is no text".to_owned());
            };
            // In quotes or not: two keys that may be the same are not told apart.
            let key = Key {
                said: text.as_ref().into(),
                range,
            };
            let (first, range) = self.next()?;
            entries.push((key, self.item(first, range, depth + 1)?));
        };
        let ids = entries.iter().map(|(key, value)| (key.said.clone(), value.id));
        let map = self
            .values
            .map(ids)
            .map_err(|key| format!("`{key}` is there twice"))?;
        let form = if style == StructureStyle::Block {
            Form::Map(entries)
        } else {
            Form::Whole
        };
        Ok(self.filled(head, map, end, form))
    }

    /// Returns a value that begins with `head`, which knows its tag and anchor.
    fn filled(&mut self, head: Item, id: Id, end: usize, form: Form) -> Item {
        let id = if head.has_properties {
            self.values.list([head.id, id])
        } else {
            id
        };
        Item {
            id,
            range: head.range.start..end,
            form,
            ..head
        }
    }

    /// Puts a tag and an anchor to a value; the anchor's name comes next.
    fn with_properties(
        &mut self,
        item: Item,
        anchor: usize,
        tag: Option<Cow<'_, Tag>>,
    ) -> Result<Item, Unread> {
        let mut item = item;
        if let Some(tag) = tag {
            let tag = self.values.scalar(format!("!{tag:?}"));
            item.id = self.values.list([tag, item.id]);
            item.has_properties = true;
        }
        if anchor > 0 {
            let (Event::Anchor(_, name), _) = self.next()? else {
                return Err("an anchor has no name".to_owned());
            };
            let name = self.values.scalar(format!("&{name}"));
            item.id = self.values.list([name, item.id]);
            item.has_properties = true;
        }
        Ok(item)
    }
}

fn empty(range: Range<usize>) -> Item {
    Item {
        id: Id::default(),
        range,
        has_properties: false,
        form: Form::Whole,
    }
}

/// Returns a text, with what tells one that may be a number from one that is in quotes.
fn said(text: &str, style: ScalarStyle) -> String {
    let is_plain = style == ScalarStyle::Plain;
    format!("{}{text}", if is_plain { "" } else { "\"" })
}
