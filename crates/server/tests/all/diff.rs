//! What differs between branches and checkpoints, asked of their owner.

use crate::world::{Holder, checkpoint_ask, content, create, fork_ask, on_each_tier, open, says};
use tenure_model::record::Source;
use tenure_model::{Ino, Kind, Side};
use tenure_server::Drive;
use tenure_wire::{DiffAsk, Owner};

fn ask(before: &str, after: &str, behind: Ino) -> DiffAsk {
    DiffAsk {
        before: before.into(),
        after: after.into(),
        below: Box::from([]),
        behind,
    }
}

/// Returns what differs, a line for each.
fn told(drive: &Drive, before: &str, after: &str) -> Vec<String> {
    let (mut lines, mut behind) = (Vec::new(), Some(Ino(0)));
    while let Some(ino) = behind {
        let answer = drive.diff(&ask(before, after, ino)).unwrap();
        lines.extend(answer.found.iter().map(|one| {
            let size = |side: &Option<Side>| side.as_ref().map(|side| side.attr.size);
            let path = String::from_utf8_lossy(&one.path);
            format!("{path} {:?} {:?}", size(&one.before), size(&one.after))
        }));
        behind = answer.behind;
    }
    lines.sort();
    lines
}

#[test]
fn what_a_fork_has_changed_is_told_and_read_while_it_is_held_and_by_the_next_owner() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut base = Holder::hosted(&drive, "main");
        for at in 0..20 {
            base.file(&format!("same-{at}"), &content(at, 300));
        }
        let (old, gone) = (content(1, 9000), content(2, 500));
        let file = base.file("file", &old);
        base.file("gone", &gone);
        base.ship();
        drive.checkpoint(&checkpoint_ask("main", "point")).unwrap();
        drive
            .fork(&fork_ask(&Source::Branch(base.id.unwrap()), "try"))
            .unwrap();
        base.file("elsewhere", b"what the fork has not");
        base.ship();
        let mut fork = Holder::hosted(&drive, "try");
        let new = content(3, 12_000);
        fork.write(file, &new);
        fork.unlink("gone");
        fork.file("more", &content(4, 700));
        fork.ship();
        fork.file("later", b"not shipped");
        let expected = [
            "file Some(9000) Some(12000)",
            "gone Some(500) None",
            "more None Some(700)",
        ];
        let hold = |drive: &Drive| {
            assert_eq!(told(drive, "point", "try"), expected);
            let all = told(drive, "main", "try");
            assert_eq!(all, [&["elsewhere Some(21) None"], &expected[..]].concat());
            assert_eq!(drive.contents("point", file, 0, 1 << 20).unwrap(), old);
            assert_eq!(drive.contents("try", file, 11_000, 5000).unwrap(), new[11_000..]);
            assert!(drive.contents("try", file, 12_000, 5000).unwrap().is_empty());
        };
        hold(&drive);
        let refused = says(drive.diff(&ask("main", "no", Ino(0))));
        assert!(refused.contains("no branch or checkpoint no; it has main, point, try"));
        drop((base, fork, drive));
        hold(&open(&bucket));
    });
}

#[test]
fn more_than_can_be_told_at_once_is_told_in_parts() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut base = Holder::hosted(&drive, "main");
        let main = Source::Branch(base.id.unwrap());
        drive.fork(&fork_ask(&main, "empty")).unwrap();
        for at in 0..2500 {
            base.make(Ino::ROOT, &format!("file-{at:04}"), Kind::File);
        }
        base.ship();
        let expected: Vec<_> = (0..2500).map(|at| format!("file-{at:04} None Some(0)")).collect();
        assert_eq!(told(&drive, "empty", "main"), expected);
        let first = drive.diff(&ask("empty", "main", Ino(0))).unwrap();
        assert!(first.found.len() < 2500 && first.behind.is_some());
    });
}
