//! Certificates of a server and of its client, made for one run.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use esker_front_nbd::tls::{ClientTls, Identity};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use tempfile::TempDir;

use esker_lab_kit::{LabError, peer};

/// The name in both certificates.
const NAME: &str = "localhost";

/// Papers in a folder, and those of the client.
pub(crate) struct Papers {
    folder: TempDir,
    authority: String,
    client: (String, String),
}

impl Papers {
    /// Makes them.
    ///
    /// # Errors
    /// Files that cannot be written.
    pub(crate) fn new(folder: TempDir) -> Result<Papers, LabError> {
        let (authority, server, client) = made().map_err(|error| peer::fault("rcgen", error))?;
        let write = |name: &str, text: &str| {
            write_private(&folder.path().join(name), text).map_err(LabError::scratch(&folder.path()))
        };
        write("authority.pem", &authority)?;
        write("server.pem", &server.0)?;
        write("server.key", &server.1)?;
        Ok(Papers { folder, authority, client })
    }

    /// Arguments of a server that serves only the client of these papers.
    pub(crate) fn args(&self) -> Vec<String> {
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        let [cert, key, ca] = ["server.pem", "server.key", "authority.pem"].map(file);
        let words = ["--tls", "require", "--tls-cert", &cert, "--tls-key", &key, "--tls-client-ca", &ca];
        words.map(str::to_string).into()
    }

    /// TLS of the client.
    ///
    /// # Errors
    /// Papers that do not fit.
    pub(crate) fn client(&self) -> Result<ClientTls, LabError> {
        let identity = Identity { chain: self.client.0.as_bytes(), key: self.client.1.as_bytes() };
        ClientTls::new(NAME, self.authority.as_bytes(), Some(identity)).map_err(|error| peer::fault("TLS", error))
    }
}

/// A certificate and its key as PEM text.
type Pair = (String, String);

/// The certificate of an authority, and the certificates that it signed for a server and for a client.
fn made() -> Result<(String, Pair, Pair), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = params.self_signed(&key)?;
    let server = signed(ExtendedKeyUsagePurpose::ServerAuth, (&authority, &key))?;
    let client = signed(ExtendedKeyUsagePurpose::ClientAuth, (&authority, &key))?;
    Ok((authority.pem(), server, client))
}

fn signed(usage: ExtendedKeyUsagePurpose, by: (&Certificate, &KeyPair)) -> Result<Pair, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec![NAME.to_string()])?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    Ok((params.signed_by(&key, by.0, by.1)?.pem(), key.serialize_pem()))
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
