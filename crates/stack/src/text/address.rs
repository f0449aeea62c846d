//! Where an export's NBD server listens: `unix:PATH` or `tcp:HOST:PORT`.

use esker_rt::net::Address;

/// Longest path of a Unix socket, in bytes (Linux: 108 with the final zero).
const PATH_MAX: usize = 107;

/// Reads an address. The text after the `:` is kept as written; a path may be relative.
///
/// # Errors
/// Why it is none.
pub fn parse(text: &str) -> Result<Address, &'static str> {
    match text.split_once(':') {
        Some(("unix", path)) => unix(path),
        Some(("tcp", rest)) => tcp(rest),
        _ => Err("it begins with neither unix: nor tcp:"),
    }
}

/// Writes an address so that [`parse`] reads it back.
pub fn text(address: &Address) -> String {
    match address {
        Address::Unix(path) => format!("unix:{}", path.display()),
        Address::Tcp(host) => format!("tcp:{host}"),
    }
}

fn unix(path: &str) -> Result<Address, &'static str> {
    match path {
        "" => Err("the path is missing"),
        _ if path.contains('\0') => Err("the path holds a zero byte"),
        _ if path.len() > PATH_MAX => Err("the path is longer than the 107 bytes of a socket's name"),
        _ => Ok(Address::Unix(path.into())),
    }
}

fn tcp(rest: &str) -> Result<Address, &'static str> {
    let (host, port) = rest.rsplit_once(':').ok_or("the port is missing")?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err("the host is missing");
    }
    if bare.is_none() && host.contains(':') {
        return Err("an IPv6 address stands in brackets");
    }
    if port.parse::<u16>().is_err() || port.starts_with('+') {
        return Err("the port is no number from 0 to 65535");
    }
    Ok(Address::Tcp(rest.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_are_read() {
        assert_eq!(parse("unix:run/a.sock"), Ok(Address::Unix("run/a.sock".into())));
        assert_eq!(parse("tcp:127.0.0.1:10809"), Ok(Address::Tcp("127.0.0.1:10809".into())));
        assert_eq!(parse("tcp:[::1]:0"), Ok(Address::Tcp("[::1]:0".into())));
    }

    #[test]
    fn every_other_text_is_refused_with_its_reason() {
        let long = format!("unix:{}", "a".repeat(108));
        for (text, why) in [
            ("", "neither"),
            ("http://x", "neither"),
            ("unix:", "path is missing"),
            (long.as_str(), "107 bytes"),
            ("unix:a\0b", "zero byte"),
            ("tcp:host", "port is missing"),
            ("tcp::1", "host is missing"),
            ("tcp:::1:80", "brackets"),
            ("tcp:host:http", "0 to 65535"),
            ("tcp:host:65536", "0 to 65535"),
        ] {
            assert!(parse(text).unwrap_err().contains(why), "{text}");
        }
    }
}
