//! How a difference is printed for a person, with the lines of text that differ, as `patch` takes them.
//!
//! Invariant: what a file holds does nothing to a terminal; a program that reads a pipe gets the bytes as they are.

use super::{details, paths, what};
use crate::output;
use crate::reach::AnyOwner;
use anyhow::Result;
use similar::{ChangeTag, TextDiff};
use std::time::Duration;
use tenure_model::limits::CHUNK_LEN_MAX;
use tenure_model::{Difference, Kind, Side};

/// Bytes of a file that is compared line by line; nobody reads the differences of a longer one.
const TEXT_LEN_MAX: u64 = 1 << 20;
/// Lines around those that differ, as `diff -u` has them.
const CONTEXT: usize = 3;
/// How long the shortest way from one text to the other is looked for; then a longer one will do.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// Bytes among which a file that is no text has a zero, as git decides it.
const PROBE_LEN: usize = 8000;

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const CYAN: &str = "\x1b[36m";

/// Reads what a side of a difference holds.
pub(super) type Read<'a> = dyn Fn(&Side) -> Result<Vec<u8>> + 'a;

/// Returns the bytes of a file of a branch or checkpoint.
pub(super) fn read(owner: &AnyOwner, name: &str, side: &Side) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let part = owner.contents(name, side.ino, bytes.len() as u64, CHUNK_LEN_MAX as u32)?;
        // One that grows while it is read is text no longer than what was told.
        if part.is_empty() || bytes.len() as u64 > TEXT_LEN_MAX {
            return Ok(bytes);
        }
        bytes.extend(part);
    }
}

/// Prints a line for a difference and, where both sides are text, what differs in it.
pub(super) fn print(one: &Difference, before: &Read<'_>, after: &Read<'_>) -> Result<()> {
    let (is_terminal, has_colours) = output::seen();
    let page = Page {
        is_terminal,
        has_colours,
    };
    let mut out = Vec::new();
    let head = format!("{}  {}  {}", what(one), paths(one), details(one));
    page.put(&mut out, BOLD, head.trim_end().as_bytes());
    out.push(b'\n');
    let is_compared = one.content_differs || one.before.is_none() || one.after.is_none();
    let mut texts = None;
    if is_compared
        && let Some(old) = text(one.before.as_ref(), before)?
        && let Some(new) = text(one.after.as_ref(), after)?
    {
        texts = Some((old, new));
    }
    for line in header(one, is_compared && texts.is_none()) {
        page.put(&mut out, BOLD, line.as_bytes());
    }
    if let Some((old, new)) = texts {
        page.hunks(&mut out, one, &old, &new);
    }
    output::raw(&out)
}

/// Returns a side's text, which is empty where there is none; none where it is not text.
fn text(side: Option<&Side>, read: &Read<'_>) -> Result<Option<Vec<u8>>> {
    let Some(side) = side else {
        return Ok(Some(Vec::new()));
    };
    if side.attr.kind != Kind::File || side.attr.size > TEXT_LEN_MAX {
        return Ok(None);
    }
    let bytes = read(side)?;
    let is_text = !bytes.iter().take(PROBE_LEN).any(|byte| *byte == 0);
    Ok(Some(bytes).filter(|_| is_text))
}

