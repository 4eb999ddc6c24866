//! Everything that can be seen of a branch through its own questions.

use crate::reference::{Byte, Seen, bytes_of};
use crate::stored::Pages;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use tenure_core::{Branch, Seek};
use tenure_model::{Attr, Ino, Kind, Name, Refusal};

/// Bytes that are looked at in a file; what lies behind them is as good as the same.
const SEEN_MAX: u64 = 4096;

/// Returns what can be seen of every inode that is reachable, by a name or as an orphan.
pub(crate) fn see(pages: &Pages, branch: &Branch) -> BTreeMap<Ino, Seen> {
    let mut seen = BTreeMap::new();
    let mut next = pages.answer(|| branch.orphans());
    next.push(Ino::ROOT);
    while let Some(ino) = next.pop() {
        seen.entry(ino).or_insert_with(|| {
            let inode = see_inode(pages, branch, ino);
            next.extend(inode.entries.values().map(|(ino, _)| *ino));
            inode
        });
    }
    seen
}

fn see_inode(pages: &Pages, branch: &Branch, ino: Ino) -> Seen {
    let attr = pages.answer(|| branch.attr(ino)).expect("what is named is there");
    let target = pages.ask(|| branch.target(ino));
    assert_eq!(
        target.is_ok(),
        attr.kind == Kind::Symlink,
        "only symlinks have a target"
    );
    Seen {
        entries: see_entries(pages, branch, ino),
        target: target.map(Vec::from).unwrap_or_default(),
        xattrs: see_xattrs(pages, branch, ino),
        bytes: if attr.kind == Kind::File {
            see_bytes(pages, branch, ino, &attr)
        } else {
            Vec::new()
        },
        attr,
    }
}

fn see_entries(pages: &Pages, branch: &Branch, parent: Ino) -> BTreeMap<Vec<u8>, (Ino, Kind)> {
    let mut entries = BTreeMap::new();
    let mut after = 0;
    pages.answer(|| {
        branch.list(parent, after, |entry| {
            assert!(after < entry.cookie, "cookies rise");
            after = entry.cookie;
            let before = entries.insert(entry.name.to_vec(), (entry.ino, entry.kind));
            assert!(before.is_none(), "a name is listed once");
            ControlFlow::Continue(())
        })
    });
    for (name, (ino, _)) in &entries {
        let name = Name::parse(name).expect("only names are listed");
        assert_eq!(
            pages.ask(|| branch.lookup(parent, &name)),
            Ok(*ino),
            "what is listed is found"
        );
    }
    entries
}

fn see_xattrs(pages: &Pages, branch: &Branch, ino: Ino) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = Vec::new();
    let listed = pages.ask(|| {
        names.clear();
        branch.xattrs(ino, |name| names.push(name.to_vec()))
    });
    listed.expect("the inode is there");
    let value = |name: &Vec<u8>| {
        pages
            .ask(|| branch.xattr(ino, name))
            .expect("what is listed is found")
            .into()
    };
    names.iter().map(|name| (name.clone(), value(name))).collect()
}

fn see_bytes(pages: &Pages, branch: &Branch, ino: Ino, attr: &Attr) -> Vec<Byte> {
    let size = attr.size.min(SEEN_MAX);
    let mut bytes = vec![None; size as usize];
    for piece in pages.answer(|| branch.pieces(ino, 0, size)) {
        let part = &mut bytes[piece.offset as usize..piece.end() as usize];
        assert!(part.iter().all(Option::is_none), "pieces do not overlap");
        part.copy_from_slice(&bytes_of(&piece.extent));
    }
    if size == attr.size {
        (0..size + 2)
            .step_by(7)
            .for_each(|offset| see_part(pages, branch, ino, &bytes, offset));
    }
    bytes
}

/// Holds a part of a file, and what lies behind it, against all of it.
fn see_part(pages: &Pages, branch: &Branch, ino: Ino, bytes: &[Byte], offset: u64) {
    let at = offset as usize;
    let end = bytes.len().min(at + 20).max(at);
    let mut part = vec![None; end - at];
    for piece in pages.answer(|| branch.pieces(ino, offset, end as u64)) {
        let (from, to) = (piece.offset as usize - at, piece.end() as usize - at);
        part[from..to].copy_from_slice(&bytes_of(&piece.extent));
    }
    assert_eq!(
        part,
        bytes.get(at..end).unwrap_or_default(),
        "a part is a part of the whole"
    );

    let next = |is_wanted: fn(&Byte) -> bool| {
        bytes
            .iter()
            .skip(at)
            .position(is_wanted)
            .map(|ahead| offset + ahead as u64)
    };
    let (data, hole) = match at < bytes.len() {
        true => (
            next(Option::is_some),
            Some(next(Option::is_none).unwrap_or(bytes.len() as u64)),
        ),
        false => (None, None),
    };
    let seek = |to| pages.ask(|| branch.seek(ino, offset, to));
    assert_eq!(
        seek(Seek::Data),
        data.ok_or(Refusal::NoSuchOffset),
        "data from {offset}"
    );
    assert_eq!(
        seek(Seek::Hole),
        hole.ok_or(Refusal::NoSuchOffset),
        "a hole from {offset}"
    );
}
