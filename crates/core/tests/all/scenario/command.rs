//! The commands of scenarios. A path names an inode; `@x` one that somebody holds under that name.
//!
//! ```text
//! create|mkdir PLACE [mode=] [umask=] [uid=] [gid=]      mknod PLACE KIND [rdev=] [..]     symlink PLACE TARGET
//! tmpfile DIRECTORY NAME [..]     hold INODE NAME        link INODE PLACE     unlink|rmdir PLACE     drop INODE
//! rename PLACE PLACE [replace|noreplace|exchange|whiteout]
//! set INODE [mode=] [uid=] [gid=] [size=] [atime=] [mtime=]
//! write INODE PIECE* [size=] [untimed]     punch|collapse|insert INODE OFFSET LEN     copy INODE OFFSET INODE OFFSET LEN
//! setxattr INODE NAME VALUE [create|replace]     setacl INODE access|default LIST     removexattr INODE NAME
//! stat|ls|xattrs|acl|extents INODE     seek INODE OFFSET     target INODE     orphans     totals
//! fork NAME     on NAME     collide BITS     merge NAME [TEXT]     conflicts
//! ```

use super::notation::{acl, acl_text, bytes, extent, kind, kind_name, number, octal, piece, word};
use super::world::{Answer, World};
use tenure_core::Seek;
use tenure_model::acl::{ACCESS, DEFAULT};
use tenure_model::{
    AttrChange, Ino, Kind, NewNode, Op, Refusal, RenameMode, Timestamp, XattrMode, XattrName,
};

/// A command's words, and what it says of the kind `key=value`.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn at(&self, at: usize) -> &'a str {
        self.0
            .get(at)
            .unwrap_or_else(|| panic!("{:?} lacks a word", self.0))
    }

    fn number(&self, at: usize) -> u64 {
        number(self.at(at))
    }

    fn value(&self, key: &str) -> Option<&'a str> {
        self.0
            .iter()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    fn node(&self, kind: Kind, mode: u32) -> NewNode {
        let id = |key| self.value(key).map_or(0, |id| number(id) as u32);
        NewNode {
            kind,
            mode: self.value("mode").map_or(mode, octal),
            umask: self.value("umask").map_or(0, octal),
            uid: id("uid"),
            gid: id("gid"),
            rdev: id("rdev"),
            target: Box::from([]),
        }
    }

    fn attr_change(&self) -> AttrChange {
        let id = |key| self.value(key).map(|id| number(id) as u32);
        let time = |key| {
            self.value(key).map(|secs| Timestamp {
                secs: number(secs) as i64,
                nanos: 0,
            })
        };
        AttrChange {
            mode: self.value("mode").map(octal),
            uid: id("uid"),
            gid: id("gid"),
            size: self.value("size").map(number),
            atime: time("atime"),
            mtime: time("mtime"),
        }
    }
}

/// Runs one command.
pub(super) fn run(world: &mut World, text: &str) -> Answer {
    let words = Words(text.split_whitespace().collect());
    let done = || Ok(vec!["ok".to_owned()]);
    match words.at(0) {
        "fork" => {
            world.fork(words.at(1));
            done()
        }
        "merge" => Ok(world.merge(words.at(1), words.0.get(2).copied())),
        "on" => {
            world.on = words.at(1).to_owned();
            done()
        }
        "collide" => {
            world.collide(words.number(1) as u32);
            done()
        }
        "hold" => {
            let ino = world.ino(words.at(1))?;
            world.held.insert(words.at(2).to_owned(), ino);
            done()
        }
        "create" | "mkdir" | "mknod" | "symlink" | "tmpfile" | "link" | "unlink" | "rmdir" | "rename"
        | "drop" => {
            let op = entry_op(world, &words)?;
            change(world, &words, &op)
        }
        "set" | "write" | "punch" | "collapse" | "insert" | "copy" => {
            let op = inode_op(world, &words)?;
            change(world, &words, &op)
        }
        "setxattr" | "setacl" | "removexattr" => {
            let op = xattr_op(world, &words)?;
            change(world, &words, &op)
        }
        _ => ask(world, &words),
    }
}

