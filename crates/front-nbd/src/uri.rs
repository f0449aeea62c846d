//! NBD URIs: `nbd://HOST[:PORT]/EXPORT` and `nbd+unix:///EXPORT?socket=PATH`, or `nbds` for TLS (the NBD URI
//! specification; its parameters for certificates are the client's own).

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use esker_rt::net::Address;

/// The port registered for NBD.
pub const PORT: u16 = 10809;

/// Where an export is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uri {
    /// The server.
    pub address: Address,
    /// The export; empty for the default one.
    pub export: String,
    /// Whether it is spoken inside TLS.
    pub tls: bool,
}

/// A text that is no NBD URI, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no NBD address: {why}; write nbd://HOST:PORT/EXPORT or nbd+unix:///EXPORT?socket=PATH")]
pub struct UriError {
    text: String,
    why: &'static str,
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Uri, UriError> {
        parse(text).map_err(|why| UriError { text: text.to_string(), why })
    }
}

fn parse(text: &str) -> Result<Uri, &'static str> {
    let (scheme, rest) = text.split_once("://").ok_or("it has no scheme")?;
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
    let export = decode(export).ok_or("a percent sign is not followed by two hexadecimal digits of UTF-8 text")?;
    let (scheme, tls) = match scheme {
        "nbds" => ("nbd", true),
        "nbds+unix" => ("nbd+unix", true),
        plain => (plain, false),
    };
    let address = match scheme {
        "nbd" if query.is_some() => return Err("nbd:// takes no parameters"),
        "nbd" if host.is_empty() => return Err("the host is missing"),
        "nbd" => Address::Tcp(with_port(host)),
        "nbd+unix" if !host.is_empty() => return Err("nbd+unix:// takes no host"),
        "nbd+unix" => {
            let path = query.and_then(|q| q.strip_prefix("socket=")).filter(|path| !path.is_empty());
            Address::Unix(PathBuf::from(
                decode(path.ok_or("the socket is missing")?).ok_or("the socket's path is no text")?,
            ))
        }
        _ => return Err("its scheme is neither nbd nor nbd+unix"),
    };
    Ok(Uri { address, export, tls })
}

/// The host with the registered port unless it has one. Colons inside brackets belong to an IPv6 address.
fn with_port(host: &str) -> String {
    let behind = host.rsplit_once(']').map_or(host, |(_, behind)| behind);
    if behind.contains(':') { host.to_string() } else { format!("{host}:{PORT}") }
}

fn decode(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        out.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(out).ok()
}

fn encode(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = encode(&self.export);
        let scheme = if self.tls { "nbds" } else { "nbd" };
        match &self.address {
            Address::Tcp(host) => write!(f, "{scheme}://{host}/{export}"),
            Address::Unix(path) => write!(f, "{scheme}+unix:///{export}?socket={}", encode(&path.to_string_lossy())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, export: &str) -> Uri {
        Uri { address: Address::Tcp(host.into()), export: export.into(), tls: false }
    }

    #[test]
    fn uris_name_a_server_and_an_export() {
        let unix = Uri { address: Address::Unix("/run/a b.sock".into()), export: "disk".into(), tls: false };
        for (text, uri) in [
            ("nbd://localhost", tcp("localhost:10809", "")),
            ("nbd://localhost:1/vm%201", tcp("localhost:1", "vm 1")),
            ("nbd://[::1]/a/b", tcp("[::1]:10809", "a/b")),
            ("nbds://localhost/disk", Uri { tls: true, ..tcp("localhost:10809", "disk") }),
            ("nbds+unix:///disk?socket=/run/a%20b.sock", Uri { tls: true, ..unix.clone() }),
            ("nbd+unix:///disk?socket=/run/a%20b.sock", unix),
        ] {
            assert_eq!(text.parse(), Ok(uri.clone()), "{text}");
            assert_eq!(uri.to_string().parse(), Ok(uri), "{text}");
        }
    }

    #[test]
    fn other_texts_say_what_is_missing() {
        for (text, why) in [
            ("disk", "no scheme"),
            ("nbd:///disk", "host is missing"),
            ("nbd+unix:///disk", "socket is missing"),
            ("nbds:///disk", "host is missing"),
            ("http://host/", "scheme is neither"),
            ("nbd://host/%zz", "percent"),
        ] {
            let error = text.parse::<Uri>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("nbd+unix:///EXPORT"), "{error}");
        }
    }
}
