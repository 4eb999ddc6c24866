//! The bucket that a command is told to use: a folder, or one that a service keeps, with what the service's own environment
//! says of it.

mod keys;

use crate::clock::random;
use crate::error::Told;
use crate::hint::words::NEWER_HINT;
use crate::home;
use crate::output::quoted;
use crate::place::Way;
use crate::place::as_options;
use crate::waiting::Waiting;
use anyhow::Result;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tenure_model::USE_NEWER;
use tenure_store::remote::RemoteConfig;
use tenure_store::{Bucket, FolderBucket, OpenError, RemoteBucket, marker, proof};

/// Environment variables of this prefix belong to a service's own tools, and are handed to its client.
const SERVICES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];
/// Where an S3 service is, as its own tools are told.
const S3_ENDPOINTS: [&str; 2] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
const S3_REGIONS: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];

/// Which bucket, and how its service is reached.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BucketArgs {
    /// The bucket: a folder, s3://NAME[/PREFIX], gs://NAME[/PREFIX] or az://CONTAINER[/PREFIX]
    /// [default: tenure/bucket in the user's data directory]
    #[arg(long, value_name = "BUCKET", env = "TENURE_BUCKET")]
    bucket: Option<PathBuf>,
    /// Where the bucket's service is, such as https://s3.example:8333, if not at its vendor's
    /// [default of s3://: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// The region of an s3:// bucket [default: AWS_REGION, AWS_DEFAULT_REGION]
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// The keys of an s3:// bucket, in a file as ~/.aws/credentials, of which AWS_PROFILE names the section
    /// [default: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, else AWS_SHARED_CREDENTIALS_FILE or
    /// ~/.aws/credentials, else what the machine has been given]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
}

/// A bucket that this process can open.
pub(crate) enum Kept {
    /// A folder of this machine.
    Folder(PathBuf),
    /// What a service keeps.
    Service(Box<Service>),
}

/// A bucket that a service keeps, and how it was named.
pub(crate) struct Service {
    config: RemoteConfig,
    args: BucketArgs,
    way: Way,
}

impl BucketArgs {
    /// Returns the bucket that is meant.
    pub(crate) fn kept(&self, way: &Way) -> Result<Kept> {
        let Some(named) = &self.bucket else {
            return Ok(Kept::Folder(home::bucket()?));
        };
        let text = named.to_string_lossy();
        match text.split_once("://") {
            None => Ok(Kept::Folder(named.clone())),
            Some(("file", path)) => Ok(Kept::Folder(PathBuf::from(path))),
            Some(_) if RemoteConfig::knows(&text) => Ok(Kept::Service(Box::new(Service {
                config: self.config(&text, way)?,
                args: self.clone(),
                way: way.clone(),
            }))),
            Some((scheme, _)) => Err(Told::refused(
                format!("there are no {scheme}:// buckets"),
                "--bucket names a folder, or s3://NAME, gs://NAME or az://CONTAINER, and behind it /PREFIX if need be",
            )),
        }
    }

    /// Returns the options, each behind a space, by which another command finds the same bucket.
    pub(crate) fn options(&self) -> String {
        as_options(&self.arguments())
    }