fn change(world: &mut World, words: &Words<'_>, op: &Op) -> Answer {
    let outcome = world.change(op)?;
    if let (Op::CreateUnnamed { ino, .. }, name) = (op, words.0.get(2)) {
        world
            .held
            .insert(name.expect("a tmpfile has a name").to_string(), *ino);
    }
    let view = world.view();
    let mut said = "ok".to_owned();
    if let Some((ino, attr)) = outcome.inode {
        assert_eq!(view.seen[&ino].attr, attr, "the outcome is what is seen");
        said += &format!(", {}", view.name(ino));
    }
    if let Some(ino) = outcome.orphan {
        said += &format!(", orphan {}", view.name(ino));
    }
    Ok(vec![said])
}

fn entry_op(world: &mut World, words: &Words<'_>) -> Result<Op, Refusal> {
    let time = world.time();
    let create = |world: &mut World, node| {
        let (parent, name) = world.place(words.at(1))?;
        Ok(Op::Create {
            parent,
            name,
            ino: world.begin(),
            node,
            time,
        })
    };
    match words.at(0) {
        "create" => create(world, words.node(Kind::File, 0o644)),
        "mkdir" => create(world, words.node(Kind::Directory, 0o755)),
        "mknod" => create(world, words.node(kind(words.at(2)), 0o644)),
        "symlink" => {
            let target = words.0.get(2).map(|target| bytes(target)).unwrap_or_default();
            create(
                world,
                NewNode {
                    target: target.into(),
                    ..words.node(Kind::Symlink, 0o777)
                },
            )
        }
        "tmpfile" => {
            let (parent, node) = (world.ino(words.at(1))?, words.node(Kind::File, 0o600));
            Ok(Op::CreateUnnamed {
                parent,
                ino: world.begin(),
                node,
                time,
            })
        }
        "link" => {
            let (ino, (parent, name)) = (world.ino(words.at(1))?, world.place(words.at(2))?);
            Ok(Op::Link {
                ino,
                parent,
                name,
                time,
            })
        }
        "rename" => {
            let ((from, name), (to, new_name)) = (world.place(words.at(1))?, world.place(words.at(2))?);
            let mode = match words.0.get(3).copied().unwrap_or("replace") {
                "replace" => RenameMode::Replace,
                "noreplace" => RenameMode::NoReplace,
                "exchange" => RenameMode::Exchange,
                "whiteout" => RenameMode::Whiteout(world.begin()),
                other => panic!("{other:?} is no mode of a rename"),
            };
            Ok(Op::Rename {
                from,
                name,
                to,
                new_name,
                mode,
                time,
            })
        }
        "drop" => Ok(Op::Drop {
            ino: world.ino(words.at(1))?,
        }),
        verb => {
            let (parent, name) = world.place(words.at(1))?;
            Ok(if verb == "rmdir" {
                Op::Rmdir { parent, name, time }
            } else {
                Op::Unlink { parent, name, time }
            })
        }
    }
}

fn inode_op(world: &mut World, words: &Words<'_>) -> Result<Op, Refusal> {
    let (ino, time) = (world.ino(words.at(1))?, world.time());
    let range = || (words.number(2), words.number(3));
    Ok(match words.at(0) {
        "set" => Op::SetAttr {
            ino,
            change: words.attr_change(),
            time,
        },
        "write" => {
            let is_piece = |word: &&&str| word.contains(':');
            let pieces = words.0[2..]
                .iter()
                .filter(is_piece)
                .map(|text| piece(text))
                .collect();
            let time = (!words.has("untimed")).then_some(time);
            Op::Write {
                ino,
                pieces,
                size: words.value("size").map_or(0, number),
                time,
            }
        }
        "copy" => {
            let (to, to_offset, len) = (world.ino(words.at(3))?, words.number(4), words.number(5));
            Op::Copy {
                from: ino,
                from_offset: words.number(2),
                to,
                to_offset,
                len,
                time,
            }
        }
        verb => {
            let (offset, len) = range();
            match verb {
                "punch" => Op::Punch {
                    ino,
                    offset,
                    len,
                    time,
                },
                "collapse" => Op::Collapse {
                    ino,
                    offset,
                    len,
                    time,
                },
                _ => Op::Insert {
                    ino,
                    offset,
                    len,
                    time,
                },
            }
        }
    })
}

