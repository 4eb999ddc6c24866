//! What helps against what the rooms below say in words: they know no commands, and not which drive a person has named.

use crate::place::Place;
use std::sync::OnceLock;
use tenure_model::{DriveName, USE_NEWER};

/// What helps where a newer program has written what is there.
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
        .or_else(|| of_reviews(why, &meant))
        .or_else(|| of_restores(why, &meant))
        .or_else(|| of_drives(why, &meant))
        .or_else(|| of_machine(why))
        .or_else(|| of_damage(why, &meant))
}

/// Returns words of the rooms below with the commands that stand between backquotes in them as they can be pasted: about the drive that
/// is meant, with the options that find it.
pub(crate) fn pasted(words: &str) -> String {
    let meant = MEANT.get().cloned().unwrap_or_default();
    meant.pasted(words)
}

impl Meant {
    fn pasted(&self, words: &str) -> String {
        let parts = words.split('`').enumerate();
        let parts = parts.map(|(number, part)| match number % 2 {
            1 => self.command(part),
            _ => part.to_owned(),
        });
        parts.collect::<Vec<_>>().join("`")
    }

    /// Returns a command that names the drive, or a place for its name, with that and what finds it.
    fn command(&self, command: &str) -> String {
        let named = |word: &str| {
            let (drive, rest) = word
                .split_once('@')
                .map_or((word, ""), |(drive, _)| (drive, &word[drive.len()..]));
            let is_it = self.drive.is_some() && (drive == "DRIVE" || drive == self.drive());
            is_it.then(|| format!("{}{rest}", self.drive()))
        };
        if !command.starts_with("tenure ") || command.ends_with(&self.options) && !self.options.is_empty() {
            return command.to_owned();
        }
        let mut is_named = false;
        let words = command.split(' ').map(|word| {
            let named = named(word);
            is_named |= named.is_some();
            named.unwrap_or_else(|| word.to_owned())
        });
        let words: Vec<_> = words.collect();
        let options = if is_named { &self.options[..] } else { "" };
        words.join(" ") + options
    }

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

fn of_reviews(why: &str, meant: &Meant) -> Option<String> {
    let (drive, options) = (meant.drive(), &meant.options);
    if let Some((name, _)) = why.split_once(" is protected") {
        return Some(format!(
            "tenure fork {drive}@{name} NEW --staged{options} makes a branch to work in, which tenure review accepts"
        ));
    }
    if let Some((name, _)) = why
        .split_once(" has ")
        .filter(|_| why.contains("that nobody has settled"))
    {
        return Some(format!("tenure conflicts {drive}@{name}{options}"));
    }
    if why.contains("waits for no review")
        || why.contains("is not protected")
        || why.contains("does not wait for a review")
    {
        return Some(format!(
            "tenure branch list {drive}{options} shows which branch is what"
        ));
    }
    None
}

fn of_restores(why: &str, meant: &Meant) -> Option<String> {
    let (drive, options) = (meant.drive(), &meant.options);
    if why.starts_with("there is no ") && why.contains("`tenure log ") {
        return Some(format!("tenure log {drive}{options}"));
    }
    let (path, _) = why.split_once(" is no directory in ")?;
    Some(format!(
        "tenure restore {drive} {} --from REF{options}",
        crate::output::quoted(path)
    ))
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
    if why.contains("is being deleted, and") {
        return Some(format!("tenure drive delete {drive}{options} --yes"));
    }
    why.contains(USE_NEWER).then(|| NEWER_HINT.to_owned())
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
                "the drive d1 is being deleted, and nothing of it can be had: have that finished first",
                "tenure drive delete DRIVE --yes",
            ),
            (
                "main is protected: it changes only by accepted reviews, and keeps its name",
                "tenure fork DRIVE@main NEW --staged",
            ),
            (
                "fix has 2 conflicts that nobody has settled; `tenure conflicts DRIVE@fix` shows them",
                "tenure conflicts DRIVE@fix",
            ),
            (
                "there is no none in good; `tenure log DRIVE@main` tells what there was and when",
                "tenure log DRIVE",
            ),
            (
                "src is no directory in main, so nothing can be restored below it",
                "tenure restore DRIVE src",
            ),
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

    #[test]
    fn a_command_in_words_of_the_rooms_below_can_be_pasted() {
        let meant = Meant {
            drive: DriveName::parse("work").ok(),
            options: " --bucket '/a b'".to_owned(),
        };
        for (words, pasted) in [
            (
                "it's (`tenure check work` names every file), and",
                "it's (`tenure check work --bucket '/a b'` names every file), and",
            ),
            (
                "`tenure fork DRIVE@main NEW --staged`; `tenure status` says why; `--read-only`",
                "`tenure fork work@main NEW --staged --bucket '/a b'`; `tenure status` says why; `--read-only`",
            ),
            ("a workshop", "a workshop"),
        ] {
            assert_eq!(meant.pasted(words), pasted);
            assert_eq!(meant.pasted(pasted), pasted);
        }
        assert_eq!(
            Meant::default().pasted("`tenure check DRIVE`"),
            "`tenure check DRIVE`"
        );
    }
}
