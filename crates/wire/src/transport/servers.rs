//! The servers that a client knows: it asks them in turn, goes where it is sent, and begins there the next time.
//!
//! Invariant: a client is never sent from where nobody can listen to where somebody can.

use super::address::{HostPort, ServerAddress};
use super::patience::{Dialer, is_final};
use super::stream::Stream;
use super::unix;
use super::web::{Knock, Token, Trust, knock};
use crate::owner::Error;
use parking_lot::Mutex;
use std::net::{IpAddr, ToSocketAddrs};
use std::time::Duration;
use tenure_model::{DriveName, Failure, Refusal};

/// How long a unix socket may take to let a client in.
const UNIX_MAX: Duration = Duration::from_secs(5);

/// Where a client speaks to servers that nothing encrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unencrypted {
    /// On this machine alone.
    Loopback,
    /// Anywhere: something else encrypts, or nobody minds.
    Anywhere,
}

/// Servers that may know who owns a drive, and how a client comes in.
pub struct Servers {
    addresses: Vec<ServerAddress>,
    drive: Option<DriveName>,
    token: Option<TokenSource>,
    trust: Trust,
    unencrypted: Unencrypted,
    state: Mutex<State>,
}

/// Says which token is shown: asked each time that a client comes in, so that a token may be replaced meanwhile.
type TokenSource = Box<dyn Fn() -> Result<Token, Error> + Send + Sync>;

#[derive(Clone, Default)]
struct State {
    /// Where the owner was at last.
    found: Option<ServerAddress>,
    /// Which of the addresses is asked first.
    first: usize,
    /// Who has fallen silent over a connection, and was not reached since: it may take a while to find that it still is.
    silent: Option<ServerAddress>,
}

impl Dialer for Servers {
    fn dial(&self) -> Result<Stream, Error> {
        let found = self.state.lock().found.clone();
        if let Some(stream) = found.and_then(|address| self.reach(&address).ok()) {
            return Ok(stream);
        }
        let mut failures = Vec::new();
        for address in self.in_turn() {
            match self.reach(&address) {
                Ok(stream) => {
                    self.was_reached(&address);
                    return Ok(stream);
                }
                Err(error) => failures.push(error),
            }
        }
        Err(together(&failures))
    }

    fn follow(&self, to: &ServerAddress) -> Result<Stream, Error> {
        let is_as_safe = |known: &ServerAddress| std::mem::discriminant(known) == std::mem::discriminant(to);
        if !matches!(to, ServerAddress::Tls(_)) && !self.addresses.iter().any(is_as_safe) {
            return Err(Refusal::Because(format!(
                "a server has sent this client to {to}, which is another kind of address than those that it was given; \
                 name it with the others where that is meant"
            ))
            .into());
        }
        let stream = self.reach(to)?;
        self.was_reached(to);
        Ok(stream)
    }

    fn was_in_vain(&self) {
        let mut state = self.state.lock();
        state.found = None;
        state.first = (state.first + 1) % self.addresses.len().max(1);
    }

    fn was_silent(&self, at: &ServerAddress) {
        let mut state = self.state.lock();
        // Another connection may have found another server by now.
        state.found.take_if(|found| found == at);
        state.silent = Some(at.clone());
    }

    fn is_silent(&self, at: &ServerAddress) -> bool {
        self.state.lock().silent.as_ref() == Some(at)
    }
}

impl Servers {
    /// Takes the addresses that a client was given, the first to be asked first, the drive that it asks for, or none to
    /// speak with a server itself, and whose certificates it trusts.
    pub fn new(addresses: Vec<ServerAddress>, drive: Option<DriveName>, trust: Trust) -> Self {
        Self {
            addresses,
            drive,
            token: None,
            trust,
            unencrypted: Unencrypted::Loopback,
            state: Mutex::default(),
        }
    }

    /// Shows servers on the network the token that `token` returns, each time that it comes in.
    pub fn with_token(self, token: impl Fn() -> Result<Token, Error> + Send + Sync + 'static) -> Self {
        Self {
            token: Some(Box::new(token)),
            ..self
        }
    }

