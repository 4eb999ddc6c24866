//! The servers that a command is told to ask: their addresses, what is shown to them, and whose certificates are believed.

use crate::error::Told;
use crate::pins::Known;
use crate::place::Way;
use crate::tokens::Tokens;
use crate::{hint, secret};
use anyhow::Result;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tenure_model::{DriveName, Failure, Refusal};
use tenure_wire::web::{Token, Trust};
use tenure_wire::{Dial, Error, HostPort, ServerAddress, Servers, Unencrypted};

/// The environment's word for a token.
const TOKEN: &str = "TENURE_TOKEN";

/// Which servers are asked, and what is shown to them.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// Servers that own the drives, or know who does: HOST:PORT (TLS), unix:PATH, or http://HOST:PORT (nothing is encrypted);
    /// the first that answers is asked [default: whoever owns the drive, or else this process]
    #[arg(long, value_name = "ADDR", env = "TENURE_SERVER", value_parser = address, value_delimiter = ',')]
    server: Vec<ServerAddress>,
    /// Show the token in this file to servers on the network; it is read again whenever a server is reached anew
    /// [default: the token in TENURE_TOKEN]
    #[arg(long, value_name = "FILE", env = "TENURE_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

/// Parses the address of a server; a host and a port alone stand for TLS.
pub(crate) fn address(text: &str) -> Result<ServerAddress, Refusal> {
    if text.contains("://") || text.starts_with("unix:") {
        return text.parse();
    }
    text.parse::<HostPort>()
        .map(ServerAddress::Tls)
        .map_err(|refusal| {
            Refusal::Because(format!(
                "{refusal}; servers are at HOST:PORT (TLS), unix:PATH or http://HOST:PORT"
            ))
        })
}

impl ServerArgs {
    /// Tells whether any server is named.
    pub(crate) fn is_named(&self) -> bool {
        !self.server.is_empty()
    }

    /// Tells whether a server is named that may be on another machine.
    pub(crate) fn is_far(&self) -> bool {
        self.server
            .iter()
            .any(|server| !matches!(server, ServerAddress::Unix(_)))
    }

    /// Returns the addresses as they are shown, if there are any.
    pub(crate) fn named(&self) -> Option<String> {
        let all: Vec<_> = self.server.iter().map(ToString::to_string).collect();
        (!all.is_empty()).then(|| all.join(","))
    }

    /// Returns the options by which another process of this program reaches the same servers.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let servers = self.named().map(|names| ["--server".into(), names.into()]);
        let token = self
            .token_file
            .iter()
            .map(|path| ["--token-file".into(), path.clone().into_os_string()]);
        servers.into_iter().chain(token).flatten().collect()
    }

    /// Returns how the servers are dialled to speak about a drive, or about none.
    pub(crate) fn dial(&self, way: &Way, drive: Option<DriveName>) -> Result<Dial> {
        dial(self.server.clone(), way, self.token(), drive)
    }

    /// Returns what is shown to servers on the network, if anything.
    pub(crate) fn token(&self) -> Option<TokenSource> {
        match &self.token_file {
            // The process may be in another directory when it is read again.
            Some(path) => Some(TokenSource::File(
                std::path::absolute(path).unwrap_or_else(|_| path.clone()),
            )),
            None => std::env::var(TOKEN).ok().map(TokenSource::Word),
        }
    }

    /// Says what helps where no server lets this command in.
    pub(crate) fn no_server(&self, error: Error) -> anyhow::Error {
        match error {
            Error::Failed(Failure::DidNotHappen(why)) => Told::failed(why, self.who_would_answer()),
            Error::Refused(Refusal::Because(why)) => {
                // The wire knows no commands, and says what this room has told it.
                if let Some((why, command)) = why.split_once(" Where the server was given a new one: ") {
                    return Told::refused(why, format!("where the server was given a new one: {command}"));
                }
                match hint::against_closed_door(&why) {
                    Some(hint) => Told::refused(why, hint),
                    None => Error::Refused(Refusal::Because(why)).into(),
                }
            }
            Error::Refused(_) | Error::Failed(_) => error.into(),
        }
    }

    fn who_would_answer(&self) -> String {
        match self.server.first() {
            Some(ServerAddress::Unix(path)) => {
                let at = path.display();
                format!("ls -l {at}; a server begins with: tenure serve --listen unix:{at}")
            }
            Some(ServerAddress::Tls(at) | ServerAddress::Plain(at)) => {
                format!(
                    "nc -vz {} {}; a server begins there with: tenure serve --bucket BUCKET --listen {at} --tokens FILE",
                    at.host, at.port
                )
            }
            None => "--server ADDR names a server".to_owned(),
        }
    }
}