    /// Returns the options by which another process of this program finds the same bucket.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let path = |path: &PathBuf| path.as_os_str().to_owned();
        let text = |text: &String| OsString::from(text);
        let all = [
            ("bucket", self.bucket.as_ref().map(path)),
            ("endpoint", self.endpoint.as_ref().map(text)),
            ("region", self.region.as_ref().map(text)),
            ("keys", self.keys.as_ref().map(path)),
        ];
        let named = all.into_iter().filter_map(|(name, value)| Some((name, value?)));
        named
            .flat_map(|(name, value)| [format!("--{name}").into(), value])
            .collect()
    }

    fn config(&self, url: &str, way: &Way) -> Result<RemoteConfig> {
        let is_s3 = url.starts_with("s3://");
        let of = |names: &[&str]| {
            is_s3
                .then(|| names.iter().find_map(|name| variable(name)))
                .flatten()
        };
        let endpoint = self.endpoint.clone().or_else(|| of(&S3_ENDPOINTS));
        let allow_http = way.unencrypted || endpoint.as_deref().is_some_and(is_of_this_machine);
        let keys = if is_s3 {
            keys::found(self.keys.as_deref())?
        } else {
            None
        };
        let options = std::env::vars_os().filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            let is_meant = SERVICES.iter().any(|service| name.starts_with(service))
                && !S3_ENDPOINTS.contains(&name.as_str());
            is_meant.then_some((name, value))
        });
        Ok(RemoteConfig {
            endpoint,
            region: self.region.clone().or_else(|| of(&S3_REGIONS)),
            keys,
            options: options.collect(),
            certificates: way.authorities()?,
            allow_http,
            seed: number(),
            ..RemoteConfig::of(url)
        })
    }
}

impl Kept {
    /// Returns what tells this bucket from every other.
    pub(crate) fn identity(&self) -> PathBuf {
        match self {
            Kept::Folder(folder) => std::path::absolute(folder).unwrap_or_else(|_| folder.clone()),
            Kept::Service(service) => {
                let config = &service.config;
                let endpoint = config.endpoint.as_deref().unwrap_or_default();
                PathBuf::from(format!("{}@{endpoint}", config.url.trim_end_matches('/')))
            }
        }
    }

    /// Opens the bucket.
    pub(crate) fn open(&self) -> Result<Arc<dyn Bucket>> {
        match self {
            Kept::Folder(folder) => open_folder(folder),
            Kept::Service(service) => Ok(Arc::new(service.asked(RemoteBucket::open)?)),
        }
    }

    /// Opens the bucket, and makes it where there is none; a service is proved before.
    pub(crate) fn create(&self) -> Result<Arc<dyn Bucket>> {
        match self {
            Kept::Folder(folder) => {
                if home::bucket().is_ok_and(|own| own == *folder) {
                    home::make_data()?;
                }
                match FolderBucket::create(folder) {
                    Ok(bucket) => Ok(Arc::new(bucket)),
                    Err(error) => Err(no_folder(folder, &error)),
                }
            }
            Kept::Service(service) => Ok(Arc::new(service.asked(make)?)),
        }
    }

    /// Opens the bucket for a server of many clients: a service is proved whenever one begins.
    pub(crate) fn open_proved(&self) -> Result<Arc<dyn Bucket>> {
        let bucket = self.open()?;
        if let Kept::Service(service) = self {
            service.asked(|_| proof::prove(&*bucket, number()))?;
        }
        Ok(bucket)
    }
}

impl Service {
    /// Asks the service for something; says for whom it waits when that takes long, and what helps when it fails.
    fn asked<R>(&self, ask: impl FnOnce(&RemoteConfig) -> Result<R, OpenError>) -> Result<R> {
        let whom = format!("{}, {}", self.config.url, self.endpoint());
        let _waiting = Waiting::begin(move || Some(whom));
        ask(&self.config).map_err(|error| self.told(&error))
    }

    fn endpoint(&self) -> String {
        match &self.config.endpoint {
            Some(endpoint) => format!("which is looked for at {endpoint}"),
            None => "at its vendor's place".to_owned(),
        }
    }

