//! Arguments of how clients reach exports: TLS, access to sockets, and disks of virtual machines.

use std::path::{Path, PathBuf};

use esker_front_nbd::listen::Access;
use esker_front_nbd::proto::TlsMode;
use esker_front_nbd::tls::{Identity, ServerTls};
use esker_serve::VhostDoor;
use esker_sys::key_memory::KeyBytes;

use crate::failure::Failure;
use crate::secrets;

/// More than any private key has.
const KEY_BYTES_MAX: u64 = 64 << 10;
/// Each connection takes a descriptor, and up to 64 MiB while it is busy.
const CONNECTIONS_MAX: u64 = 4096;

/// How clients reach exports.
#[derive(clap::Args)]
pub struct Listeners {
    /// TLS for NBD clients: not at all, for clients that ask, or for all
    #[arg(long, value_enum, default_value = "off")]
    tls: Tls,
    /// Certificate chain of the server, in PEM form
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM form
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Inside TLS serve only clients with a certificate signed by one of these, in PEM form
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Of those clients serve only the ones whose certificate has this subject, such as CN=backup,O=Acme; may be given
    /// several times
    #[arg(long, value_name = "NAME", requires = "tls_client_ca", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    tls_subject: Vec<String>,
    /// Connections of NBD clients at one address; beyond it the longest idle one ends
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=CONNECTIONS_MAX))]
    connections: u64,
    /// Connections of NBD clients of one export; beyond it the longest idle one ends
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=CONNECTIONS_MAX))]
    export_connections: u64,
    /// Permission bits of the control socket, in octal; a program that may connect may do everything
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = parse_mode)]
    control_mode: u32,
    /// Permission bits of Unix sockets of exports, in octal, such as 660
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    socket_mode: Option<u32>,
    /// Owner of Unix sockets of exports, by number: UID or UID:GID
    #[arg(long, value_name = "UID[:GID]", value_parser = parse_owner)]
    socket_owner: Option<Owner>,
    /// NBD clients may change the size of exports that can be resized
    #[arg(long)]
    nbd_resize: bool,
    /// An export as a disk of a virtual machine, through a vhost-user-blk socket; may be given several times
    #[arg(long, value_name = "EXPORT=SOCKET", value_parser = parse_vhost)]
    vhost_user: Vec<VhostDoor>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Tls {
    /// Not spoken
    Off,
    /// Spoken with clients that ask
    On,
    /// Nothing is told or served without it
    Require,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    user: u32,
    group: Option<u32>,
}

/// A file that was named for TLS.
#[derive(Debug, thiserror::Error)]
enum TlsFileError {
    #[error("{0}: cannot be read: {1}")]
    Unread(String, std::io::Error),
    #[error("{0}: {1}")]
    Key(String, String),
}

impl Listeners {
    /// Bounds and permissions of NBD clients.
    pub fn nbd(&self) -> esker_front_nbd::server::Config {
        esker_front_nbd::server::Config {
            resize: self.nbd_resize,
            connections_max: self.connections,
            export_connections_max: self.export_connections,
            ..esker_front_nbd::server::Config::production()
        }
    }

    /// TLS of the server.
    ///
    /// # Errors
    /// Arguments that do not go together, and files that cannot be read or used.
    pub fn tls(&self) -> Result<Option<ServerTls>, Failure> {
        let mode = match self.tls {
            Tls::Off => TlsMode::Off,
            Tls::On => TlsMode::On,
            Tls::Require => TlsMode::Require,
        };
        let (Some(chain), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            let none = self.tls_cert.is_none() && self.tls_key.is_none() && self.tls_client_ca.is_none();
            return match (mode, none) {
                (TlsMode::Off, true) => Ok(None),
                _ => Err(Failure::Usage("TLS needs --tls-cert and --tls-key together".to_string())),
            };
        };
        if mode == TlsMode::Off {
            return Err(Failure::Usage("--tls-cert is of no use without --tls on or --tls require".to_string()));
        }
        if self.tls_client_ca.is_some() && mode != TlsMode::Require {
            let why = "--tls-client-ca needs --tls require: with --tls on a client without TLS shows no certificate and is served";
            return Err(Failure::Usage(why.to_string()));
        }
        let (chain, key) = (read(chain)?, read_private(key)?);
        let client_ca = self.tls_client_ca.as_deref().map(read).transpose()?;
        let identity = Identity { chain: &chain, key: &key };
        Ok(Some(ServerTls::new(mode, identity, client_ca.as_deref())?.for_subjects(&self.tls_subject)))
    }

    /// Access to the sockets.
    pub fn access(&self) -> Access {
        Access { mode: self.socket_mode, owner: self.socket_owner.map(|owner| (owner.user, owner.group)) }
    }

    /// Permission bits of the control socket.
    pub fn control_mode(&self) -> u32 {
        self.control_mode
    }

    /// Disks of virtual machines.
    pub fn vhost(&self) -> &[VhostDoor] {
        &self.vhost_user
    }
}

fn parse_vhost(text: &str) -> Result<VhostDoor, String> {
    match text.split_once('=') {
        Some((export, socket)) if !export.is_empty() && !socket.is_empty() => {
            Ok(VhostDoor { export: export.to_string(), socket: socket.into() })
        }
        _ => Err("write the export's name and the path of the socket, such as vol=vm.sock".to_string()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsFileError> {
    std::fs::read(path).map_err(|source| TlsFileError::Unread(path.display().to_string(), source))
}

/// A private key, which only its owner may use: the rule for the keys of layers.
fn read_private(path: &Path) -> Result<KeyBytes, TlsFileError> {
    let read = secrets::read_private(path, KEY_BYTES_MAX).map(KeyBytes::new);
    read.map_err(|why| TlsFileError::Key(path.display().to_string(), why))
}

fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "write up to three octal digits, such as 660".to_string())
}

fn parse_owner(text: &str) -> Result<Owner, String> {
    let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
    let number = |text: &str| text.parse().map_err(|_| "write numbers, such as 1000 or 1000:100".to_string());
    Ok(Owner { user: number(user)?, group: group.map(number).transpose()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_of_virtual_machines_name_export_and_socket() {
        let door = VhostDoor { export: "vol".to_string(), socket: "run/a=b.sock".into() };
        assert_eq!(parse_vhost("vol=run/a=b.sock"), Ok(door));
        assert!(["vol", "=x", "vol="].iter().all(|text| parse_vhost(text).is_err()));
    }

    #[test]
    fn modes_are_octal_and_owners_are_numbers() {
        assert_eq!(parse_mode("660"), Ok(0o660));
        assert!(["888", "1777", "rw"].iter().all(|text| parse_mode(text).is_err()));
        assert_eq!(parse_owner("1000"), Ok(Owner { user: 1000, group: None }));
        assert_eq!(parse_owner("0:100"), Ok(Owner { user: 0, group: Some(100) }));
        assert!(["", "root", "1:", "1:2:3"].iter().all(|text| parse_owner(text).is_err()));
    }
}
