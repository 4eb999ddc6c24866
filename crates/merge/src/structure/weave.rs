//! Weaves three texts into one: what one side changed is taken as it wrote it, and blanks and comments are merged as the values are.
//!
//! Invariant: a comment that one side wrote or changed is in the result, or it is a conflict.

use super::node::{Entry, Group, Kind, Node, Stand, Style};
use super::pairing::{self, Triple};
use super::values::{Place, Values, merge_lines, settled};
use std::borrow::Cow;

/// Returns the woven text, or why there is none.
pub(crate) fn weave(
    values: &Values,
    base: &Node<'_>,
    ours: &Node<'_>,
    theirs: &Node<'_>,
) -> Result<String, String> {
    let mut loom = Loom {
        values,
        at: Place::default(),
        ending: if ours.text.contains("\r\n") { "\r\n" } else { "\n" },
        out: String::with_capacity(ours.text.len() + theirs.text.len() / 4),
    };
    loom.node(Some(base), ours, theirs)?;
    Ok(loom.out)
}

struct Loom<'v> {
    values: &'v Values,
    at: Place,
    /// What ends a line in ours.
    ending: &'static str,
    out: String,
}

impl Loom<'_> {
    fn node(&mut self, base: Option<&Node<'_>>, ours: &Node<'_>, theirs: &Node<'_>) -> Result<(), String> {
        if let Some(text) = same(base.map(|base| base.text), ours.text, theirs.text) {
            self.out.push_str(text);
            return Ok(());
        }
        let groups = (base.map(|base| base.group.as_ref()), &ours.group, &theirs.group);
        match groups {
            (Some(Some(base)), Some(ours), Some(theirs)) if base.is_like(ours) && base.is_like(theirs) => {
                return self.group(Some(base), ours, theirs);
            }
            (None, Some(ours), Some(theirs)) if ours.is_like(theirs) && ours.kind == Kind::Map => {
                return self.group(None, ours, theirs);
            }
            (_, _, _) => {}
        }
        // Only one side changed the value; the other wrote it differently.
        if let Some(id) = settled(base.map(|base| base.id), ours.id, theirs.id) {
            let taken = if id == ours.id { ours } else { theirs };
            self.out.push_str(taken.text);
            return Ok(());
        }
        let lines = base.and_then(|base| merge_lines(base.text, ours.text, theirs.text));
        let lines = lines.ok_or_else(|| format!("both changed how {} is written", self.at))?;
        self.out.push_str(&lines);
        Ok(())
    }

    fn group(
        &mut self,
        base: Option<&Group<'_>>,
        ours: &Group<'_>,
        theirs: &Group<'_>,
    ) -> Result<(), String> {
        let triples = self.triples(base, ours, theirs)?;
        let kept = triples.iter().filter(|triple| is_kept(**triple)).count();
        let open = self.blanks(base.map(|base| base.open), ours.open, theirs.open)?;
        self.out.push_str(&open);
        let style = style(base, ours, theirs);
        let our_layout = base.and_then(|base| layout(base, ours, theirs));
        let their_layout = base.and_then(|base| layout(base, theirs, ours));
        let mut put = 0;
        for triple in triples {
            let base = base.and_then(|base| triple.base.map(|place| &base.entries[place]));
            let our_entry = triple.ours.map(|place| &ours.entries[place]);
            let their_entry = triple.theirs.map(|place| &theirs.entries[place]);
            match ours.kind {
                Kind::Map => {
                    let any = our_entry.or(their_entry).or(base);
                    self.at.push_key(any.map_or("", |entry| &entry.key));
                }
                Kind::List => self.at.push_element(triple.shown()),
            }
            put += usize::from(is_kept(triple));
            let has_comma = match style {
                Style::Commas { comma_ends } => comma_ends || put < kept,
                Style::Lines => false,
            };
            match (base, our_entry, their_entry) {
                (_, None, None) => {}
                (_, Some(ours), Some(theirs)) => self.both(base, ours, theirs, has_comma)?,
                (None, Some(one), None) => self.put(one, our_layout, has_comma),
                (None, None, Some(one)) => self.put(one, their_layout, has_comma),
                (Some(base), Some(one), None) | (Some(base), None, Some(one)) => {
                    if !is_as_it_was(base, one) {
                        return Err(format!("{} was removed and written differently", self.at));
                    }
                }
            }
            self.at.pop();
        }
        // One that was emptied does not say how one that is not is closed.
        let is_emptied = ours.entries.is_empty() && kept > 0 && words(ours.close) == words(theirs.close);
        let our_close = if is_emptied { theirs.close } else { ours.close };
        let close = self.blanks(base.map(|base| base.close), our_close, theirs.close)?;
        if style == Style::Lines && !close.is_empty() {
            self.end_line();
        }
        self.out.push_str(&close);
        Ok(())
    }

    fn triples(
        &mut self,
        base: Option<&Group<'_>>,
        ours: &Group<'_>,
        theirs: &Group<'_>,
    ) -> Result<Vec<Triple>, String> {
        match ours.kind {
            Kind::Map => {
                let keys = base.map(Group::keys).unwrap_or_default();
                let mut triples = pairing::of_keys(&keys, &ours.keys(), &theirs.keys());
                let entry = |triple: &Triple| {
                    let ours = triple.ours.map(|place| &ours.entries[place]);
                    ours.or(triple.theirs.map(|place| &theirs.entries[place]))
                };
                triples
                    .sort_by_key(|triple| entry(triple).is_some_and(|entry| entry.stand == Stand::Section));
                Ok(triples)
            }
            Kind::List => {
                let ids = base.map(Group::ids).unwrap_or_default();
                let triples = pairing::of_lists(self.values, &ids, &ours.ids(), &theirs.ids());
                triples.map_err(|place| format!("both changed how {} is written", self.at.element(place)))
            }
        }
    }

    fn both(
        &mut self,
        base: Option<&Entry<'_>>,
        ours: &Entry<'_>,
        theirs: &Entry<'_>,
        has_comma: bool,
    ) -> Result<(), String> {
        let lead = self.blanks(base.map(|base| base.lead), ours.lead, theirs.lead)?;
        let is_theirs = lead == theirs.lead && lead != ours.lead;
        self.stand(if is_theirs { theirs.stand } else { ours.stand });
        self.out.push_str(&lead);
        let name = same(base.map(|base| base.name), ours.name, theirs.name).unwrap_or(ours.name);
        self.out.push_str(name);
        let joint = self.blanks(base.map(|base| base.joint), ours.joint, theirs.joint)?;
        self.out.push_str(&joint);
        self.node(base.map(|base| &base.value), &ours.value, &theirs.value)?;
        let pause = self.blanks(base.map(|base| base.pause), ours.pause, theirs.pause)?;
        self.out.push_str(&pause);
        if has_comma {
            self.out.push(',');
        }
        let tail = self.blanks(base.map(|base| base.tail), ours.tail, theirs.tail)?;
        self.out.push_str(&tail);
        Ok(())
    }

    /// Puts what only one side has, laid out as the other lays out its entries where that has changed it.
    fn put(&mut self, entry: &Entry<'_>, layout: Option<&Entry<'_>>, has_comma: bool) {
        self.stand(entry.stand);
        let [mut lead, name, mut joint, value, pause, tail] = entry.parts();
        if let Some(layout) = layout.filter(|_| lead.trim().is_empty()) {
            (lead, joint) = (layout.lead, layout.joint);
        }
        for part in [lead, name, joint, value, pause] {
            self.out.push_str(part);
        }
        if has_comma {
            self.out.push(',');
        }
        self.out.push_str(tail);
    }

    fn stand(&mut self, stand: Stand) {
        match stand {
            Stand::Anywhere => {}
            Stand::Line | Stand::Section => self.end_line(),
        }
    }

    fn end_line(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push_str(self.ending);
        }
    }

    /// Merges blanks and comments.
    fn blanks<'t>(
        &self,
        base: Option<&'t str>,
        ours: &'t str,
        theirs: &'t str,
    ) -> Result<Cow<'t, str>, String> {
        if let Some(text) = same(base, ours, theirs) {
            return Ok(Cow::Borrowed(text));
        }
        // What is only laid out differently is laid out as ours.
        let [base_words, our_words, their_words] = [base.unwrap_or_default(), ours, theirs].map(words);
        if their_words == our_words || their_words == base_words {
            return Ok(Cow::Borrowed(ours));
        }
        if our_words == base_words {
            return Ok(Cow::Borrowed(theirs));
        }
        let merged = base.and_then(|base| merge_lines(base, ours, theirs));
        merged
            .map(Cow::Owned)
            .ok_or_else(|| format!("both changed the comments at {}", self.at))
    }
}

