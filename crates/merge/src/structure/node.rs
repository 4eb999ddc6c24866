//! Where values are written in a text, with the blanks and comments around them.
//!
//! Invariant: all parts of a node one behind the other are its text; so nothing of a file is lost by taking it apart.

use super::values::Id;

/// A value as it is written.
#[derive(Debug)]
pub(crate) struct Node<'t> {
    pub(crate) text: &'t str,
    /// Equal where the values are.
    pub(crate) id: Id,
    /// None of what is taken as a whole.
    pub(crate) group: Option<Group<'t>>,
}

/// A map or a list in its parts.
#[derive(Debug)]
pub(crate) struct Group<'t> {
    pub(crate) kind: Kind,
    pub(crate) style: Style,
    /// What opens it: a bracket, or what is in front of the first entry.
    pub(crate) open: &'t str,
    pub(crate) entries: Vec<Entry<'t>>,
    /// What is behind the last entry: blanks and comments, and a bracket.
    pub(crate) close: &'t str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Map,
    List,
}

/// What separates entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Commas, one behind the last too where `comma_ends` is.
    Commas { comma_ends: bool },
    /// Each ends its line.
    Lines,
}

/// Where an entry may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    Anywhere,
    /// At the beginning of a line.
    Line,
    /// There, and behind all that are no sections: what follows its first line is in it.
    Section,
}

/// An entry of a map or an element of a list.
#[derive(Debug)]
pub(crate) struct Entry<'t> {
    /// What it is called in a map; empty in a list.
    pub(crate) key: Box<str>,
    /// Blanks and comments before it.
    pub(crate) lead: &'t str,
    /// The key as it is written, or the mark of an element.
    pub(crate) name: &'t str,
    /// What is between that and the value.
    pub(crate) joint: &'t str,
    pub(crate) value: Node<'t>,
    /// What is between the value and the comma.
    pub(crate) pause: &'t str,
    /// What belongs to it behind the comma: a comment, the end of the line.
    pub(crate) tail: &'t str,
    pub(crate) stand: Stand,
}

impl Node<'_> {
    /// Returns whether its parts are its text.
    pub(crate) fn is_whole(&self) -> bool {
        let mut rest = Some(self.text);
        self.take_from(&mut rest);
        rest == Some("")
    }

    /// Takes its parts from the beginning of a text, which is none from where that is something else.
    fn take_from(&self, rest: &mut Option<&str>) {
        let Some(group) = &self.group else {
            return take(rest, self.text);
        };
        take(rest, group.open);
        for (at, entry) in group.entries.iter().enumerate() {
            take(rest, entry.lead);
            take(rest, entry.name);
            take(rest, entry.joint);
            entry.value.take_from(rest);
            take(rest, entry.pause);
            if let Style::Commas { comma_ends } = group.style
                && (comma_ends || at + 1 < group.entries.len())
            {
                take(rest, ",");
            }
            take(rest, entry.tail);
        }
        take(rest, group.close);
    }
}

fn take(rest: &mut Option<&str>, part: &str) {
    *rest = rest.and_then(|rest| rest.strip_prefix(part));
}

impl Group<'_> {
    /// Returns whether entries are separated by the same in both.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let has_commas = |group: &Self| matches!(group.style, Style::Commas { .. });
        self.kind == other.kind && has_commas(self) == has_commas(other)
    }

    pub(crate) fn keys(&self) -> Vec<&str> {
        self.entries.iter().map(|entry| &*entry.key).collect()
    }

    pub(crate) fn ids(&self) -> Vec<Id> {
        self.entries.iter().map(|entry| entry.value.id).collect()
    }
}

impl Entry<'_> {
    /// Returns how much it is but for the comma.
    pub(crate) fn parts(&self) -> [&str; 6] {
        [
            self.lead,
            self.name,
            self.joint,
            self.value.text,
            self.pause,
            self.tail,
        ]
    }
}
