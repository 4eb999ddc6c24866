//! Who may come in by the network: a file of lines `NAME TOKEN`, or `NAME TOKEN DRIVE[,DRIVE..]` for a token that opens
//! these drives alone.
//!
//! Invariant: how long a token is looked for tells nothing of those that are known; a file that cannot be read changes nothing.

use crate::clock::random;
use crate::error::Told;
use crate::secret;
use anyhow::Result;
use parking_lot::{Mutex, RwLock};
use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tenure_model::{DriveName, Refusal};
use tenure_wire::web::{Doorkeeper, Token};

/// Characters of a token: fewer can be tried out.
const TOKEN_LEN_MIN: usize = 20;
/// Bytes of an agent's name.
const NAME_LEN_MAX: usize = 100;
/// By this, what scans texts for secrets knows a token.
const PREFIX: &str = "tenure_";

/// A line of the file.
pub(crate) struct Line {
    /// The agent that the token stands for.
    agent: String,
    token: Token,
    /// The drives that it opens; none for all of them, and for making and deleting drives.
    drives: Option<Vec<DriveName>>,
}

/// The tokens of a file that may change meanwhile.
pub(crate) struct Tokens {
    path: PathBuf,
    lines: RwLock<Vec<Line>>,
    stamp: Mutex<Option<Stamp>>,
}

/// What tells whether a file has changed: device, inode, length, and when it was written and replaced.
type Stamp = [i64; 7];

impl Tokens {
    /// Reads the tokens of a file.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let stamp = stamp(path);
        Ok(Tokens {
            path: path.to_owned(),
            lines: RwLock::new(parsed(path)?),
            stamp: Mutex::new(stamp),
        })
    }

    /// Returns a token that opens everything: servers that have one file speak with each other by it.
    pub(crate) fn of_a_server(&self) -> Option<Token> {
        let lines = self.lines.read();
        lines
            .iter()
            .find(|line| line.drives.is_none())
            .map(|line| line.token.clone())
    }

    /// Tells whether nobody has a token.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.read().is_empty()
    }

    /// Tells whether the file is another than it was when it was looked at last.
    pub(crate) fn has_changed(&self) -> bool {
        let now = stamp(&self.path);
        std::mem::replace(&mut *self.stamp.lock(), now) != now
    }

    /// Reads the file again.
    pub(crate) fn read_again(&self) -> Result<()> {
        *self.lines.write() = parsed(&self.path)?;
        Ok(())
    }
}

impl Doorkeeper for Tokens {
    fn admit(&self, token: Option<&str>, drive: Option<&DriveName>) -> Result<Option<String>, Refusal> {
        let because = |why: String| Refusal::Because(why);
        let shown = token
            .ok_or_else(|| because("no token was shown, and this server lets nobody in without".into()))?;
        let lines = self.lines.read();
        // Each is compared, also behind the one that is found.
        let found = lines.iter().fold(
            None,
            |found, line| if line.token.is(shown) { Some(line) } else { found },
        );
        let Line { agent, drives, .. } =
            found.ok_or_else(|| because("the token that was shown is not known to this server".into()))?;
        match (drives, drive) {
            (None, _) => Ok(Some(agent.clone())),
            (Some(drives), Some(drive)) if drives.contains(drive) => Ok(Some(agent.clone())),
            (Some(_), Some(drive)) => Err(because(format!(
                "the token of {agent} does not open the drive {drive}"
            ))),
            (Some(drives), None) => Err(because(format!(
                "the token of {agent} opens {} alone: it lists, makes and deletes no drives",
                joined(drives)
            ))),
        }
    }
}

fn joined(drives: &[DriveName]) -> String {
    drives.iter().map(DriveName::as_str).collect::<Vec<_>>().join(",")
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(path).ok()?;
    Some([
        found.dev() as i64,
        found.ino() as i64,
        found.size() as i64,
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
    ])
}

fn parsed(path: &Path) -> Result<Vec<Line>> {
    let text = secret::read(path)?;
    let mut lines: Vec<Line> = Vec::new();
    for (number, text) in text.lines().enumerate() {
        let words: Vec<_> = text.split_whitespace().collect();
        if words.first().is_none_or(|word| word.starts_with('#')) {
            continue;
        }
        let line = Line::parse(&words).and_then(|line| {
            // Not by the file's own word: the refusal would show it.
            let is_twice = lines.iter().any(|other| other.token == line.token);
            if is_twice {
                Err("its token is that of another line".to_owned())
            } else {
                Ok(line)
            }
        });
        let line = line.map_err(|why| {
            Told::refused(
                format!("line {} of {}: {why}", number + 1, path.display()),
                "lines are `NAME TOKEN` or `NAME TOKEN DRIVE[,DRIVE..]`; tenure token new NAME makes one",
            )
        })?;
        lines.push(line);
    }
    Ok(lines)
}

impl Line {
    /// Makes a line with a token that nobody can guess.
    pub(crate) fn new(agent: &str, drives: Option<Vec<DriveName>>) -> Result<Self, String> {
        let mut word = PREFIX.to_owned();
        for byte in [random(), random()].concat() {
            write!(word, "{byte:02x}").expect("a text takes all");
        }
        let token = Token::parse(&word).expect("it has no blanks");
        Ok(Line {
            agent: named(agent)?,
            token,
            drives,
        })
    }

