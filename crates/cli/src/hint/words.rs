//! What helps against what the rooms below say in words: they know no commands, and not which drive a person has named.

use crate::place::Place;
use std::sync::OnceLock;
use tenure_model::DriveName;

/// What the store and the journal say of what they cannot read, though nothing is wrong with it.
pub(crate) const NEWER: &str = "use a newer tenure";
/// What helps then.
pub(crate) const NEWER_HINT: &str =
    "tenure --version tells which release this is; the one that has written there reads it";

/// The drive that the command is about, with the options that find it: a command is about one.
static MEANT: OnceLock<Meant> = OnceLock::new();

#[derive(Clone, Debug, Default)]
struct Meant {
    drive: Option<DriveName>,
    options: String,
}

/// Notes which drive a command is about, and where it is.
pub(crate) fn mean(drive: &DriveName, place: &Place) {
    // Only hints hear of it, and the first drive that is reached is the one that was named.
    let _ = MEANT.set(Meant {
        drive: Some(drive.clone()),
        options: place.options(),
    });
}

/// Returns what would help against an error, by its words.
pub(crate) fn against(why: &str) -> Option<String> {
    let meant = MEANT.get().cloned().unwrap_or_default();
    of_branches(why, &meant)
        .or_else(|| of_drives(why, &meant))
        .or_else(|| of_machine(why))
        .or_else(|| of_damage(why, &meant))
}

impl Meant {
    fn drive(&self) -> &str {
        self.drive.as_ref().map_or("DRIVE", DriveName::as_str)
    }
}

fn of_branches(why: &str, meant: &Meant) -> Option<String> {
    let (drive, options) = (meant.drive(), &meant.options);
    let list = format!("tenure branch list {drive}{options}");
    if let Some((name, _)) = why.split_once(" is a checkpoint and never changes") {
        let name = name.rsplit(' ').next().unwrap_or_default();
        return Some(format!(
            "tenure fork {drive}@{name} NEW{options} makes a branch of it"
        ));
    }
    if why.ends_with("already; choose another name") || why.contains("another request had the key") {
        return Some(format!("{list} shows what there is"));
    }
    if why.contains("there is no conflict at") {
        return Some(format!(
            "tenure conflicts {drive}{options} lists those that there are"
        ));
    }
    let is_missed = [
        "has no checkpoint",
        "has no branch or checkpoint",
        "no such branch",
        "was deleted just now",
        "not into itself",
    ];
    if is_missed.iter().any(|words| why.contains(words)) {
        return Some(format!("{list} --all shows those that there are"));
    }
    if why.contains("it is the drive's only branch") {
        return Some(format!(
            "tenure fork {drive} NEW{options} makes another one; tenure drive delete {drive}{options} takes all of it"
        ));
    }
    let is_as_it_was = why.contains("was not changed") || why == "nothing was changed";
    is_as_it_was.then(|| format!("tenure log {drive}{options} shows what was changed"))
}

fn of_drives(why: &str, meant: &Meant) -> Option<String> {
    let (drive, options) = (meant.drive(), &meant.options);
    if why.contains("there is no drive") {
        return Some(format!("tenure drive list{options} shows those that there are"));
    }
    if why.contains("there is a drive") {
        return Some(format!("tenure mount {drive} DIR{options} mounts it"));
    }
    if why.contains("was begun and never finished") {
        return Some(format!("tenure drive create {drive}{options}"));
    }
    why.contains(NEWER).then(|| NEWER_HINT.to_owned())
}

fn of_machine(why: &str) -> Option<String> {
    let told = |hint: &str| Some(hint.to_owned());
    if why.contains("too many files are open") || why.contains("Too many open files") {
        return told("ulimit -n 65536");
    }
    if why.contains("no space left") || why.contains("the disk is full") || why.contains("No space left") {
        return told("df -h shows which disk is full; what is freed there lets it go on");
    }
    if why.contains("the file system is read-only") || why.contains("Read-only file system") {
        return told("findmnt -O ro lists what is mounted read-only");
    }
    why.contains("held immutable")
        .then(|| "lsattr -d FOLDER; chattr -i -a FOLDER".to_owned())
}

fn of_damage(why: &str, meant: &Meant) -> Option<String> {
    let (drive, options) = (meant.drive(), &meant.options);
    if let Some((place, _)) = why.split_once(", and a bucket holds plain files and folders only") {
        let place = place.trim_start_matches("corrupt: ");
        let place = place.rsplit_once(" is ").map_or(place, |(place, _)| place);
        return Some(format!("ls -ld {}", crate::output::quoted(place)));
    }
    why.contains("corrupt: ").then(|| {
        format!(
            "tenure check {drive}{options} --deep names all that is damaged, once the drive can be opened"
        )
    })
}

/// Returns what helps where nothing better is known.
pub(crate) fn at_least() -> String {
    let command = std::env::args().nth(1).filter(|word| !word.starts_with('-'));
    let command = command.map_or_else(String::new, |word| format!(" {word}"));
    format!("tenure{command} --help")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_rooms_below_say_is_answered_by_a_command() {
        for (why, hint) in [
            (
                "the drive has a branch main already; choose another name",
                "tenure branch list DRIVE",
            ),
            (
                "c1 is a checkpoint and never changes; fork it",
                "tenure fork DRIVE@c1 NEW",
            ),
            ("the drive has no checkpoint c9", "tenure branch list DRIVE --all"),
            ("there is no drive d1 in the folder /b", "tenure drive list"),
            (
                "drives/d/epochs/1: it is a claim of version 9, which this program cannot read: use a newer tenure",
                "tenure --version",
            ),
            (
                "cannot open /b/x: too many files are open: raise that limit (ulimit -n)",
                "ulimit -n 65536",
            ),
            (
                "corrupt: /b/.tmp is a file in the place of a folder, and a bucket holds plain files and folders only: remove it",
                "ls -ld /b/.tmp",
            ),
        ] {
            let said = against(why).unwrap_or_default();
            assert!(said.starts_with(hint), "{why}: {said}");
        }
        assert_eq!(against("something else"), None);
    }
}
