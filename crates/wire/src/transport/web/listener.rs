//! The port of a server: connections are accepted, encrypted and spoken to in HTTP by one thread; who asks for a session
//! and is let in becomes a connection like any other, with threads of its own.
//!
//! Invariant: how many come at once and how long they may take to say what they want is bounded.

mod request;

use super::channel::{Channel, Received};
use super::identity::Identity;
use super::tunnel::Tunnel;
use super::websocket::{End, WebStream};
use super::{HEAD_LEN_MAX, KEEPING};
use crate::owner::Error;
use crate::transport::address::HostPort;
use crate::transport::guest::Guest;
use crate::transport::stream::Stream;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use rustls::ServerConnection;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{DriveName, Failure, Refusal};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, Semaphore};
use tokio_rustls::TlsAcceptor;

/// Connections that have not said yet what they want; a task each.
const ARRIVALS_MAX: usize = 1024;
/// Connections that the kernel accepts meanwhile.
const BACKLOG: i32 = 1024;
/// How long is rested when the system has no descriptors left.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// Decides who may come in by the network.
pub trait Doorkeeper: Send + Sync {
    /// Lets somebody in who shows a token, or none, to speak about a drive, or with the server itself; returns the agent
    /// that the token stands for, if it stands for one. It must not wait, and compare tokens with
    /// [`Token::is`](super::Token::is). It is asked again for who is in when [`Service::review`](crate::Service::review) is
    /// called.
    fn admit(&self, token: Option<&str>, drive: Option<&DriveName>) -> Result<Option<String>, Refusal>;
}

impl<F> Doorkeeper for F
where
    F: Fn(Option<&str>, Option<&DriveName>) -> Result<Option<String>, Refusal> + Send + Sync,
{
    fn admit(&self, token: Option<&str>, drive: Option<&DriveName>) -> Result<Option<String>, Refusal> {
        self(token, drive)
    }
}

/// Who can read and change what is said.
#[derive(Clone, Debug)]
pub enum Security {
    /// Nobody: TLS.
    Tls(Identity),
    /// Processes of this machine: plain TCP, at an address of this machine alone.
    Loopback,
    /// Anybody on the way: plain TCP. Something else has to encrypt it.
    Plain,
}

/// A port that can be served.
pub struct Listener {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
    doorkeeper: Arc<dyn Doorkeeper>,
}

/// Listens at a port of a host; port 0 stands for any that is free.
pub fn listen(
    at: &HostPort,
    security: &Security,
    doorkeeper: Arc<dyn Doorkeeper>,
) -> Result<Listener, Error> {
    let failed = |error: io::Error| Failure::DidNotHappen(format!("cannot listen at {at}: {error}"));
    let ips: Vec<SocketAddr> = (&*at.host, at.port).to_socket_addrs().map_err(failed)?.collect();
    let tls = match security {
        Security::Tls(identity) => Some(identity.config.clone().into()),
        Security::Loopback if !ips.iter().all(|ip| ip.ip().is_loopback()) => {
            return Err(Refusal::Because(format!(
                "{at} can be reached from other machines, and nothing would be encrypted; listen with TLS, at \
                 127.0.0.1, or ask for plain TCP by name"
            ))
            .into());
        }
        Security::Loopback | Security::Plain => None,
    };
    let socket = TcpListener::bind(&ips[..]).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    rustix::net::listen(&socket, BACKLOG).map_err(|errno| failed(errno.into()))?;
    Ok(Listener {
        socket,
        tls,
        doorkeeper,
    })
}

impl Listener {
    /// Returns where it listens, with the port that was free.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        let failed =
            |error| Failure::DidNotHappen(format!("the kernel does not say where is listened: {error}"));
        Ok(self.socket.local_addr().map_err(failed)?)
    }
}

/// Ends a port that is served.
#[derive(Clone, Default)]
pub(in crate::transport) struct Stop(Arc<Notify>);

impl Stop {
    pub(in crate::transport) fn stop(&self) {
        self.0.notify_one();
    }
}

/// What is done with who was let in.
pub(in crate::transport) type Admit = Arc<dyn Fn(Stream, Guest) + Send + Sync>;

