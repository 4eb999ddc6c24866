//! A proxy between a client and an S3 server of this machine: it is as slow as a far store, and fails as it is told.
//!
//! Tests and benchmarks put it in between; addresses are `http://SERVER/BUCKET/KEY`. Invariant: without delays and
//! without a plan every reply is the server's, to the byte.

mod body;

use crate::bucket::{OpenError, RequestKind, Requests};
use crate::faulty::{Call, CallKind, Plan};
use crate::key::Key;
use body::Body;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tenure_model::Failure;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::time::Instant;

/// Bytes of one message.
const MESSAGE_LEN_MAX: usize = 1 << 30;

/// How slow the store is: a reply leaves no sooner than this after its request came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Of a put.
    pub put: Duration,
    /// Of everything else.
    pub get: Duration,
}

/// One way in which an exchange goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyFault {
    /// This status, with this code, is answered; the server hears of nothing.
    Answer(u16, &'static str),
    /// The server does it, and this status with this code is answered.
    AnswerAfter(u16, &'static str),
    /// The connection ends; the server hears of nothing.
    CutBefore,
    /// The server does it, and the connection ends.
    CutAfter,
    /// Nothing is answered for as long as the client waits; the server hears of nothing.
    SilentBefore,
    /// The server does it, and nothing is answered for as long as the client waits.
    SilentAfter,
    /// The connection ends within the reply's body.
    HalfBody,
    /// Half of the body comes, as if it were all.
    ShortBody,
    /// The body is that of another object: as long, and no byte right.
    OtherBody,
}

/// A proxy that runs until it is dropped.
pub struct Proxy {
    address: SocketAddr,
    between: Arc<Between>,
    runtime: Option<Runtime>,
}

/// What all connections share.
struct Between {
    server: String,
    client: Client<HttpConnector, Full<Bytes>>,
    requests: Requests,
    state: Mutex<State>,
}

struct State {
    delays: Delays,
    plan: Plan<ProxyFault>,
    calls: u64,
}

impl Proxy {
    /// Starts a proxy on a free port of this machine, before the server at that address, `HOST:PORT`.
    pub fn start(server: &str) -> Result<Self, OpenError> {
        Self::start_at(Ipv4Addr::LOCALHOST, server)
    }

    /// As `start`, at another address of this machine, where others reach it.
    pub fn start_at(ip: Ipv4Addr, server: &str) -> Result<Self, OpenError> {
        let failed = |error: std::io::Error| Failure::DidNotHappen(format!("cannot start a proxy: {error}"));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("proxy")
            .enable_all()
            .build()
            .map_err(failed)?;
        let listener = runtime.block_on(TcpListener::bind((ip, 0))).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        let between = Arc::new(Between {
            server: server.to_owned(),
            client: Client::builder(TokioExecutor::new()).build(tcp),
            requests: Requests::default(),
            state: Mutex::new(State {
                delays: Delays::default(),
                plan: Plan::none(),
                calls: 0,
            }),
        });
        runtime.spawn(accept(listener, between.clone()));
        Ok(Self {
            address,
            between,
            runtime: Some(runtime),
        })
    }

    /// Returns where clients find it, as `http://HOST:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Is as slow as this from now on.
    pub fn set_delays(&self, delays: Delays) {
        self.between.state.lock().delays = delays;
    }

    /// Gives another plan; calls are counted from 0 again.
    pub fn set_plan(&self, plan: Plan<ProxyFault>) {
        let mut state = self.between.state.lock();
        state.plan = plan;
        state.calls = 0;
    }

    /// Returns the counters of all requests that came.
    pub fn requests(&self) -> &Requests {
        &self.between.requests
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: TcpListener, between: Arc<Between>) {
    // It ends with the runtime. A connection that cannot be had is its client's to try again.
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, between.clone()));
        }
    }
}

async fn serve(stream: TcpStream, between: Arc<Between>) {
    // Without it replies wait for acknowledgements; a connection that refuses is only slower.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| between.exchange(request));
    let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // How it ended is the client's to see.
    let _ = served.await;
}

/// Why an exchange ends without a reply: the connection is cut.
type Cut = Box<dyn std::error::Error + Send + Sync>;

