//! What a command has changed, in words.

use super::notation::{kind_name, word};
use crate::reference::Seen;
use std::collections::BTreeMap;
use tenure_model::{Attr, Ino};

/// Everything that can be seen, and what it is called.
#[derive(Clone)]
pub(super) struct View {
    pub(super) seen: BTreeMap<Ino, Seen>,
    names: BTreeMap<Ino, String>,
}

impl View {
    /// Returns the view; inodes without an entry are called as somebody who holds them does.
    pub(super) fn new(seen: BTreeMap<Ino, Seen>, held: &BTreeMap<String, Ino>) -> Self {
        let mut names: BTreeMap<Ino, String> = BTreeMap::from([(Ino::ROOT, "/".to_owned())]);
        let mut next = vec![(Ino::ROOT, String::new())];
        while let Some((ino, path)) = next.pop() {
            for (name, (child, _)) in &seen[&ino].entries {
                let path = format!("{path}/{}", word(name));
                names.entry(*child).or_insert_with(|| {
                    next.push((*child, path.clone()));
                    path
                });
            }
        }
        for (name, ino) in held {
            names.entry(*ino).or_insert_with(|| format!("@{name}"));
        }
        Self { seen, names }
    }

    pub(super) fn name(&self, ino: Ino) -> String {
        self.names.get(&ino).cloned().unwrap_or_else(|| format!("#{ino}"))
    }
}

/// Returns a line for each inode that differs, below the command that made the difference.
pub(super) fn changes(before: &View, after: &View) -> String {
    let mut lines = String::new();
    for (ino, old) in &before.seen {
        if !after.seen.contains_key(ino) {
            lines += &format!("  {}: gone\n", before.name(*ino));
        } else if after.seen[ino] != *old {
            let words = differences((before, old), (after, &after.seen[ino]));
            lines += &format!("  {}: {}\n", after.name(*ino), words.join(", "));
        }
    }
    for (ino, new) in after
        .seen
        .iter()
        .filter(|(ino, _)| !before.seen.contains_key(ino))
    {
        lines += &format!("  {}: new {}\n", after.name(*ino), described(new));
    }
    lines
}

fn described(seen: &Seen) -> String {
    let Attr {
        kind,
        mode,
        nlink,
        uid,
        gid,
        rdev,
        size,
        ..
    } = seen.attr;
    let mut words = vec![
        format!("{} {mode:o}", kind_name(kind)),
        format!("{uid}:{gid}"),
        format!("nlink {nlink}"),
    ];
    if rdev > 0 {
        words.push(format!("rdev {rdev}"));
    }
    if size > 0 {
        words.push(format!("size {size}"));
    }
    words.extend(seen.xattrs.keys().map(|name| format!("+{}", word(name))));
    words.join(", ")
}

fn differences((before, old): (&View, &Seen), (after, new): (&View, &Seen)) -> Vec<String> {
    let mut words = Vec::new();
    for name in old.entries.keys().filter(|name| !new.entries.contains_key(*name)) {
        words.push(format!("-{}", word(name)));
    }
    for (name, entry) in &new.entries {
        match old.entries.get(name) {
            None => words.push(format!("+{}", word(name))),
            Some(was) if was != entry => words.push(format!("{} is another", word(name))),
            Some(_) => {}
        }
    }
    let (was, is) = (&old.attr, &new.attr);
    let mut number = |what: &str, was: String, is: String| {
        if was != is {
            words.push(format!("{what} {was} > {is}"));
        }
    };
    number("mode", format!("{:o}", was.mode), format!("{:o}", is.mode));
    number(
        "owner",
        format!("{}:{}", was.uid, was.gid),
        format!("{}:{}", is.uid, is.gid),
    );
    number("nlink", was.nlink.to_string(), is.nlink.to_string());
    number("size", was.size.to_string(), is.size.to_string());
    number("allocated", was.allocated.to_string(), is.allocated.to_string());
    // Where anything else is shows in its names.
    if was.is_directory() && was.parent != is.parent {
        number("parent", before.name(was.parent), after.name(is.parent));
    }
    for name in old.xattrs.keys().filter(|name| !new.xattrs.contains_key(*name)) {
        words.push(format!("-{}", word(name)));
    }
    for (name, _) in new
        .xattrs
        .iter()
        .filter(|(name, value)| old.xattrs.get(*name) != Some(value))
    {
        let sign = if old.xattrs.contains_key(name) { "~" } else { "+" };
        words.push(format!("{sign}{}", word(name)));
    }
    if old.bytes != new.bytes && was.size == is.size && was.allocated == is.allocated {
        words.push("content".to_owned());
    }
    for (what, was, is) in [
        ("atime", was.atime, is.atime),
        ("mtime", was.mtime, is.mtime),
        ("ctime", was.ctime, is.ctime),
    ] {
        if was != is {
            words.push(what.to_owned());
        }
    }
    assert_eq!(was.btime, is.btime, "an inode is born once");
    assert_eq!(was.kind, is.kind, "an inode stays what it is");
    words
}