/// Returns the lines with which git begins what it says of a file, by which `patch` knows that another one begins, that it is new, gone or
/// renamed, and what its mode is. None of what is no file: neither renames directories.
fn header(one: &Difference, is_binary: bool) -> Vec<String> {
    let is_other = |side: &Option<Side>| side.as_ref().is_some_and(|side| side.attr.kind != Kind::File);
    if is_other(&one.before) || is_other(&one.after) {
        return Vec::new();
    }
    // Where two names stand in a line, only quotes tell where one ends that has blanks.
    let name = |tree: &str, name: &[u8]| match quoted(tree, name).strip_suffix('\t') {
        Some(with_blanks) => format!("\"{with_blanks}\""),
        None => quoted(tree, name),
    };
    let was_at = one.moved_from.as_ref().unwrap_or(&one.path);
    let (old, new) = (name("a/", was_at), name("b/", &one.path));
    let mut lines = vec![format!("diff --git {old} {new}\n")];
    match (mode(&one.before), mode(&one.after)) {
        // Without its text it must not be made as an empty one, or taken away.
        (None, _) | (_, None) if is_binary => {}
        (None, Some(mode)) => lines.push(format!("new file mode {mode}\n")),
        (Some(mode), None) => lines.push(format!("deleted file mode {mode}\n")),
        (Some(before), Some(after)) if before != after => {
            lines.push(format!("old mode {before}\n"));
            lines.push(format!("new mode {after}\n"));
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
    if one.moved_from.is_some() {
        lines.push(format!("rename from {}\n", name("", was_at)));
        lines.push(format!("rename to {}\n", name("", &one.path)));
    }
    if is_binary {
        lines.push(format!("Binary files {old} and {new} differ\n"));
    }
    lines
}

/// Returns the mode of a file as git knows it.
fn mode(side: &Option<Side>) -> Option<&'static str> {
    let may_run = side.as_ref()?.attr.mode & 0o100 > 0;
    Some(if may_run { "100755" } else { "100644" })
}

/// Returns a file's name in a patch, as git writes it and `patch` reads it: between quotes where a byte would end it or do something, and
/// before a tab where only that tells where it ends.
fn quoted(tree: &str, name: &[u8]) -> String {
    let is_plain = |byte: &u8| (b' '..0x7f).contains(byte) && !matches!(byte, b'"' | b'\\');
    if name.iter().all(is_plain) {
        let end = if name.contains(&b' ') { "\t" } else { "" };
        return format!("{tree}{}{end}", String::from_utf8_lossy(name));
    }
    let escaped = |byte: &u8| match byte {
        b'\n' => "\\n".to_owned(),
        b'\t' => "\\t".to_owned(),
        b'"' | b'\\' => format!("\\{}", char::from(*byte)),
        byte if is_plain(byte) => char::from(*byte).to_string(),
        byte => format!("\\{byte:03o}"),
    };
    format!("\"{tree}{}\"", name.iter().map(escaped).collect::<String>())
}

/// What is printed on.
struct Page {
    is_terminal: bool,
    has_colours: bool,
}

impl Page {
    fn hunks(&self, out: &mut Vec<u8>, one: &Difference, old: &[u8], new: &[u8]) {
        let [old, new] =
            [old, new].map(|text| text.split_inclusive(|byte| *byte == b'\n').collect::<Vec<_>>());
        let diff = TextDiff::configure()
            .timeout(LOOK_MAX)
            .newline_terminated(true)
            .diff_slices(&old, &new);
        let mut unified = diff.unified_diff();
        unified.context_radius(CONTEXT);
        let name = |side: &Option<Side>, tree: &str, bytes: &[u8]| {
            side.as_ref()
                .map_or_else(|| "/dev/null".to_owned(), |_| quoted(tree, bytes))
        };
        let was_at = one.moved_from.as_ref().unwrap_or(&one.path);
        let names = [
            format!("--- {}\n", name(&one.before, "a/", was_at)),
            format!("+++ {}\n", name(&one.after, "b/", &one.path)),
        ];
        for (at, hunk) in unified.iter_hunks().enumerate() {
            if at == 0 {
                names.iter().for_each(|name| self.put(out, BOLD, name.as_bytes()));
            }
            self.put(out, CYAN, format!("{}\n", hunk.header()).as_bytes());
            for change in hunk.iter_changes() {
                let (sign, colour) = match change.tag() {
                    ChangeTag::Delete => (b'-', RED),
                    ChangeTag::Insert => (b'+', GREEN),
                    ChangeTag::Equal => (b' ', ""),
                };
                let mut line = vec![sign];
                line.extend_from_slice(change.value());
                if !line.ends_with(b"\n") {
                    line.extend_from_slice(b"\n\\ No newline at end of file\n");
                }
                self.put(out, colour, &line);
            }
        }
    }

    /// Puts text in a colour where there are colours, and on a terminal without what would do something to it.
    fn put(&self, out: &mut Vec<u8>, colour: &str, text: &[u8]) {
        if !self.is_terminal {
            return out.extend_from_slice(text);
        }
        let colour = if self.has_colours { colour } else { "" };
        let (line, end) = match text.strip_suffix(b"\n") {
            Some(line) => (line, &b"\n"[..]),
            None => (text, &b""[..]),
        };
        out.extend_from_slice(colour.as_bytes());
        for c in String::from_utf8_lossy(line).chars() {
            if c.is_control() && !matches!(c, '\t' | '\n') {
                out.extend(c.escape_default().to_string().bytes());
            } else {
                out.extend(c.encode_utf8(&mut [0; 4]).bytes());
            }
        }
        if !colour.is_empty() {
            out.extend_from_slice(b"\x1b[0m");
        }
        out.extend_from_slice(end);
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_name_in_a_patch_is_quoted_as_git_does() {
        for (name, shown) in [
            (&b"src/main.rs"[..], "a/src/main.rs"),
            (b"my file", "a/my file\t"),
            (b"na\nme", r#""a/na\nme""#),
            (b"a\"b\\c\td", r#""a/a\"b\\c\td""#),
            ("\u{e4}".as_bytes(), r#""a/\303\244""#),
            (b"\x1b[2J", r#""a/\033[2J""#),
        ] {
            assert_eq!(quoted("a/", name), shown);
        }
    }
}
