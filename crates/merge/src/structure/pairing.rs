//! Which elements and entries of three files are the same thing, and the order in which they are afterwards.
//!
//! Entries of maps are so by their key. Elements of lists are so by their value; where all are maps with a name, by that. A list whose names
//! are in order is taken as a map, since the order says where a new element belongs.

use super::values::{Id, Value, Values, tokens};
use crate::sequence::{self, By, Run, Token};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// What is one thing: its places on the sides that have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Triple {
    pub(crate) base: Option<usize>,
    pub(crate) ours: Option<usize>,
    pub(crate) theirs: Option<usize>,
}

impl Triple {
    /// Returns the place of it that is told: ours if there is one.
    pub(crate) fn shown(self) -> usize {
        self.ours.or(self.theirs).or(self.base).unwrap_or_default()
    }
}

/// Pairs the entries of maps, in the order in which they are afterwards. No side has a key twice.
pub(crate) fn of_keys(base: &[&str], ours: &[&str], theirs: &[&str]) -> Vec<Triple> {
    let [in_base, in_ours, in_theirs] = [base, ours, theirs].map(|keys| {
        let places = keys.iter().enumerate().map(|(place, key)| (*key, place));
        places.collect::<HashMap<_, _>>()
    });
    let gone = base
        .iter()
        .filter(|key| !in_ours.contains_key(*key) && !in_theirs.contains_key(*key));
    let kept = order(&in_base, base, ours, theirs);
    let triple = |key: &&str| Triple {
        base: in_base.get(key).copied(),
        ours: in_ours.get(key).copied(),
        theirs: in_theirs.get(key).copied(),
    };
    gone.chain(&kept).map(triple).collect()
}

