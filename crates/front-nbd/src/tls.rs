//! TLS for both sides: which certificates a side shows and believes. The protocol inside is rustls's.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};

use crate::proto::TlsMode;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Text without what was looked for.
    #[error("the {what} cannot be read: {why}; give it in PEM form")]
    Pem {
        /// What was looked for.
        what: &'static str,
        /// Why it was not found.
        why: String,
    },
    /// Certificates that do not fit.
    #[error("the {what} cannot be used: {why}")]
    Unfit {
        /// What does not fit.
        what: &'static str,
        /// Why.
        why: String,
    },
}

/// A certificate chain and the key that goes with it, as PEM text.
#[derive(Clone, Copy)]
pub struct Identity<'a> {
    /// Certificates, the side's own first.
    pub chain: &'a [u8],
    /// The private key.
    pub key: &'a [u8],
}

/// TLS of a server. Cheap to clone.
#[derive(Clone)]
pub struct ServerTls {
    mode: TlsMode,
    config: Arc<ServerConfig>,
    /// Subjects of clients that are served; all if there are none.
    subjects: Arc<[String]>,
}

impl ServerTls {
    /// TLS in this mode. With `client_ca` (certificates as PEM text) only clients that show a certificate signed by one
    /// of them are served inside TLS.
    ///
    /// # Errors
    /// [`TlsError`] names what cannot be read or used.
    pub fn new(mode: TlsMode, identity: Identity<'_>, client_ca: Option<&[u8]>) -> Result<ServerTls, TlsError> {
        let (chain, key) = read_identity(identity)?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = builder.map_err(unfit("set of protocol versions"))?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let roots = Arc::new(read_roots(pem)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                builder.with_client_cert_verifier(verifier.map_err(unfit("list of authorities for clients"))?)
            }
        };
        let config = builder.with_single_cert(chain, key).map_err(unfit("certificate with its key"))?;
        Ok(ServerTls { mode, config: Arc::new(config), subjects: Arc::new([]) })
    }

    /// The same; of the clients that an authority vouches for only those with one of these subjects are served, such as
    /// `CN=backup,O=Acme`. Without any, all are.
    pub fn for_subjects(self, subjects: &[String]) -> ServerTls {
        ServerTls { subjects: subjects.into(), ..self }
    }

    pub(crate) fn allows(&self, subject: &str) -> bool {
        self.subjects.is_empty() || self.subjects.iter().any(|allowed| allowed == subject)
    }

    /// The clients that must use it.
    pub fn mode(&self) -> TlsMode {
        self.mode
    }

    pub(crate) fn session(&self) -> Result<Connection, rustls::Error> {
        ServerConnection::new(self.config.clone()).map(Connection::Server)
    }
}

/// TLS of a client. Cheap to clone.
#[derive(Clone)]
pub struct ClientTls {
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
}

impl ClientTls {
    /// TLS with a server whose certificate is for `name` and signed by one of `authorities` (PEM text).
    ///
    /// # Errors
    /// [`TlsError`] names what cannot be read or used.
    pub fn new(name: &str, authorities: &[u8], identity: Option<Identity<'_>>) -> Result<ClientTls, TlsError> {
        let name = ServerName::try_from(name.to_string()).map_err(unfit("server's name"))?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(unfit("set of protocol versions"))?;
        let builder = builder.with_root_certificates(read_roots(authorities)?);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = read_identity(identity)?;
                builder.with_client_auth_cert(chain, key).map_err(unfit("certificate with its key"))?
            }
        };
        Ok(ClientTls { name, config: Arc::new(config) })
    }

    pub(crate) fn session(&self) -> Result<Connection, rustls::Error> {
        ClientConnection::new(self.config.clone(), self.name.clone()).map(Connection::Client)
    }
}

fn unfit<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> TlsError {
    move |why| TlsError::Unfit { what, why: why.to_string() }
}

fn read_identity(identity: Identity<'_>) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let pem = |what| move |why: rustls::pki_types::pem::Error| TlsError::Pem { what, why: why.to_string() };
    let key = PrivateKeyDer::from_pem_slice(identity.key).map_err(pem("private key"))?;
    Ok((read_certificates(identity.chain)?, key))
}

fn read_certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let error = |why: String| TlsError::Pem { what: "certificate", why };
    let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let list = list.map_err(|why| error(why.to_string()))?;
    if list.is_empty() { Err(error("there is none in the text".to_string())) } else { Ok(list) }
}

fn read_roots(text: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(text)? {
        roots.add(certificate).map_err(unfit("authority's certificate"))?;
    }
    Ok(roots)
}
