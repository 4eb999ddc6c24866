//! `tenure branch tree`: what was made from what, drawn.

use super::{Of, as_json, kept, kind, said};
use crate::clock::MachineClock;
use crate::output;
use anyhow::Result;
use tenure_client::BranchInfo;
use tenure_client::lines::{Descent, lineage};
use tenure_model::{Clock, Timestamp};

pub(super) fn run(of: &Of, all: bool, json: bool) -> Result<()> {
    let mut roots = lineage(of.lines()?);
    if !all {
        roots = roots.into_iter().filter_map(without_automatic).collect();
    }
    if json {
        return output::json(&roots.iter().map(nested).collect::<Vec<_>>());
    }
    output::line(drawing(&roots, MachineClock.now()).join("\n"))
}

/// Leaves out what the drive has made by itself, unless somebody has made something from it.
fn without_automatic(descent: Descent) -> Option<Descent> {
    let made: Vec<_> = descent.made.into_iter().filter_map(without_automatic).collect();
    let is_automatic = descent.line.as_ref().is_ok_and(|line| line.is_automatic);
    (!is_automatic || !made.is_empty()).then_some(Descent {
        line: descent.line,
        made,
    })
}

fn nested(descent: &Descent) -> serde_json::Value {
    let mut value = match &descent.line {
        Ok(line) => as_json(line),
        Err(gone) => serde_json::json!({ "gone": gone }),
    };
    value["made_from_it"] = descent.made.iter().map(nested).collect();
    value
}

/// Returns the lines of the picture.
fn drawing(roots: &[Descent], now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    for root in roots {
        lines.push(words(root, now));
        draw(&root.made, "", now, &mut lines);
    }
    lines
}

fn draw(made: &[Descent], before: &str, now: Timestamp, lines: &mut Vec<String>) {
    for (at, one) in made.iter().enumerate() {
        let is_last = at + 1 == made.len();
        let (corner, below) = if is_last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        lines.push(format!("{before}{corner}{}", words(one, now)));
        draw(&one.made, &format!("{before}{below}"), now, lines);
    }
}

/// Returns what is said of a branch or checkpoint in the picture.
fn words(descent: &Descent, now: Timestamp) -> String {
    let line: &BranchInfo = match &descent.line {
        Ok(line) => line,
        Err(gone) => return format!("({gone}, deleted)"),
    };
    let mut words = line.name.clone();
    if line.branch.is_none() || line.is_stray {
        words = format!("{words} ({})", kind(line));
    }
    if !line.message.is_empty() {
        words = format!("{words} \"{}\"", line.message);
    }
    let rest = [
        said(line),
        line.holder.as_ref().map(|who| format!("held by {who}")),
        kept(line, now),
    ];
    rest.into_iter()
        .flatten()
        .fold(words, |words, word| format!("{words}, {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_model::BranchId;

    fn line(number: u64, name: &str, base: Option<u64>) -> BranchInfo {
        BranchInfo {
            branch: Some(BranchId(number)),
            name: name.into(),
            from: base.map_or_else(String::new, |base| format!("branch {base}")),
            made: Timestamp::default(),
            inodes: 1,
            bytes: 0,
            is_stray: false,
            holder: None,
            message: String::new(),
            line: Some(BranchId(number)),
            base: base.map(BranchId),
            until: None,
            is_automatic: false,
            by: None,
            mark: None,
        }
    }

    fn lines() -> Vec<BranchInfo> {
        let point = |number, is_automatic| BranchInfo {
            branch: None,
            is_automatic,
            ..line(number, &format!("point-{number}"), Some(1))
        };
        vec![
            line(1, "main", None),
            BranchInfo {
                message: "it works".into(),
                ..point(2, false)
            },
            line(3, "try", Some(2)),
            BranchInfo {
                until: Some(Timestamp { secs: 7200, nanos: 0 }),
                ..line(4, "deeper", Some(3))
            },
            point(5, true),
            point(6, true),
            line(7, "saved", Some(6)),
            line(9, "left", Some(8)),
        ]
    }

    #[test]
    fn a_lineage_is_drawn_with_whatever_is_gone() {
        let shown = |all: bool| {
            let roots = lineage(lines());
            let roots: Vec<_> = if all {
                roots
            } else {
                roots.into_iter().filter_map(without_automatic).collect()
            };
            drawing(&roots, Timestamp::default()).join("\n")
        };
        assert_eq!(
            shown(true),
            "\
main
├─ point-2 (checkpoint) \"it works\"
│  └─ try
│     └─ deeper, goes in 2 h
├─ point-5 (checkpoint)
└─ point-6 (checkpoint)
   └─ saved
(branch 8, deleted)
└─ left"
        );
        assert!(!shown(false).contains("point-5"), "nothing was made from it");
        assert!(shown(false).contains("point-6"), "something was made from it");
    }
}