/// Returns every key that a side has: as one side orders them, and each that only the other has behind what it follows there.
fn order<'k>(
    in_base: &HashMap<&str, usize>,
    base: &[&'k str],
    ours: &[&'k str],
    theirs: &[&'k str],
) -> Vec<&'k str> {
    if [ours, theirs]
        .iter()
        .all(|keys| keys.len() > 1 && keys.is_sorted())
        && base.is_sorted()
    {
        let keys: BTreeSet<&str> = ours.iter().chain(theirs).copied().collect();
        return keys.into_iter().collect();
    }
    let is_as_in_base = |keys: &[&str]| keys.iter().filter_map(|key| in_base.get(key)).is_sorted();
    let (first, second) = if is_as_in_base(ours) && !is_as_in_base(theirs) {
        (theirs, ours)
    } else {
        (ours, theirs)
    };
    let [in_first, in_second] = [first, second].map(|keys| keys.iter().copied().collect::<BTreeSet<&str>>());
    // What only the second has, by what it follows there that the first has too.
    let mut behind: BTreeMap<Option<&str>, Vec<&'k str>> = BTreeMap::new();
    let mut last = None;
    for key in second {
        if in_first.contains(key) {
            last = Some(*key);
        } else {
            behind.entry(last).or_default().push(key);
        }
    }
    let mut merged = Vec::with_capacity(first.len() + second.len());
    let mut waiting = behind.remove(&None).unwrap_or_default();
    for key in first {
        // What the first added in the same place comes first.
        if in_base.contains_key(key) || in_second.contains(key) {
            merged.append(&mut waiting);
        }
        merged.push(*key);
        waiting.extend(behind.remove(&Some(*key)).into_iter().flatten());
    }
    merged.append(&mut waiting);
    merged
}

/// Pairs the elements of lists, in the order in which they are afterwards; or returns the place in ours where that cannot be said.
pub(crate) fn of_lists(
    values: &Values,
    base: &[Id],
    ours: &[Id],
    theirs: &[Id],
) -> Result<Vec<Triple>, usize> {
    let sides = [base, ours, theirs];
    let Some(names) = names(values, sides) else {
        let runs = sequence::merge(&tokens(base), &tokens(ours), &tokens(theirs)).ok_or(0_usize)?;
        let is_whole = |places: &Places| {
            let unchanged = |(base, other): (usize, usize), list: &[Id]| sides[0][base] == list[other];
            let same = unchanged((places.0, places.1), ours) && unchanged((places.0, places.2), theirs);
            same || !matches!(values.get(sides[0][places.0]), Value::Scalar(_))
        };
        return from_runs(&runs, is_whole);
    };
    let [base_names, our_names, their_names] = &names;
    if names.iter().all(|names| names.is_sorted()) {
        let [base, ours, theirs] = names
            .each_ref()
            .map(|names| names.iter().map(|name| &**name).collect::<Vec<_>>());
        return Ok(of_keys(&base, &ours, &theirs));
    }
    let mut known = HashMap::new();
    let mut tokens = |names: &[String]| {
        let token = |name: &String| {
            let next = known.len() as u32;
            Token(*known.entry(name.clone()).or_insert(next))
        };
        names.iter().map(token).collect::<Vec<_>>()
    };
    let runs =
        sequence::merge(&tokens(base_names), &tokens(our_names), &tokens(their_names)).ok_or(0_usize)?;
    // What has another name is another thing.
    from_runs(&runs, |_| false)
}

/// Places in the base, ours and theirs.
struct Places(usize, usize, usize);

fn from_runs(runs: &[Run], is_one_thing: impl Fn(&Places) -> bool) -> Result<Vec<Triple>, usize> {
    let mut triples = Vec::new();
    for run in runs {
        let alone = |range: &Range<usize>| range.clone().map(Some);
        match run.by {
            By::Nobody => triples.extend(all(run)),
            By::Ours => {
                triples.extend(
                    run.base
                        .clone()
                        .zip(run.theirs.clone())
                        .map(|(base, theirs)| Triple {
                            base: Some(base),
                            ours: None,
                            theirs: Some(theirs),
                        }),
                );
                triples.extend(alone(&run.ours).map(|ours| Triple {
                    base: None,
                    ours,
                    theirs: None,
                }));
            }
            By::Theirs => {
                triples.extend(run.base.clone().zip(run.ours.clone()).map(|(base, ours)| Triple {
                    base: Some(base),
                    ours: Some(ours),
                    theirs: None,
                }));
                triples.extend(alone(&run.theirs).map(|theirs| Triple {
                    base: None,
                    ours: None,
                    theirs,
                }));
            }
            By::BothAlike => triples.extend(run.ours.clone().zip(run.theirs.clone()).map(
                |(ours, theirs)| Triple {
                    base: None,
                    ours: Some(ours),
                    theirs: Some(theirs),
                },
            )),
            By::Both => {
                let is_even = run.base.len() == run.ours.len() && run.base.len() == run.theirs.len();
                let one_by_one = run.base.clone().zip(run.ours.clone()).zip(run.theirs.clone());
                let mut places = one_by_one.map(|((base, ours), theirs)| Places(base, ours, theirs));
                if !is_even || !places.all(|places| is_one_thing(&places)) {
                    return Err(run.ours.start);
                }
                triples.extend(all(run));
            }
        }
    }
    Ok(triples)
}

/// Returns the triples of a run that is as long on each side.
fn all(run: &Run) -> impl Iterator<Item = Triple> {
    let one_by_one = run.base.clone().zip(run.ours.clone()).zip(run.theirs.clone());
    one_by_one.map(|((base, ours), theirs)| Triple {
        base: Some(base),
        ours: Some(ours),
        theirs: Some(theirs),
    })
}

/// By what elements of lists are called, the first that tells all elements of each side apart.
const NAMES: &[&[&str]] = &[&["name"], &["id"], &["key"], &["name", "version"]];

/// Returns how the elements of each side are called, if all are maps that have a name of their own.
fn names(values: &Values, sides: [&[Id]; 3]) -> Option<[Vec<String>; 3]> {
    NAMES.iter().find_map(|keys| {
        let [base, ours, theirs] = sides.map(|side| {
            let names: Option<Vec<String>> = side.iter().map(|id| name(values, *id, keys)).collect();
            names.filter(|names| names.iter().collect::<BTreeSet<_>>().len() == names.len())
        });
        Some([base?, ours?, theirs?])
    })
}

fn name(values: &Values, id: Id, keys: &[&str]) -> Option<String> {
    let Value::Map(entries) = values.get(id) else {
        return None;
    };
    let mut name = String::new();
    for key in keys {
        let place = entries.binary_search_by(|(other, _)| (**other).cmp(key)).ok()?;
        let Value::Scalar(value) = values.get(entries[place].1) else {
            return None;
        };
        name.push_str(value);
        // Below what texts have, so that names are ordered as their parts are.
        name.push('\0');
    }
    Some(name)
}
