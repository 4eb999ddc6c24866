//! What files say as data, and how that is merged.
//!
//! Values that are the same have the same number, so comparing them costs nothing, and lists of them are sequences of tokens.

use super::{Unread, pairing};
use crate::limits::VALUES_MAX;
use crate::sequence::Token;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// A value: two are equal where their numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct Id(u32);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    /// As its format writes it, with what tells a text from a number in front.
    Scalar(Box<str>),
    List(Box<[Id]>),
    /// Ordered by key; none is there twice.
    Map(Box<[(Box<str>, Id)]>),
}

/// The values of some files.
#[derive(Default)]
pub(crate) struct Values {
    ids: HashMap<Value, Id>,
    values: Vec<Value>,
    /// How many were asked for, those that are the same each for itself.
    asked: usize,
}

impl Values {
    pub(crate) fn scalar(&mut self, text: impl Into<Box<str>>) -> Id {
        self.id(Value::Scalar(text.into()))
    }

    pub(crate) fn list(&mut self, elements: impl Into<Box<[Id]>>) -> Id {
        self.id(Value::List(elements.into()))
    }

    /// Returns the map of some entries, or the key that is there twice.
    pub(crate) fn map(&mut self, entries: impl IntoIterator<Item = (Box<str>, Id)>) -> Result<Id, Box<str>> {
        let mut map = BTreeMap::new();
        for (key, value) in entries {
            if map.contains_key(&key) {
                return Err(key);
            }
            map.insert(key, value);
        }
        Ok(self.id(Value::Map(map.into_iter().collect())))
    }

    /// Refuses to go on where there are too many.
    pub(super) fn room(&self) -> Result<(), Unread> {
        if self.asked > VALUES_MAX {
            return Err(format!("there are more than {VALUES_MAX} values"));
        }
        Ok(())
    }

    fn id(&mut self, value: Value) -> Id {
        self.asked += 1;
        if let Some(id) = self.ids.get(&value) {
            return *id;
        }
        let id = Id(u32::try_from(self.values.len()).expect("there are fewer values than bytes in files"));
        self.values.push(value.clone());
        self.ids.insert(value, id);
        id
    }

    pub(crate) fn get(&self, id: Id) -> &Value {
        &self.values[id.0 as usize]
    }

    /// Returns what merging gives, or where both sides changed the same.
    pub(crate) fn merge(&mut self, base: Option<Id>, ours: Id, theirs: Id) -> Result<Id, String> {
        self.merge_at(&mut Place::default(), base, ours, theirs)
    }

    fn merge_at(&mut self, at: &mut Place, base: Option<Id>, ours: Id, theirs: Id) -> Result<Id, String> {
        if let Some(id) = settled(base, ours, theirs) {
            return Ok(id);
        }
        let base_value = base.map(|base| self.get(base).clone());
        match (base_value, self.get(ours).clone(), self.get(theirs).clone()) {
            (None, Value::Map(ours), Value::Map(theirs)) => self.merge_maps(at, &[], &ours, &theirs),
            (Some(Value::Map(base)), Value::Map(ours), Value::Map(theirs)) => {
                self.merge_maps(at, &base, &ours, &theirs)
            }
            (Some(Value::List(base)), Value::List(ours), Value::List(theirs)) => {
                self.merge_lists(at, &base, &ours, &theirs)
            }
            (Some(Value::Scalar(base)), Value::Scalar(ours), Value::Scalar(theirs)) => {
                let lines = merge_lines(&base, &ours, &theirs).ok_or_else(|| at.to_string())?;
                Ok(self.scalar(lines))
            }
            (_, _, _) => Err(at.to_string()),
        }
    }

