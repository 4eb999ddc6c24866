//! Where a remote bucket is, who may use it, and how long its calls may take; and the client that follows from it.
//!
//! It reads no environment: whoever does hands over what it found.

use super::client::Connector;
use super::reply::root_of;
use crate::key::Key;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::PaginatedListStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use std::sync::Arc;
use std::time::Duration;
use tenure_model::Refusal;

/// Bytes of a prefix: with the longest key it fits the 1,024 that S3 allows.
const PREFIX_LEN_MAX: usize = 500;

/// Where a remote bucket is, and how it is reached.
#[derive(Clone)]
pub struct RemoteConfig {
    /// `s3://NAME[/PREFIX]`, `gs://NAME[/PREFIX]` or `az://CONTAINER[/PREFIX]`.
    pub url: String,
    /// Where the service is, such as `http://127.0.0.1:8333`, if not where its vendor has it.
    pub endpoint: Option<String>,
    /// The region of the bucket (S3).
    pub region: Option<String>,
    /// Who uses it (S3).
    pub keys: Option<AccessKeys>,
    /// What else the service's client can be told, by the names of environment variables, such as
    /// `AWS_WEB_IDENTITY_TOKEN_FILE`; what it does not know is ignored. The fields above go first.
    pub options: Vec<(String, String)>,
    /// Certificates that are trusted besides those of this machine, as PEM.
    pub certificates: Option<Vec<u8>>,
    /// Whether bytes may travel without TLS.
    pub allow_http: bool,
    /// How long calls may take.
    pub bounds: Bounds,
    /// What spreads the waits between tries: any number that differs between processes.
    pub seed: u64,
}

/// The keys of an S3 user.
#[derive(Clone)]
pub struct AccessKeys {
    /// The key's name.
    pub id: String,
    /// The key.
    pub secret: String,
    /// What comes with keys that end after a time.
    pub session_token: Option<String>,
}

/// Bounds of every call of a remote bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How long one try may take; a second more for each MiB that it moves.
    pub try_timeout: Duration,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// Times that something is tried in all.
    pub tries_max: u32,
    /// The first wait between two tries; the next are twice as long each, and each is shortened by chance.
    pub first_wait: Duration,
    /// The longest wait between two tries.
    pub wait_max: Duration,
    /// Calls that are on their way at once, and so connections; others wait for their turn.
    pub connections_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            try_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            tries_max: 4,
            first_wait: Duration::from_millis(50),
            wait_max: Duration::from_secs(2),
            connections_max: 64,
        }
    }
}