fn xattr_op(world: &mut World, words: &Words<'_>) -> Result<Op, Refusal> {
    let (ino, time) = (world.ino(words.at(1))?, world.time());
    let mode = match (words.has("create"), words.has("replace")) {
        (true, _) => XattrMode::Create,
        (_, true) => XattrMode::Replace,
        (false, false) => XattrMode::Set,
    };
    if words.at(0) == "setacl" {
        let name = XattrName::parse(if words.at(2) == "access" { ACCESS } else { DEFAULT })?;
        return Ok(Op::SetXattr {
            ino,
            name,
            value: acl(words.at(3)).into(),
            mode,
            time,
        });
    }
    let name = XattrName::parse(&bytes(words.at(2)))?;
    Ok(match words.at(0) {
        "removexattr" => Op::RemoveXattr { ino, name, time },
        _ => Op::SetXattr {
            ino,
            name,
            value: bytes(words.at(3)).into(),
            mode,
            time,
        },
    })
}

/// Answers a question.
fn ask(world: &World, words: &Words<'_>) -> Answer {
    let (branch, pages) = (world.branch(), &world.pages);
    match words.at(0) {
        "orphans" => {
            let view = world.view();
            Ok(pages
                .answer(|| branch.orphans())
                .into_iter()
                .map(|ino| view.name(ino))
                .collect())
        }
        "conflicts" => Ok(world.conflicts()),
        "totals" => {
            let totals = branch.totals();
            Ok(vec![format!("{} inodes, {} bytes", totals.inodes, totals.bytes)])
        }
        _ => ask_inode(world, words, world.ino(words.at(1))?),
    }
}

fn ask_inode(world: &World, words: &Words<'_>, ino: Ino) -> Answer {
    let (branch, pages) = (world.branch(), &world.pages);
    let seen = world.view().seen[&ino].clone();
    match words.at(0) {
        "stat" => {
            let attr = seen.attr;
            let (kind, id) = (kind_name(attr.kind), format!("inode {ino}"));
            let numbers = format!(
                "nlink {}, size {}, allocated {}",
                attr.nlink, attr.size, attr.allocated
            );
            Ok(vec![format!(
                "{id}: {kind} {:o}, {}:{}, {numbers}",
                attr.mode, attr.uid, attr.gid
            )])
        }
        "ls" => Ok(seen
            .entries
            .iter()
            .map(|(name, (_, kind))| format!("{} {}", word(name), kind_name(*kind)))
            .collect()),
        "target" => Ok(vec![word(&pages.ask(|| branch.target(ino))?)]),
        "xattrs" => Ok(seen
            .xattrs
            .iter()
            .map(|(name, value)| format!("{}={}", word(name), word(value)))
            .collect()),
        "acl" => {
            let line = |what, name| Some(format!("{what} {}", acl_text(seen.xattrs.get(name)?)));
            Ok([line("access", ACCESS), line("default", DEFAULT)]
                .into_iter()
                .flatten()
                .collect())
        }
        "extents" => {
            let pieces = pages.answer(|| branch.pieces(ino, 0, u64::MAX));
            Ok(pieces.iter().map(extent).collect())
        }
        "seek" => {
            let offset = words.number(2);
            let seek = |to| pages.ask(|| branch.seek(ino, offset, to));
            let found =
                |found: Result<u64, Refusal>| found.map_or_else(|_| "none".to_owned(), |at| at.to_string());
            let hole = seek(Seek::Hole)?;
            Ok(vec![format!("data {}, hole {hole}", found(seek(Seek::Data)))])
        }
        verb => panic!("{verb:?} is no command"),
    }
}
