//! Merges files by what they say: maps by key, lists by element, all else as one value.
//!
//! A file is read twice: as *values* ([`values`]), which say what it means, and as *nodes* ([`node`]), which say where each value is
//! written, with the blanks and comments around it. The nodes are woven together ([`weave`]), so that what nobody changed stays as it is
//! written; the values are merged by themselves.
//!
//! Invariant: a result is returned only where it, read again, says what merging the values gives.

mod flow;
mod json;
mod node;
mod pairing;
mod toml;
mod values;
mod weave;
mod yaml;

use crate::driver::Driver;
use crate::limits::STRUCTURE_LEN_MAX;
use crate::outcome::{Outcome, Unfit, Why};
use crate::text;
use node::Node;
use values::{Id, Value, Values};

/// Why a file cannot be read by structure, in words.
type Unread = String;

/// What a format makes of text.
struct Format {
    nodes: for<'t> fn(&'t str, &mut Values) -> Result<Node<'t>, Unread>,
    /// Knows every valid file of the format, also where its nodes are too much for us.
    value: fn(&str, &mut Values) -> Result<Id, Unread>,
}

const JSON: Format = Format {
    nodes: json::read,
    value: |text, values| json::read(text, values).map(|node| node.id),
};
const TOML: Format = Format {
    nodes: toml::read,
    value: toml::value,
};
const YAML: Format = Format {
    nodes: yaml::read,
    value: yaml::value,
};

/// Merges by the structure that `driver` knows, or else by lines.
pub(crate) fn merge(driver: Driver, base: Option<&[u8]>, ours: &[u8], theirs: &[u8]) -> Outcome {
    let format = match driver {
        Driver::Json => JSON,
        Driver::Toml => TOML,
        Driver::Yaml => YAML,
        Driver::Text | Driver::Union | Driver::Binary => unreachable!("they know no structure"),
    };
    let unfit = |reason: Unread| Unfit::new(driver, reason);
    let by_lines = || text::merge(base, ours, theirs);
    let Some(base) = base else {
        return Outcome::of(driver, None, Err(Why::NoBase));
    };
    let texts = match [base, ours, theirs].map(readable) {
        [Ok(base), Ok(ours), Ok(theirs)] => [base, ours, theirs],
        [Err(reason), ..] | [_, Err(reason), _] | [.., Err(reason)] => {
            return Outcome::of(Driver::Text, Some(unfit(reason)), by_lines());
        }
    };
    let mut merge = Merge {
        format,
        values: Values::default(),
        texts,
    };
    match merge.expected() {
        // What is no valid file of its format is lines.
        Err(reason) => Outcome::of(Driver::Text, Some(unfit(reason)), by_lines()),
        Ok(Err(place)) => Outcome::of(driver, None, Err(Why::Value(place))),
        Ok(Ok(expected)) => match merge.woven(expected) {
            Ok(content) => Outcome::merged(driver, None, content),
            Err(reason) => {
                let content = by_lines().and_then(|content| merge.vetted(content, expected));
                Outcome::of(Driver::Text, Some(unfit(reason)), content)
            }
        },
    }
}

/// Three texts of one format.
struct Merge<'t> {
    format: Format,
    values: Values,
    texts: [&'t str; 3],
}

impl Merge<'_> {
    /// Returns the merged values, or where both sides changed the same.
    fn expected(&mut self) -> Result<Result<Id, String>, Unread> {
        let mut ids = [Id::default(); 3];
        for (side, text) in self.texts.into_iter().enumerate() {
            let id = (self.format.value)(text, &mut self.values);
            let id = id.map_err(|reason| format!("{} cannot be read: {reason}", SIDES[side]))?;
            if let Value::Scalar(_) = self.values.get(id) {
                return Err(format!("{} is no map or list", SIDES[side]));
            }
            ids[side] = id;
        }
        let [base, ours, theirs] = ids;
        Ok(self.values.merge(Some(base), ours, theirs))
    }

    /// Returns the woven text, or why there is none.
    fn woven(&mut self, expected: Id) -> Result<Vec<u8>, Unread> {
        // Nodes have values of their own: where TOML has a table in several places, each is one.
        let mut values = Values::default();
        let mut nodes = Vec::with_capacity(3);
        for (side, text) in self.texts.into_iter().enumerate() {
            let node = (self.format.nodes)(text, &mut values);
            let node = node.map_err(|reason| format!("{}: {reason}", SIDES[side]))?;
            if !node.is_whole() {
                return Err(format!("{} is written in a way that is not known", SIDES[side]));
            }
            nodes.push(node);
        }
        let woven = weave::weave(&values, &nodes[0], &nodes[1], &nodes[2])?;
        match (self.format.value)(&woven, &mut self.values) {
            Ok(id) if id == expected => Ok(woven.into_bytes()),
            Ok(_) => Err("what is written differently on both sides does not fit together".to_owned()),
            Err(reason) => Err(format!("what both sides wrote does not fit together: {reason}")),
        }
    }

    /// Returns a text that was merged by lines if it says what it must.
    fn vetted(&mut self, content: Vec<u8>, expected: Id) -> Result<Vec<u8>, Why> {
        let id = std::str::from_utf8(&content)
            .ok()
            .and_then(|text| (self.format.value)(text, &mut self.values).ok());
        if id == Some(expected) {
            Ok(content)
        } else {
            Err(Why::Unsound)
        }
    }
}

/// What the sides are called in reasons.
const SIDES: [&str; 3] = ["the base", "ours", "theirs"];

fn readable(bytes: &[u8]) -> Result<&str, Unread> {
    if bytes.len() > STRUCTURE_LEN_MAX {
        return Err(format!("a side has more than {} MiB", STRUCTURE_LEN_MAX >> 20));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "a side is not UTF-8".to_owned())?;
    // What ends a line is then the same for every format, and for us.
    let is_plain =
        !text.contains('\0') && !text.starts_with('\u{feff}') && !text.replace("\r\n", "\n").contains('\r');
    if is_plain {
        Ok(text)
    } else {
        Err("a side has bytes that are no part of plain text".to_owned())
    }
}