    /// Says why the bucket cannot be used, and what helps.
    fn told(&self, error: &OpenError) -> anyhow::Error {
        let (url, why) = (&self.config.url, error.to_string());
        let create = |args: &BucketArgs| {
            let options = args.options() + &self.way.options();
            format!("tenure drive create NAME{options}")
        };
        let hint = if why.contains("is not a bucket: it has no") {
            format!("{} makes one where nothing else is", create(&self.args))
        } else if why.contains("holds other things") {
            let below = format!("{}/a-prefix-of-its-own", url.trim_end_matches('/'));
            create(&BucketArgs {
                bucket: Some(below.into()),
                ..self.args.clone()
            })
        } else if why.contains("in the clear") {
            "--endpoint https://...; or --unencrypted, where something else encrypts the way there".to_owned()
        } else if why.contains("cannot hold drives") {
            "SeaweedFS and the large vendors' services keep conditional puts".to_owned()
        } else if why.contains("check the keys")
            || why.contains("the keys have ended")
            || why.contains("let these keys")
        {
            "--keys FILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, give them".to_owned()
        } else if why.contains(USE_NEWER) {
            NEWER_HINT.to_owned()
        } else if matches!(error, OpenError::Refused(_)) {
            "tenure serve --help tells how buckets are named".to_owned()
        } else {
            let now = self.config.endpoint.as_deref().unwrap_or("its vendor's place");
            format!(
                "--endpoint URL says where {url} is (now {now}); curl -v URL shows whether anybody answers there"
            )
        };
        match error {
            OpenError::Refused(_) => Told::refused(why, hint),
            OpenError::Failed(_) => Told::failed(why, hint),
        }
    }
}

/// Makes a bucket of a service's, unless it is one. What does not keep conditional puts is left as it was.
fn make(config: &RemoteConfig) -> Result<RemoteBucket, OpenError> {
    let place = RemoteBucket::attach(config)?;
    let is_new = place.get(&marker::key())?.is_none();
    let bucket = RemoteBucket::create(config)?;
    if is_new && let Err(error) = proof::prove(&bucket, number()) {
        bucket.delete(&marker::key())?;
        return Err(error);
    }
    Ok(bucket)
}

fn open_folder(folder: &Path) -> Result<Arc<dyn Bucket>> {
    match std::fs::metadata(folder) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Told::refused(
                format!("there is no bucket at {}", folder.display()),
                {
                    let bucket = quoted(folder);
                    format!(
                        "tenure drive create NAME --bucket {bucket} makes it, and so does tenure mount NAME DIR --create --bucket {bucket}"
                    )
                },
            ));
        }
        Err(error) => {
            return Err(Told::failed(
                format!("cannot look at the bucket {}: {error}", folder.display()),
                format!("namei -l {}", folder.display()),
            ));
        }
    }
    match FolderBucket::open(folder) {
        Ok(bucket) => Ok(Arc::new(bucket)),
        Err(error) => Err(no_folder(folder, &error)),
    }
}

/// Says what helps where a folder cannot be used as a bucket.
fn no_folder(folder: &Path, error: &OpenError) -> anyhow::Error {
    let shown = folder.display();
    let why = error.to_string();
    match error {
        OpenError::Refused(_) if why.contains("damaged") => Told::refused(
            why,
            format!(
                "bring {shown}/tenure-bucket back from a copy; every bucket of this format has the same one"
            ),
        ),
        OpenError::Refused(_) if why.contains(USE_NEWER) => Told::refused(why, NEWER_HINT),
        OpenError::Refused(_) => Told::refused(
            why,
            "--bucket FOLDER names the bucket; tenure drive create NAME --bucket FOLDER makes one in an empty folder",
        ),
        OpenError::Failed(_) => Told::failed(why, format!("ls -ld {shown}; df -h {shown}")),
    }
}

/// Tells whether an endpoint is on this machine: nobody is on the way there.
fn is_of_this_machine(endpoint: &str) -> bool {
    let Some(rest) = endpoint.strip_prefix("http://") else {
        return false;
    };
    let host = rest.split('/').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(inside) => inside.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Draws a number that no other process draws.
fn number() -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = random();
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_endpoint_of_this_machine_is_spoken_to_in_the_clear_unasked() {
        for (endpoint, is_here) in [
            ("http://127.0.0.1:8333", true),
            ("http://localhost:1/path", true),
            ("http://[::1]:8333", true),
            ("http://10.0.0.1:8333", false),
            ("http://localhost.example", false),
            ("https://127.0.0.1", false),
        ] {
            assert_eq!(is_of_this_machine(endpoint), is_here, "{endpoint}");
        }
    }
}