/// Serves a port until it is stopped. Who is asked about is told to `admit`, and who is not to be heard for `greeting_max`
/// is not waited for.
pub(in crate::transport) fn accept_all(
    listener: Listener,
    stop: &Stop,
    greeting_max: Duration,
    admit: Admit,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let entered = runtime.enter();
    let socket = tokio::net::TcpListener::from_std(listener.socket)?;
    drop(entered);
    let port = Arc::new(Port {
        tls: listener.tls,
        doorkeeper: listener.doorkeeper,
        greeting_max,
        admit,
        arrivals: Arc::new(Semaphore::new(ARRIVALS_MAX)),
    });
    runtime.block_on(async {
        runtime.spawn(port.accept_all(socket));
        stop.0.notified().await;
    });
    Ok(())
}

struct Port {
    tls: Option<TlsAcceptor>,
    doorkeeper: Arc<dyn Doorkeeper>,
    greeting_max: Duration,
    admit: Admit,
    arrivals: Arc<Semaphore>,
}

/// A request for a session that was answered with yes.
struct Invited {
    upgrade: OnUpgrade,
    guest: Guest,
}

impl Port {
    async fn accept_all(self: Arc<Self>, listener: tokio::net::TcpListener) {
        loop {
            // Never closed, so it is there sooner or later: everybody has bounded time.
            let Ok(arrival) = self.arrivals.clone().acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((socket, from)) => {
                    let port = self.clone();
                    tokio::spawn(async move {
                        port.arrive(socket, from).await;
                        drop(arrival);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "no connection can be accepted");
                    tokio::time::sleep(ACCEPT_REST).await;
                }
            }
        }
    }

    async fn arrive(&self, socket: tokio::net::TcpStream, from: SocketAddr) {
        let arrived = async {
            match &self.tls {
                Some(tls) => self.speak(tls.accept(socket).await?).await,
                None => self.speak(socket).await,
            }
        };
        match tokio::time::timeout(self.greeting_max, arrived).await {
            Ok(Ok(Some((stream, guest)))) => {
                tracing::debug!(%from, ?guest, "somebody has come by the network");
                (self.admit)(stream, guest);
            }
            Ok(Ok(None)) => {}
            Ok(Err(error)) => tracing::debug!(%from, %error, "who came by the network has not come in"),
            Err(_) => tracing::debug!(%from, "who came by the network has not said in time what he wants"),
        }
    }

    /// Speaks HTTP with somebody; returns him when he was let in.
    async fn speak<S: Carried>(&self, socket: S) -> io::Result<Option<(Stream, Guest)>> {
        let invited: Arc<Mutex<Option<Invited>>> = Arc::default();
        let answer = service_fn(|request| {
            let (response, found) = request::answer(request, &self.doorkeeper);
            *invited.lock() = found;
            std::future::ready(Ok::<_, std::convert::Infallible>(response))
        });
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.greeting_max)
            .max_buf_size(HEAD_LEN_MAX)
            .serve_connection(TokioIo::new(socket), answer)
            .with_upgrades()
            .await
            .map_err(io::Error::other)?;
        let Some(Invited { upgrade, guest }) = invited.lock().take() else {
            return Ok(None);
        };
        let upgraded = upgrade.await.map_err(io::Error::other)?;
        let parts = upgraded
            .downcast::<TokioIo<S>>()
            .map_err(|_| io::Error::other("another connection was upgraded"))?;
        let (socket, tunnel) = parts.io.into_inner().parts()?;
        socket.set_nonblocking(false)?;
        let channel = Channel::new(socket, tunnel, KEEPING)?;
        let stream = WebStream::new(channel, End::Server, Received::default(), parts.read_buf.to_vec());
        Ok(Some((stream.into(), guest)))
    }
}

/// What carries HTTP here.
trait Carried: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Takes it apart, to go on without a runtime.
    fn parts(self) -> io::Result<(TcpStream, Tunnel)>;
}

impl Carried for tokio::net::TcpStream {
    fn parts(self) -> io::Result<(TcpStream, Tunnel)> {
        Ok((self.into_std()?, Tunnel::plain()))
    }
}

impl Carried for tokio_rustls::server::TlsStream<tokio::net::TcpStream> {
    fn parts(self) -> io::Result<(TcpStream, Tunnel)> {
        let (socket, connection): (_, ServerConnection) = self.into_inner();
        Ok((socket.into_std()?, Tunnel::tls(connection.into())))
    }
}