fn is_kept(triple: Triple) -> bool {
    match (triple.ours, triple.theirs) {
        (Some(_), Some(_)) => true,
        (None, None) => false,
        // What one side removed is removed, or it is a conflict.
        (Some(_), None) | (None, Some(_)) => triple.base.is_none(),
    }
}

/// Returns an entry of `other` after which those that only `own` has are laid out: one that is on a line of its own where they were
/// not, or the other way.
fn layout<'g, 't>(base: &Group<'_>, own: &Group<'_>, other: &'g Group<'t>) -> Option<&'g Entry<'t>> {
    let has_lines = |group: &Group<'_>| group.entries.first().map(|entry| entry.lead.contains('\n'));
    let is_laid_out_anew = has_lines(base) == has_lines(own) && has_lines(base) != has_lines(other);
    let plain = |entry: &&Entry<'_>| entry.lead.trim().is_empty() && entry.joint.trim().len() <= 1;
    let has_commas = matches!(base.style, Style::Commas { .. });
    other
        .entries
        .last()
        .filter(plain)
        .filter(|_| is_laid_out_anew && has_commas)
}

/// Returns whether an entry is what it was, in all but blanks.
fn is_as_it_was(base: &Entry<'_>, entry: &Entry<'_>) -> bool {
    base.value.id == entry.value.id && base.parts().map(words) == entry.parts().map(words)
}

/// Returns a text without its blanks.
fn words(text: &str) -> String {
    text.split_whitespace().collect()
}

fn style(base: Option<&Group<'_>>, ours: &Group<'_>, theirs: &Group<'_>) -> Style {
    match base {
        Some(base) if base.style == ours.style => theirs.style,
        Some(_) | None => ours.style,
    }
}

/// Returns what becomes of a text that not both sides changed in their own way.
fn same<'t>(base: Option<&str>, ours: &'t str, theirs: &'t str) -> Option<&'t str> {
    if ours == theirs || base == Some(theirs) {
        Some(ours)
    } else if base == Some(ours) {
        Some(theirs)
    } else {
        None
    }
}