impl Between {
    async fn exchange(&self, request: Request<Incoming>) -> Result<Response<Body>, Cut> {
        let came = Instant::now();
        let (head, body) = request.into_parts();
        let body = Limited::new(body, MESSAGE_LEN_MAX).collect().await?.to_bytes();
        let (kind, key) = asked(&head.method, &head.uri);
        let (fault, delays) = self.turn(kind, key, body.len());
        let leaves = came
            + if kind == CallKind::Put {
                delays.put
            } else {
                delays.get
            };
        match fault {
            Some(ProxyFault::Answer(status, code)) => return answered(status, code),
            Some(ProxyFault::CutBefore) => return Err("cut".into()),
            Some(ProxyFault::SilentBefore) => std::future::pending().await,
            _ => {}
        }
        let (head, body) = self.forwarded(head, body).await?;
        tokio::time::sleep_until(leaves).await;
        match fault {
            Some(ProxyFault::AnswerAfter(status, code)) => answered(status, code),
            Some(ProxyFault::CutAfter) => Err("cut".into()),
            Some(ProxyFault::SilentAfter) => std::future::pending().await,
            _ => Ok(replied(head, body, fault)),
        }
    }

    fn turn(&self, kind: CallKind, key: Key, bytes: usize) -> (Option<ProxyFault>, Delays) {
        self.requests.count_bytes(counted(kind), bytes);
        let mut state = self.state.lock();
        let number = state.calls;
        state.calls += 1;
        let fault = state.plan.fault_at(&Call { number, kind, key });
        (fault, state.delays)
    }

    /// Sends a request on as it is, and returns the whole reply.
    async fn forwarded(
        &self,
        head: http::request::Parts,
        body: Bytes,
    ) -> Result<(http::response::Parts, Bytes), Cut> {
        let asked = head.uri.path_and_query().map_or("/", |asked| asked.as_str());
        let uri = format!("http://{}{asked}", self.server).parse()?;
        let mut request = Request::from_parts(head, Full::new(body));
        *request.uri_mut() = uri;
        let (head, body) = self.client.request(request).await?.into_parts();
        let body = Limited::new(body, MESSAGE_LEN_MAX).collect().await?.to_bytes();
        Ok((head, body))
    }
}

/// Returns what a request asks for, and of which key.
fn asked(method: &Method, uri: &Uri) -> (CallKind, Key) {
    let path = uri.path().trim_matches('/');
    let (_bucket, key) = path.split_once('/').unwrap_or((path, ""));
    let kind = match *method {
        Method::PUT => CallKind::Put,
        Method::DELETE => CallKind::Delete,
        _ if key.is_empty() => CallKind::List,
        _ => CallKind::Get,
    };
    let key = Key::parse(key).unwrap_or_else(|_| Key::parse("all").expect("a literal key"));
    (kind, key)
}

fn counted(kind: CallKind) -> RequestKind {
    if kind == CallKind::Put {
        RequestKind::Put
    } else if kind == CallKind::List {
        RequestKind::List
    } else if kind == CallKind::Delete {
        RequestKind::Delete
    } else {
        RequestKind::Get
    }
}

fn answered(status: u16, code: &str) -> Result<Response<Body>, Cut> {
    let text = match code {
        "" => String::new(),
        _ => format!("<Error><Code>{code}</Code><Message>as planned</Message></Error>"),
    };
    let mut reply = Response::new(Body::whole(text.into()));
    *reply.status_mut() = StatusCode::from_u16(status)?;
    Ok(reply)
}

fn replied(mut head: http::response::Parts, body: Bytes, fault: Option<ProxyFault>) -> Response<Body> {
    // How it came, in pieces or on a connection that ends, says nothing of how it leaves.
    head.headers.remove(http::header::TRANSFER_ENCODING);
    head.headers.remove(http::header::CONNECTION);
    let half = body.slice(..body.len() / 2);
    let body = match fault {
        Some(ProxyFault::HalfBody) => Body::cut(half, body.len()),
        Some(ProxyFault::ShortBody) => {
            head.headers
                .insert(http::header::CONTENT_LENGTH, half.len().into());
            Body::whole(half)
        }
        Some(ProxyFault::OtherBody) => Body::whole(body.iter().map(|byte| !byte).collect()),
        _ => Body::whole(body),
    };
    head.version = http::Version::HTTP_11;
    Response::from_parts(head, body)
}
