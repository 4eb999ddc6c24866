//! `tenure serve`: owns the drives of a bucket for other processes, of this machine and of others.

mod host;

use crate::bucket::{self, BucketArgs};
use crate::cache::CacheArgs;
use crate::error::Told;
use crate::neighbours::Neighbours;
use crate::place::Way;
use crate::servers::TokenSource;
use crate::tokens::Tokens;
use crate::{home, identity, output, servers};
use anyhow::{Context, Result};
use host::Served;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tenure_core::Branch;
use tenure_model::Refusal;
use tenure_wire::web::{self, Fingerprint, Identity, Security};
use tenure_wire::{Door, Error, Host, HostPort, Limits, ServerAddress, Service, serve, unix};

/// How often the file of tokens is looked at.
const LOOK_REST: Duration = Duration::from_secs(1);

/// How often drives that nobody uses are closed: commands that follow each other find theirs open.
const CLOSING_REST: Duration = Duration::from_secs(15);

/// Own drives for mounts and commands of this machine and of others, until it is ended
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tenure drive create work --bucket /data/bucket     makes the bucket, too\n  tenure serve --bucket /data/bucket --listen unix:/run/tenure.sock &\n  tenure mount work ~/work --server unix:/run/tenure.sock --create\n\n  tenure drive create work --bucket s3://drives\n  tenure token new ada --add-to tokens --out ada.token\n  tenure serve --bucket s3://drives --listen 0.0.0.0:7430 --tokens tokens &\n  tenure mount work ~/work --server box:7430 --token-file ada.token --create\n\nMounts and commands reach it with --server or TENURE_SERVER. A drive is opened when it is\nfirst asked for. Without --certificate one is made at the first start and kept; clients\nremember it when they first see it, and the fingerprint that is printed tells a person that\nit is the right one (tenure trust). The tokens are read again when their file changes and on\nSIGHUP, which reads the certificate again, too; who is there with a token that does not\ncount any more loses the connection. A service's bucket is proved at each start: one that\ndoes not keep conditional puts is refused."
)]
pub(crate) struct Args {
    #[command(flatten)]
    bucket: BucketArgs,
    /// Where to listen: HOST:PORT (TLS), unix:PATH (an absolute path), or http://HOST:PORT, which is not
    /// encrypted and so, unless --unencrypted allows more, on this machine alone, at 127.0.0.1. Port 0 takes one that is free
    #[arg(long, value_name = "ADDR", required = true, value_parser = servers::address, value_delimiter = ',')]
    listen: Vec<ServerAddress>,
    /// Who may come in by the network: a file of lines `NAME TOKEN`, or `NAME TOKEN DRIVE[,DRIVE..]` for a token that opens
    /// these drives alone; others may not be able to read it
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// The certificate, followed by those that vouch for it (PEM) [default: one that is made at the first start]
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// The certificate's key (PEM); others may not be able to read it
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// Where other machines reach this server, as other servers tell clients [default: the first port that is listened at, at
    /// this machine's name]
    #[arg(long, value_name = "ADDR", value_parser = servers::address)]
    advertise: Option<ServerAddress>,
    #[command(flatten)]
    way: Way,
    #[command(flatten)]
    cache: CacheArgs,
    /// Print where it listens as JSON
    #[arg(long)]
    json: bool,
}

/// What is served, and what may be read again meanwhile.
struct Serving {
    tokens: Option<Arc<Tokens>>,
    identity: Option<Identity>,
    addresses: Vec<ServerAddress>,
    doors: Vec<Door>,
}

/// What the threads that listen for it have heard.
enum Heard {
    /// SIGHUP.
    ReadAgain,
    /// SIGTERM or SIGINT.
    End,
}