    /// Says where nothing needs to be encrypted; on this machine alone unless this is called.
    pub fn with_unencrypted(self, unencrypted: Unencrypted) -> Self {
        Self { unencrypted, ..self }
    }

    /// Returns the addresses in the order in which they are asked.
    fn in_turn(&self) -> Vec<ServerAddress> {
        let State { first, silent, .. } = self.state.lock().clone();
        let all = self
            .addresses
            .iter()
            .cycle()
            .skip(first)
            .take(self.addresses.len());
        let (last, others): (Vec<_>, Vec<_>) =
            all.cloned().partition(|address| Some(address) == silent.as_ref());
        [others, last].concat()
    }

    fn was_reached(&self, address: &ServerAddress) {
        let mut state = self.state.lock();
        state.silent.take_if(|silent| silent == address);
        state.found = Some(address.clone());
    }

    fn reach(&self, address: &ServerAddress) -> Result<Stream, Error> {
        let (at, trust) = match address {
            ServerAddress::Unix(path) => return unix::dial(path, UNIX_MAX),
            ServerAddress::Tls(at) => (at, Some(&self.trust)),
            ServerAddress::Plain(at) => {
                self.may_be_plain(at)?;
                (at, None)
            }
        };
        let token = self.token.as_ref().map(|token| token()).transpose()?;
        let knocked = knock(&Knock {
            at,
            trust,
            drive: self.drive.as_ref(),
            token: token.as_ref(),
        });
        knocked.map(|stream| Stream::from(stream).to(address))
    }

    fn may_be_plain(&self, at: &HostPort) -> Result<(), Error> {
        let is_here = || match at.host.parse::<IpAddr>() {
            Ok(ip) => ip.is_loopback(),
            Err(_) => (&*at.host, at.port)
                .to_socket_addrs()
                .is_ok_and(|mut ips| ips.all(|ip| ip.ip().is_loopback())),
        };
        if self.unencrypted == Unencrypted::Anywhere || is_here() {
            return Ok(());
        }
        Err(Refusal::Because(format!(
            "http://{at} is on another machine, and nothing would be encrypted; use https://{at}, or ask for plain TCP \
             by name"
        ))
        .into())
    }
}

/// Says what came of every server. One that may answer later is worth asking again.
fn together(failures: &[Error]) -> Error {
    match failures {
        [only] => only.clone(),
        [] => Refusal::Because("no server was named".into()).into(),
        _ => {
            let all: Vec<_> = failures.iter().map(ToString::to_string).collect();
            if failures.iter().all(is_final) {
                Refusal::Because(all.join("; ")).into()
            } else {
                Failure::DidNotHappen(all.join("; ")).into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_fallen_silent_is_asked_last_until_it_is_reached_again() {
        let [one, two, three] =
            ["unix:/1", "unix:/2", "unix:/3"].map(|text| text.parse::<ServerAddress>().expect("an address"));
        let all = vec![one.clone(), two.clone(), three.clone()];
        let nobody = Trust::Signed(rustls::RootCertStore::empty().into());
        let servers = Servers::new(all.clone(), None, nobody);
        assert_eq!(servers.in_turn(), all);
        servers.was_reached(&one);
        servers.was_silent(&one);
        assert_eq!(servers.state.lock().found, None);
        assert_eq!(servers.in_turn(), [two.clone(), three.clone(), one.clone()]);
        // One connection has found another server when the next hears that the first is silent.
        servers.was_reached(&two);
        servers.was_silent(&one);
        assert_eq!(servers.state.lock().found, Some(two.clone()));
        assert!(servers.is_silent(&one) && !servers.is_silent(&two));
        servers.was_in_vain();
        assert_eq!(servers.in_turn(), [two.clone(), three, one.clone()]);
        servers.was_reached(&one);
        assert!(!servers.is_silent(&one));
        assert_eq!(servers.in_turn().last(), Some(&one));
        assert_eq!(servers.in_turn().first(), Some(&two), "whose turn it is");
    }
}