    /// Returns the token, for the one whom it is for.
    pub(crate) fn token(&self) -> &str {
        self.token.reveal()
    }

    /// Returns the line as it stands in a file.
    pub(crate) fn written(&self) -> String {
        let drives = self
            .drives
            .as_deref()
            .map(|drives| format!(" {}", joined(drives)));
        format!("{} {}{}", self.agent, self.token(), drives.unwrap_or_default())
    }

    fn parse(words: &[&str]) -> Result<Self, String> {
        let (agent, token, drives) = match words {
            [agent, token] => (agent, token, None),
            [agent, token, drives] => (agent, token, Some(drives)),
            _ => return Err(format!("it has {} words", words.len())),
        };
        if token.len() < TOKEN_LEN_MIN {
            return Err(format!(
                "a token of fewer than {TOKEN_LEN_MIN} characters can be guessed"
            ));
        }
        let parse_all = |drives: &&str| {
            drives
                .split(',')
                .map(DriveName::parse)
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Line {
            agent: named(agent)?,
            token: Token::parse(token).map_err(|refusal| refusal.to_string())?,
            drives: drives.map(parse_all).transpose().map_err(|why| why.to_string())?,
        })
    }
}

/// Returns the name of an agent.
fn named(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@/+:".contains(&byte);
    if text.is_empty() || text.len() > NAME_LEN_MAX || !text.bytes().all(is_plain) {
        return Err(format!(
            "an agent's name has 1 to {NAME_LEN_MAX} letters, digits and `._-@/+:`"
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn drive(name: &str) -> DriveName {
        DriveName::parse(name).expect("it is a name")
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("there is room");
        std::fs::write(file.path(), text).expect("there is room");
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600)).expect("it is ours");
        file
    }

    #[test]
    fn a_token_opens_what_its_line_says_and_stands_for_its_agent() {
        let file = file("# who may come\n\nada 0123456789-0123456789\nbob 9876543210-9876543210 work,play\n");
        let tokens = Tokens::of(file.path()).expect("it is good");
        let admit = |token, name: Option<&str>| tokens.admit(token, name.map(drive).as_ref());
        let (ada, bob) = (Some("0123456789-0123456789"), Some("9876543210-9876543210"));
        for (token, name, agent) in [
            (ada, Some("work"), Some("ada")),
            (ada, Some("other"), Some("ada")),
            (ada, None, Some("ada")),
            (bob, Some("work"), Some("bob")),
            (bob, Some("other"), None),
            (bob, None, None),
            (None, Some("work"), None),
            (Some("0123456789-012345678"), Some("work"), None),
            (Some(""), Some("work"), None),
        ] {
            let admitted = admit(token, name).ok().flatten();
            assert_eq!(admitted.as_deref(), agent, "{token:?} {name:?}");
        }
        let refused = admit(Some("wrong-word"), None)
            .expect_err("it is not known")
            .to_string();
        assert!(!refused.contains("wrong-word"), "{refused}");
    }

    #[test]
    fn a_line_that_is_none_is_refused_by_its_number_and_shows_no_token() {
        let token = "0123456789-0123456789";
        for text in [
            "ada".to_owned(),
            format!("ada {token} work more"),
            "ada short".to_owned(),
            format!("ada {token} ../x"),
            format!("a\u{e9}a {token}"),
            format!("ada {token}\u{e9}"),
            format!("ada {token}\nbob {token}"),
        ] {
            let file = file(&format!("# first\n{text}\n"));
            let refused = Tokens::of(file.path()).map(drop).expect_err(&text);
            let said = crate::error::text(&refused);
            let line = if text.contains('\n') { "line 3" } else { "line 2" };
            assert!(said.contains(line) && !said.contains(token), "{said}");
        }
    }

    #[test]
    fn a_line_that_is_made_is_read_and_none_is_made_twice() {
        let line = Line::new("ada", Some(vec![drive("work"), drive("play")])).expect("it is a name");
        let file = file(&line.written());
        let tokens = Tokens::of(file.path()).expect("it is good");
        assert_eq!(
            tokens.admit(Some(line.token()), Some(&drive("play"))),
            Ok(Some("ada".into()))
        );
        let other = Line::new("ada", None).expect("it is a name");
        assert_ne!(other.token(), line.token());
        assert!(Line::new("two words", None).is_err());
    }

    #[test]
    fn a_file_that_is_changed_or_replaced_is_seen_and_one_that_is_bad_changes_nothing() {
        let file = file("ada 0123456789-0123456789\n");
        let tokens = Tokens::of(file.path()).expect("it is good");
        assert!(!tokens.has_changed());
        std::fs::write(file.path(), "ada\n").expect("there is room");
        assert!(tokens.has_changed() && !tokens.has_changed());
        assert!(tokens.read_again().is_err());
        assert!(tokens.admit(Some("0123456789-0123456789"), None).is_ok());
        std::fs::write(file.path(), "\n").expect("there is room");
        assert!(tokens.has_changed() && tokens.read_again().is_ok() && tokens.is_empty());
        assert!(tokens.admit(Some("0123456789-0123456789"), None).is_err());
    }
}