impl RemoteConfig {
    /// Returns the configuration of a bucket at its vendor's place, with nothing else said.
    pub fn of(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            endpoint: None,
            region: None,
            keys: None,
            options: Vec::new(),
            certificates: None,
            allow_http: false,
            bounds: Bounds::default(),
            seed: 0,
        }
    }

    /// Tells whether a URL names a bucket of a kind that this module knows.
    pub fn knows(url: &str) -> bool {
        Service::of(url).is_some()
    }

    /// Parses the URL and makes the client; nothing is asked of the bucket yet.
    pub(super) fn reach(&self) -> Result<Reach, Refusal> {
        let place = self.place()?;
        let client = self
            .client(&place)
            .map_err(|error| refused(&format!("{}: {}", self.url, root_of(&error))))?;
        Ok(Reach {
            client,
            prefix: place.prefix,
            described: self.described(),
            reads_ends: !matches!(place.service, Service::Azure),
        })
    }

    /// Says which bucket this is, without anything secret.
    fn described(&self) -> String {
        match &self.endpoint {
            Some(endpoint) => format!("the bucket {} at {endpoint}", self.url),
            None => format!("the bucket {}", self.url),
        }
    }

    fn place(&self) -> Result<Place, Refusal> {
        let url = &self.url;
        let (service, rest) = Service::of(url).ok_or_else(|| {
            refused(&format!(
                "{url:?} names no bucket: write s3://NAME, gs://NAME or az://NAME, and behind it /PREFIX if need be"
            ))
        })?;
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(refused(&format!(
                "{url:?} names no bucket: {name:?} is no name of one"
            )));
        }
        if !prefix.is_empty() && (prefix.len() > PREFIX_LEN_MAX || Key::parse(prefix).is_err()) {
            return Err(refused(&format!(
                "{url:?}: a prefix is at most {PREFIX_LEN_MAX} letters, digits, `.`, `_`, `-` and `/`; use another"
            )));
        }
        if let Some(endpoint) = &self.endpoint {
            self.check_endpoint(endpoint)?;
        }
        let slash = if prefix.is_empty() { "" } else { "/" };
        Ok(Place {
            service,
            name: name.to_owned(),
            prefix: format!("{prefix}{slash}"),
        })
    }

    fn check_endpoint(&self, endpoint: &str) -> Result<(), Refusal> {
        if endpoint.contains('@') {
            return Err(refused(
                "an endpoint holds no user or password: give the keys apart from it",
            ));
        }
        let plain = endpoint.starts_with("http://");
        if !plain && !endpoint.starts_with("https://") {
            return Err(refused(&format!(
                "{endpoint:?} is no endpoint: write https://HOST[:PORT]"
            )));
        }
        if plain && !self.allow_http {
            return Err(refused(&format!(
                "{endpoint} would send everything in the clear: use https://, or allow plain HTTP"
            )));
        }
        Ok(())
    }

    fn client(&self, place: &Place) -> object_store::Result<Arc<dyn Client>> {
        let connector = Connector::new(&self.bounds, self.certificates.as_deref(), self.allow_http)?;
        let options = ClientOptions::new().with_allow_http(self.allow_http);
        Ok(match place.service {
            Service::S3 => Arc::new(
                self.s3()
                    .with_bucket_name(&place.name)
                    .with_conditional_put(S3ConditionalPut::ETagMatch)
                    .with_disable_bulk_delete(true)
                    .with_client_options(options)
                    .with_http_connector(connector)
                    .with_retry(no_retries())
                    .build()?,
            ),
            Service::Google => Arc::new(
                self.google()
                    .with_bucket_name(&place.name)
                    .with_client_options(options)
                    .with_http_connector(connector)
                    .with_retry(no_retries())
                    .build()?,
            ),
            Service::Azure => Arc::new(
                self.azure()
                    .with_container_name(&place.name)
                    .with_client_options(options)
                    .with_http_connector(connector)
                    .with_retry(no_retries())
                    .build()?,
            ),
        })
    }

    fn s3(&self) -> AmazonS3Builder {
        let told = self.told();
        let mut builder = told.fold(AmazonS3Builder::new(), |builder, (key, value)| {
            builder.with_config(key, value)
        });
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = &self.region {
            builder = builder.with_region(region);
        }
        if let Some(keys) = &self.keys {
            builder = builder
                .with_access_key_id(&keys.id)
                .with_secret_access_key(&keys.secret);
            if let Some(token) = &keys.session_token {
                builder = builder.with_token(token);
            }
        }
        builder
    }

    fn google(&self) -> GoogleCloudStorageBuilder {
        let told = self.told();
        let builder = told.fold(GoogleCloudStorageBuilder::new(), |builder, (key, value)| {
            builder.with_config(key, value)
        });
        match &self.endpoint {
            Some(endpoint) => builder.with_base_url(endpoint),
            None => builder,
        }
    }

    fn azure(&self) -> MicrosoftAzureBuilder {
        let told = self.told();
        let builder = told.fold(MicrosoftAzureBuilder::new(), |builder, (key, value)| {
            builder.with_config(key, value)
        });
        match &self.endpoint {
            Some(endpoint) => builder.with_endpoint(endpoint.clone()),
            None => builder,
        }
    }

    /// Returns the options that a client knows.
    fn told<K: std::str::FromStr>(&self) -> impl Iterator<Item = (K, &str)> {
        self.options.iter().filter_map(|(name, value)| {
            let key = name.to_ascii_lowercase().parse().ok()?;
            Some((key, value.as_str()))
        })
    }
}

/// A client of one bucket, below which nothing is tried twice.
pub(super) trait Client: ObjectStore + PaginatedListStore {}

impl<T: ObjectStore + PaginatedListStore> Client for T {}

/// A bucket that can be asked.
pub(super) struct Reach {
    pub(super) client: Arc<dyn Client>,
    /// What stands before every key: empty, or ending with `/`.
    pub(super) prefix: String,
    pub(super) described: String,
    /// Whether the service reads an object's end without being told where it begins.
    pub(super) reads_ends: bool,
}

/// A URL's parts.
struct Place {
    service: Service,
    name: String,
    prefix: String,
}

#[derive(Clone, Copy)]
enum Service {
    S3,
    Google,
    Azure,
}

impl Service {
    /// Returns which service a URL names, and what stands behind.
    fn of(url: &str) -> Option<(Self, &str)> {
        let (scheme, rest) = url.split_once("://")?;
        let service = match scheme {
            "s3" => Self::S3,
            "gs" => Self::Google,
            "az" => Self::Azure,
            _ => return None,
        };
        Some((service, rest))
    }
}

/// Whether something may be tried again is decided where it is known what a second try means: not by the client.
fn no_retries() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        retry_timeout: Duration::ZERO,
        backoff: BackoffConfig::default(),
    }
}

fn refused(why: &str) -> Refusal {
    Refusal::Because(why.to_owned())
}
