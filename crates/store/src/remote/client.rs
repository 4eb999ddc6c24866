//! The HTTP client below a remote bucket: it sends a request once, follows no redirection, reads no environment, and
//! notes what came of it.
//!
//! Invariant: whoever asked hears whether a conditional put was sent, and the status that came back, if one did.

use super::config::Bounds;
use async_trait::async_trait;
use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderName, HeaderValue, IF_NONE_MATCH, USER_AGENT};
use http::uri::Scheme;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as Tcp;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// How long a connection that nobody uses is kept: shorter than servers do, so that few are found closed.
const IDLE_MAX: Duration = Duration::from_secs(15);
/// Bytes of what a server says about a request that failed.
const REASON_LEN_MAX: usize = 64 << 10;
/// The header of a conditional put to Google's service.
const GENERATION_MATCH: HeaderName = HeaderName::from_static("x-goog-if-generation-match");

/// What is known of the requests of one try.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// Whether a conditional put may have left this machine.
    pub(super) put_was_sent: bool,
    /// The status of the last reply.
    pub(super) status: Option<StatusCode>,
    /// What the last reply said, when it was no success.
    pub(super) reason: Bytes,
}

tokio::task_local! {
    static EXCHANGE: RefCell<Exchange>;
}

/// Makes one try and returns with its result what was exchanged.
pub(super) async fn observed<T>(tried: impl Future<Output = T>) -> (T, Exchange) {
    let observe = async {
        let result = tried.await;
        (result, EXCHANGE.with(RefCell::take))
    };
    EXCHANGE.scope(RefCell::default(), observe).await
}

/// Makes the HTTP clients of one bucket.
#[derive(Debug)]
pub(super) struct Connector {
    client: Client<HttpsConnector<Tcp>, HttpRequestBody>,
}

impl Connector {
    pub(super) fn new(
        bounds: &Bounds,
        certificates: Option<&[u8]>,
        allow_http: bool,
    ) -> object_store::Result<Self> {
        let mut tcp = Tcp::new();
        tcp.set_connect_timeout(Some(bounds.connect_timeout));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let tls = HttpsConnectorBuilder::new().with_tls_config(trusting(certificates, allow_http)?);
        let https = tls.https_or_http().enable_http1().wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(bounds.connections_max)
            .build(https);
        Ok(Self { client })
    }
}

/// Returns what TLS trusts: the certificates of this machine, and those that were given. A machine that has none can still
/// be let use plain HTTP.
fn trusting(certificates: Option<&[u8]>, allow_http: bool) -> object_store::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for given in CertificateDer::pem_slice_iter(certificates.unwrap_or_default()) {
        let given = given.map_err(|error| refused(format!("the certificates cannot be read: {error}")))?;
        let added = roots.add(given);
        added.map_err(|error| refused(format!("a certificate cannot be trusted: {error}")))?;
    }
    if roots.is_empty() && !allow_http {
        return Err(refused(
            "this machine trusts no certificates: install `ca-certificates`, or give some".to_owned(),
        ));
    }
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions();
    let builder = builder.expect("ring speaks the usual versions of TLS");
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn refused(why: String) -> object_store::Error {
    object_store::Error::Generic {
        store: "TLS",
        source: why.into(),
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allow_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        Ok(HttpClient::new(Sender {
            client: self.client.clone(),
            allow_http: allow_http.as_deref() == Some("true"),
        }))
    }
}

/// Sends requests.
#[derive(Debug)]
struct Sender {
    client: Client<HttpsConnector<Tcp>, HttpRequestBody>,
    allow_http: bool,
}

#[async_trait]
impl HttpService for Sender {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if !self.allow_http && request.uri().scheme() != Some(&Scheme::HTTPS) {
            let why = std::io::Error::other("plain HTTP is not allowed");
            return Err(HttpError::new(HttpErrorKind::Connect, why));
        }
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static("tenure"));
        let is_put = headers.contains_key(IF_NONE_MATCH) || headers.contains_key(GENERATION_MATCH);
        note(|exchange| exchange.put_was_sent = is_put);
        let reply = self.client.request(request).await.map_err(|error| {
            if error.is_connect() {
                note(|exchange| exchange.put_was_sent = false);
                return HttpError::new(HttpErrorKind::Connect, error);
            }
            HttpError::new(HttpErrorKind::Interrupted, error)
        })?;
        note(|exchange| exchange.status = Some(reply.status()));
        Ok(if reply.status().is_success() {
            streamed(reply)
        } else {
            with_reason(reply).await
        })
    }
}

fn note(change: impl FnOnce(&mut Exchange)) {
    // Only tries are observed; nothing else uses the client.
    let _ = EXCHANGE.try_with(|exchange| change(&mut exchange.borrow_mut()));
}

fn streamed(reply: http::Response<Incoming>) -> HttpResponse {
    reply.map(|body| {
        HttpResponseBody::new(body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error)))
    })
}

/// Reads what the server says about a failure. That it failed counts, also where the words do not arrive.
async fn with_reason(reply: http::Response<Incoming>) -> HttpResponse {
    let (head, body) = reply.into_parts();
    let read = Limited::new(body, REASON_LEN_MAX).collect().await;
    let reason = read.map(|read| read.to_bytes()).unwrap_or_default();
    note(|exchange| exchange.reason = reason.clone());
    http::Response::from_parts(head, reason.into())
}
