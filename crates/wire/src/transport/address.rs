//! Where a server is: a unix socket of this machine, or a port of another one.
//!
//! Invariant: an address is shown as it is written, so that one process can tell it to another.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use tenure_model::Refusal;

/// Bytes of an address: a host's name has at most 253, a path at most 4,095.
const ADDRESS_LEN_MAX: usize = 4200;
/// Bytes of a host's name (RFC 1035).
const HOST_LEN_MAX: usize = 253;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ServerAddress {
    /// `unix:PATH`: a socket of this machine.
    Unix(PathBuf),
    /// `https://HOST:PORT`: TLS.
    Tls(HostPort),
    /// `http://HOST:PORT`: what is said can be read and changed by anybody on the way.
    Plain(HostPort),
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// A name or an IP address, without the brackets of IPv6.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl FromStr for ServerAddress {
    type Err = Refusal;

    /// Parses an address; the port is 443 for `https` and 80 for `http` where none is named, and a last `/` means nothing.
    fn from_str(text: &str) -> Result<Self, Refusal> {
        let refused = |why: &str| {
            let forms = "addresses are unix:PATH, https://HOST:PORT or http://HOST:PORT";
            Refusal::Because(format!("`{text}` is no address of a server: {why}; {forms}"))
        };
        if text.len() > ADDRESS_LEN_MAX {
            return Err(Refusal::Because(format!(
                "an address of a server has at most {ADDRESS_LEN_MAX} bytes"
            )));
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.starts_with('/') {
                Ok(Self::Unix(path.into()))
            } else {
                Err(refused("the path of a socket must be absolute"))
            };
        }
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| refused("it begins with none of these"))?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        match scheme {
            "https" => HostPort::parse(rest, 443)
                .map(Self::Tls)
                .map_err(|why| refused(&why)),
            "http" => HostPort::parse(rest, 80)
                .map(Self::Plain)
                .map_err(|why| refused(&why)),
            _ => Err(refused("it names an unknown scheme")),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tls(at) => write!(f, "https://{at}"),
            Self::Plain(at) => write!(f, "http://{at}"),
        }
    }
}

impl HostPort {
    /// Parses `HOST:PORT`, `[IPV6]:PORT`, or a host alone for a port that goes without saying.
    fn parse(text: &str, usual: u16) -> Result<Self, String> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, behind) = rest.split_once(']').ok_or("a `]` is missing")?;
                (host, behind)
            }
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let is_part_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_part_of_host) {
            return Err("it names no host".into());
        }
        if host.len() > HOST_LEN_MAX {
            return Err(format!("a host's name has at most {HOST_LEN_MAX} bytes"));
        }
        let port = match port {
            "" => usual,
            _ => port
                .strip_prefix(':')
                .and_then(|port| port.parse().ok())
                .ok_or("its port is no number up to 65535")?,
        };
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl FromStr for HostPort {
    type Err = Refusal;

    /// Parses `HOST:PORT` or `[IPV6]:PORT`.
    fn from_str(text: &str) -> Result<Self, Refusal> {
        let parsed = if text.ends_with(']') || !text.contains(':') {
            Err("it names no port".to_owned())
        } else {
            Self::parse(text, 0)
        };
        parsed.map_err(|why| Refusal::Because(format!("`{text}` is no HOST:PORT: {why}")))
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_as_they_are_written() {
        for (text, shown) in [
            ("unix:/run/tenure.sock", "unix:/run/tenure.sock"),
            ("https://a.example:7430", "https://a.example:7430"),
            ("https://a.example/", "https://a.example:443"),
            ("http://127.0.0.1:1", "http://127.0.0.1:1"),
            ("http://[::1]:65535", "http://[::1]:65535"),
            ("https://[fe80::1%eth0]", "https://[fe80::1%eth0]:443"),
        ] {
            let address: ServerAddress = text.parse().expect("it is an address");
            assert_eq!(address.to_string(), shown);
            assert_eq!(shown.parse(), Ok(address));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_forms_that_are() {
        let long = format!("https://{}:1", "a".repeat(400));
        for text in [
            "",
            "host:1",
            "unix:relative",
            "ftp://host:1",
            "https://",
            "https://:1",
            "https://h:70000",
            "https://h:x",
            "https://u@h:1",
            "https://h:1/path",
            "https://[::1",
            "https://::1",
            "https://a b:1",
            &long,
        ] {
            let refused = text.parse::<ServerAddress>().expect_err(text).to_string();
            assert!(refused.contains("address"), "{refused}");
        }
        for text in ["host", "[::1]", ":1", "h:p"] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }
}