/// Serves until a signal asks it to end.
pub(crate) fn run(args: &Args) -> Result<()> {
    let tokens = args.tokens()?;
    let bucket = args.bucket.kept(&args.way)?;
    let kept = matches!(bucket, bucket::Kept::Service(_)).then(|| args.cache.open());
    let bucket = bucket.open_proved()?;
    kept.iter()
        .filter_map(|kept| kept.notice.as_ref())
        .for_each(|notice| output::note(format_args!("note: {notice}")));
    let cache = kept.map(|kept| kept.cache);
    let (hear, heard) = channel();
    listen_for_signals(hear)?;
    let mut serving = args.listen(tokens)?;
    let token = serving.tokens.clone().map(TokenSource::Tokens);
    let peers = Arc::new(Neighbours::new(args.way.clone(), token));
    let place = args.place(&serving.addresses);
    let drives = Arc::new(Served::new((bucket, cache), place.clone(), peers));
    let host = Arc::clone(&drives) as Arc<dyn Host<Branch>>;
    let doors = std::mem::take(&mut serving.doors);
    let service = serve::<Branch>(doors, host, Limits::default())?;
    args.say(&drives.describe(), &serving, &place)?;
    let closing = close_unused(&drives)?;
    loop {
        match heard.recv_timeout(LOOK_REST) {
            Ok(Heard::ReadAgain) => {
                args.read_certificate_again(serving.identity.as_ref());
                read_tokens_again(serving.tokens.as_deref(), &service);
            }
            Ok(Heard::End) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let tokens = serving.tokens.as_deref();
                read_tokens_again(tokens.filter(|tokens| tokens.has_changed()), &service);
            }
        }
    }
    service.stop();
    drop(closing);
    drives.close()?;
    for address in &serving.addresses {
        if let ServerAddress::Unix(path) = address {
            let _ = std::fs::remove_file(path);
        }
    }
    output::line("every drive is closed")
}

/// Closes drives that nobody uses, now and then, until what is returned goes.
fn close_unused(drives: &Arc<Served>) -> Result<Sender<()>> {
    let (end, is_over) = channel::<()>();
    let drives = Arc::clone(drives);
    let run = move || {
        while is_over.recv_timeout(CLOSING_REST) == Err(RecvTimeoutError::Timeout) {
            drives.close_unused();
        }
    };
    std::thread::Builder::new().name("closing".into()).spawn(run)?;
    Ok(end)
}

fn listen_for_signals(hear: Sender<Heard>) -> Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("cannot listen for signals")?;
    let listen = move || {
        for signal in signals.forever() {
            let heard = if signal == SIGHUP {
                Heard::ReadAgain
            } else {
                Heard::End
            };
            // Whoever does not listen any more is ending.
            let _ = hear.send(heard);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen)?;
    Ok(())
}

/// Reads the tokens again, if there are any, and puts those out whose tokens do not count any more.
fn read_tokens_again(tokens: Option<&Tokens>, service: &Service) {
    let Some(tokens) = tokens else { return };
    match tokens.read_again() {
        Ok(()) => service.review(),
        Err(error) => output::note(format_args!(
            "{}note: the tokens from before still count",
            crate::error::text(&error)
        )),
    }
}

impl Args {
    /// Returns who may come in by the network; refuses a port without.
    fn tokens(&self) -> Result<Option<Arc<Tokens>>> {
        let is_far = |address: &&ServerAddress| !matches!(address, ServerAddress::Unix(_));
        let far = self.listen.iter().find(is_far);
        match (&self.tokens, far) {
            (Some(path), _) => {
                let tokens = Tokens::of(path)?;
                if tokens.is_empty() {
                    return Err(Told::refused(
                        format!("there is no token in {}, so nobody could come in", path.display()),
                        format!("tenure token new NAME --add-to {}", path.display()),
                    ));
                }
                Ok(Some(Arc::new(tokens)))
            }
            (None, Some(address)) => Err(Told::refused(
                format!("whoever reaches {address} would have to be let in: no file of tokens is named"),
                "tenure token new NAME --add-to tokens; tenure serve ... --tokens tokens",
            )),
            (None, None) => Ok(None),
        }
    }

    /// Listens at every address.
    fn listen(&self, tokens: Option<Arc<Tokens>>) -> Result<Serving> {
        let has_tls = self
            .listen
            .iter()
            .any(|address| matches!(address, ServerAddress::Tls(_)));
        let identity = has_tls.then(|| self.identity()).transpose()?;
        let (mut addresses, mut doors) = (Vec::new(), Vec::new());
        for address in &self.listen {
            let (door, at) = match address {
                ServerAddress::Unix(path) => (listen_at_socket(path)?, address.clone()),
                ServerAddress::Tls(at) => {
                    let identity = identity.clone().context("a port with TLS has an identity")?;
                    let (door, at) = self.listen_at_port(at, &Security::Tls(identity), tokens.as_ref())?;
                    (door, ServerAddress::Tls(at))
                }
                ServerAddress::Plain(at) => {
                    let security = if self.way.unencrypted {
                        Security::Plain
                    } else {
                        Security::Loopback
                    };
                    let (door, at) = self.listen_at_port(at, &security, tokens.as_ref())?;
                    (door, ServerAddress::Plain(at))
                }
            };
            addresses.push(at);
            doors.push(door);
        }
        Ok(Serving {
            tokens,
            identity,
            addresses,
            doors,
        })
    }