/// Returns how servers are dialled to speak about a drive, or about none.
pub(crate) fn dial(
    addresses: Vec<ServerAddress>,
    way: &Way,
    token: Option<TokenSource>,
    drive: Option<DriveName>,
) -> Result<Dial> {
    let trust = match way.authorities()? {
        Some(pem) => Trust::signed_by(&pem)?,
        None => Trust::Pinned(Arc::new(Known::of_this_user()?)),
    };
    let is_far = addresses
        .iter()
        .any(|address| !matches!(address, ServerAddress::Unix(_)));
    let mut servers = Servers::new(addresses, drive, trust);
    if way.unencrypted {
        servers = servers.with_unencrypted(Unencrypted::Anywhere);
    }
    if let Some(source) = token.filter(|_| is_far) {
        // What is wrong with it now is said with what helps.
        source.read()?;
        servers = servers.with_token(move || {
            source
                .read()
                .map_err(|error| Refusal::Because(format!("{error:#}")).into())
        });
    }
    Ok(Arc::new(servers))
}

/// Tells whether a refusal is that of a server of drives.
pub(crate) fn is_of_a_server(refusal: &Refusal) -> bool {
    refusal.to_string().contains(" refuses: ")
}

/// Where a token comes from.
#[derive(Clone)]
pub(crate) enum TokenSource {
    /// A file that may be written anew.
    File(PathBuf),
    /// The environment.
    Word(String),
    /// A server's own tokens.
    Tokens(Arc<Tokens>),
}

impl TokenSource {
    fn read(&self) -> Result<Token> {
        match self {
            TokenSource::File(path) => of_file(path),
            TokenSource::Tokens(tokens) => tokens.of_a_server().ok_or_else(|| {
                Told::refused(
                    "no token opens every drive, so servers cannot ask each other",
                    "tenure token new servers --add-to FILE, the same file for each",
                )
            }),
            TokenSource::Word(word) => Token::parse(word.trim()).map_err(|refusal| {
                Told::refused(
                    format!("{TOKEN} holds no token: {refusal}"),
                    "--token-file FILE names one in a file",
                )
            }),
        }
    }
}

/// Returns the token of a file: its only word, or, in a line of a server's tokens, the word behind the agent's name.
fn of_file(path: &Path) -> Result<Token> {
    let text = secret::read(path)?;
    let lines = text.lines().map(str::trim);
    let line = lines
        .into_iter()
        .find(|line| !line.is_empty() && !line.starts_with('#'));
    let words: Vec<_> = line.unwrap_or_default().split_whitespace().take(2).collect();
    let word = words.last().copied().unwrap_or_default();
    Token::parse(word).map_err(|refusal| {
        Told::refused(
            format!("there is no token in {}: {refusal}", path.display()),
            "it holds the word that `tenure token new` has printed, alone or in its line",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_host_and_a_port_stand_for_tls() {
        for (text, shown) in [
            ("box:7430", "https://box:7430"),
            ("[::1]:7430", "https://[::1]:7430"),
            ("https://box", "https://box:443"),
            ("http://127.0.0.1:1", "http://127.0.0.1:1"),
            ("unix:/run/socket", "unix:/run/socket"),
        ] {
            assert_eq!(
                address(text).map(|address| address.to_string()),
                Ok(shown.to_owned())
            );
        }
        for (text, why) in [
            ("box", "it names no port"),
            ("box:port", "no number up to 65535"),
            ("127.0.0.1:99999", "no number up to 65535"),
            ("", "it names no port"),
            ("unix:socket", "absolute"),
            ("ftp://box:1", "unknown scheme"),
        ] {
            let refused = address(text).expect_err(text).to_string();
            assert!(
                refused.contains(why) && refused.contains("http://HOST:PORT"),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_token_is_read_alone_or_in_a_line_of_a_server() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("token");
        for (text, token) in [
            ("word\n", Some("word")),
            ("# mine\n\n  word  \n", Some("word")),
            ("ada word work,play\n", Some("word")),
            ("", None),
            ("# nothing\n", None),
        ] {
            std::fs::write(&path, text).expect("there is room");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
            let found = of_file(&path).ok();
            assert_eq!(found.is_some(), token.is_some(), "{text:?}");
            assert!(
                token.is_none_or(|token| found.is_some_and(|found| found.is(token))),
                "{text:?}"
            );
        }
    }
}