    fn merge_maps(
        &mut self,
        at: &mut Place,
        base: &[(Box<str>, Id)],
        ours: &[(Box<str>, Id)],
        theirs: &[(Box<str>, Id)],
    ) -> Result<Id, String> {
        let mut keys: Vec<&str> = [base, ours, theirs]
            .into_iter()
            .flatten()
            .map(|(key, _)| &**key)
            .collect();
        keys.sort_unstable();
        keys.dedup();
        let mut merged = Vec::new();
        for key in keys {
            let [base, ours, theirs] = [base, ours, theirs].map(|entries| {
                let place = entries.binary_search_by(|(other, _)| (**other).cmp(key)).ok()?;
                Some(entries[place].1)
            });
            at.push_key(key);
            let value = self.merge_pair(at, base, ours, theirs)?;
            at.pop();
            merged.extend(value.map(|value| (key.into(), value)));
        }
        Ok(self.map(merged).expect("each key was taken once"))
    }

    fn merge_lists(&mut self, at: &mut Place, base: &[Id], ours: &[Id], theirs: &[Id]) -> Result<Id, String> {
        let mut merged = Vec::with_capacity(ours.len());
        let triples = pairing::of_lists(self, base, ours, theirs).map_err(|place| at.element(place))?;
        for triple in triples {
            at.push_element(triple.shown());
            let value = self.merge_pair(
                at,
                triple.base.map(|place| base[place]),
                triple.ours.map(|place| ours[place]),
                triple.theirs.map(|place| theirs[place]),
            )?;
            at.pop();
            merged.extend(value);
        }
        Ok(self.list(merged))
    }

    /// Merges what stands in one place on both sides, or on one, or on none any more.
    fn merge_pair(
        &mut self,
        at: &mut Place,
        base: Option<Id>,
        ours: Option<Id>,
        theirs: Option<Id>,
    ) -> Result<Option<Id>, String> {
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => self.merge_at(at, base, ours, theirs).map(Some),
            (None, None) => Ok(None),
            (Some(one), None) | (None, Some(one)) => match base {
                None => Ok(Some(one)),
                Some(base) if base == one => Ok(None),
                Some(_) => Err(at.removed()),
            },
        }
    }
}

/// Returns what becomes of a value that not both sides changed in their own way.
pub(crate) fn settled(base: Option<Id>, ours: Id, theirs: Id) -> Option<Id> {
    if ours == theirs || base == Some(theirs) {
        Some(ours)
    } else if base == Some(ours) {
        Some(theirs)
    } else {
        None
    }
}

/// Returns the numbers of values as the tokens of a sequence.
pub(crate) fn tokens(ids: &[Id]) -> Vec<Token> {
    ids.iter().map(|id| Token(id.0)).collect()
}

/// Merges texts of several lines by lines.
pub(crate) fn merge_lines(base: &str, ours: &str, theirs: &str) -> Option<String> {
    if ![base, ours, theirs].iter().all(|text| text.contains('\n')) {
        return None;
    }
    let merged = crate::text::merge(Some(base.as_bytes()), ours.as_bytes(), theirs.as_bytes()).ok()?;
    String::from_utf8(merged).ok()
}

/// Where a value is, as keys and places from the top.
#[derive(Default)]
pub(crate) struct Place(Vec<String>);

/// Bytes of a key that are told.
const SHOWN_LEN: usize = 60;

impl Place {
    pub(crate) fn push_key(&mut self, key: &str) {
        let mut step = String::new();
        for c in key.chars().take(SHOWN_LEN) {
            if c.is_control() {
                step.extend(c.escape_default());
            } else {
                step.push(c);
            }
        }
        self.0.push(step);
    }

    pub(crate) fn push_element(&mut self, place: usize) {
        self.0.push(format!("[{place}]"));
    }

    /// Says that both changed an element of the list that is here.
    pub(crate) fn element(&mut self, place: usize) -> String {
        self.push_element(place);
        let shown = self.to_string();
        self.pop();
        shown
    }

    /// Says that one changed what is here, and the other removed it.
    pub(crate) fn removed(&self) -> String {
        format!("{self}, which one of them removed")
    }

    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("all of it");
        }
        for (at, step) in self.0.iter().enumerate() {
            if at > 0 && !step.starts_with('[') {
                f.write_char('.')?;
            }
            f.write_str(step)?;
        }
        Ok(())
    }
}