    fn identity(&self) -> Result<Identity> {
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => identity::of_files(certificate, key),
            _ => identity::own(&self.hosts()),
        }
    }

    /// Returns by which names this server is reached.
    fn hosts(&self) -> Vec<String> {
        let named = self.listen.iter().chain(&self.advertise);
        let host = |address: &ServerAddress| match address {
            ServerAddress::Tls(at) | ServerAddress::Plain(at) => (!is_any(&at.host)).then(|| at.host.clone()),
            ServerAddress::Unix(_) => None,
        };
        named.filter_map(host).collect()
    }

    /// Takes a certificate that was renewed, where it comes from files.
    fn read_certificate_again(&self, identity: Option<&Identity>) {
        let (Some(certificate), Some(key), Some(identity)) = (&self.certificate, &self.key, identity) else {
            return;
        };
        match identity::of_files(certificate, key) {
            Ok(renewed) => {
                let is_other = renewed.fingerprint() != identity.fingerprint();
                identity.become_as(&renewed);
                if is_other {
                    tell_renewed(renewed.fingerprint());
                }
            }
            Err(error) => output::note(format_args!(
                "{}note: the certificate from before is still shown",
                crate::error::text(&error)
            )),
        }
    }

    fn listen_at_port(
        &self,
        at: &HostPort,
        security: &Security,
        tokens: Option<&Arc<Tokens>>,
    ) -> Result<(Door, HostPort)> {
        let tokens = tokens.context("a port has tokens")?;
        let listener = web::listen(at, security, Arc::clone(tokens) as _).map_err(|error| match &error {
            Error::Refused(Refusal::Because(why)) => Told::refused(
                why.clone(),
                format!("--listen {at} has TLS; --listen http://{at} --unencrypted lets whoever is on the way read and change everything"),
            ),
            Error::Refused(_) | Error::Failed(_) => {
                Told::failed(error.to_string(), format!("ss -ltnp 'sport = :{}'", at.port))
            }
        })?;
        let port = listener.address()?.port();
        let host = at.host.clone();
        Ok((Door::Web(listener), HostPort { host, port }))
    }

    /// Says where it is served, and how it is known.
    fn say(&self, what: &str, serving: &Serving, place: &ServerAddress) -> Result<()> {
        let all: Vec<_> = serving.addresses.iter().map(ToString::to_string).collect();
        let fingerprint = serving
            .identity
            .as_ref()
            .map(|identity| identity.fingerprint().to_string());
        if self.json {
            return output::json(
                &serde_json::json!({ "bucket": what, "addresses": all, "fingerprint": fingerprint }),
            );
        }
        output::line(format_args!("serving the drives of {what} at {}", all.join(", ")))?;
        match fingerprint {
            Some(fingerprint) => output::line(format_args!(
                "its certificate is {fingerprint}; clients expect it from their first visit on, or from: tenure trust {place} \
                 {fingerprint}"
            )),
            None => Ok(()),
        }
    }

    /// Returns where this server is, for those who find its name in the bucket.
    fn place(&self, addresses: &[ServerAddress]) -> ServerAddress {
        let is_far = |address: &&ServerAddress| !matches!(address, ServerAddress::Unix(_));
        let listens = addresses.iter().find(is_far).or(addresses.first());
        let own = listens.map(by_name);
        self.advertise.clone().or(own).expect("it listens somewhere")
    }
}

fn tell_renewed(fingerprint: Fingerprint) {
    output::note(format_args!("note: from now on the certificate is {fingerprint}"));
}

fn listen_at_socket(path: &Path) -> Result<Door> {
    let listener = unix::listen(path).map_err(|error| {
        let at = path.display();
        let other = if error.to_string().contains("shorter name") {
            path.with_file_name("tenure.sock").display().to_string()
        } else {
            format!("{at}.2")
        };
        match &error {
            Error::Refused(_) => Told::refused(
                error.to_string(),
                format!("tenure serve --listen unix:{other} ..."),
            ),
            Error::Failed(_) => Told::failed(error.to_string(), format!("namei -l {at}")),
        }
    })?;
    Ok(Door::Unix(listener))
}

/// Returns an address as other machines know it: by this machine's name where it stands for every address of it.
fn by_name(address: &ServerAddress) -> ServerAddress {
    let named = |at: &HostPort| HostPort {
        host: if is_any(&at.host) {
            home::host()
        } else {
            at.host.clone()
        },
        port: at.port,
    };
    match address {
        ServerAddress::Tls(at) => ServerAddress::Tls(named(at)),
        ServerAddress::Plain(at) => ServerAddress::Plain(named(at)),
        ServerAddress::Unix(_) => address.clone(),
    }
}

fn is_any(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified())
}
