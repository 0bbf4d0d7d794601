//! The files of a certificate: reading them, and noticing that they have changed.

use super::validity::Validity;
use super::{Current, Inside};
use crate::config;
use std::fmt::Display;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Bytes of a file; chains and bundles are far smaller.
const FILE_BYTES: u64 = 4 * 1024 * 1024;

pub struct Files {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// What a file looked like; another one when it was written or replaced.
pub type FileStamp = [Option<(u64, u64, i64, i64)>; 3];

impl Files {
    pub fn new(config: &config::TlsFiles) -> Files {
        let config::TlsFiles { cert_file, key_file, client_ca_file } = config.clone();
        Files { certificate: cert_file, key: key_file, client_ca: client_ca_file }
    }

    pub fn stamp(&self) -> FileStamp {
        let files = [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()];
        files.map(|file| {
            let found = std::fs::metadata(file?).ok()?;
            Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
        })
    }

    /// Everything that connections need; the error names the file.
    pub fn read(&self) -> Result<Current, String> {
        let chain = certificates(&self.certificate)?;
        let validity = chain.first().and_then(|own| Validity::of(own));
        let validity = validity.ok_or_else(|| fault(&self.certificate, "is not an X.509 certificate"))?;
        Ok(Current {
            http1: Arc::new(self.config(chain.clone(), Inside::Http1)?),
            http2: Arc::new(self.config(chain, Inside::Http2)?),
            validity,
        })
    }

    fn config(&self, chain: Vec<CertificateDer<'static>>, inside: Inside) -> Result<ServerConfig, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(authorities(file)?), provider);
                builder.with_client_cert_verifier(verifier.build().map_err(|error| fault(file, error))?)
            }
        };
        let key = private_key(&self.key)?;
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(|error| fault(&self.key, format!("does not fit: {error}")))?;
        config.alpn_protocols = match inside {
            Inside::Http1 => vec![b"http/1.1".to_vec()],
            Inside::Http2 => vec![b"h2".to_vec()],
        };
        Ok(config)
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text(file)?).collect();
    match found {
        Ok(found) if found.is_empty() => Err(fault(file, "holds no certificate in PEM form")),
        Ok(found) => Ok(found),
        Err(error) => Err(fault(file, error)),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let found = PrivateKeyDer::from_pem_slice(&text(file)?);
    found.map_err(|_| fault(file, "holds no private key in PEM form that can be read without a password"))
}

fn authorities(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| fault(file, error))?;
    }
    Ok(roots)
}

fn text(file: &Path) -> Result<Vec<u8>, String> {
    let size = std::fs::metadata(file).map_err(|error| fault(file, error))?.len();
    if size > FILE_BYTES {
        return Err(fault(file, "is too large"));
    }
    std::fs::read(file).map_err(|error| fault(file, error))
}

fn fault(file: &Path, error: impl Display) -> String {
    format!("tls: {}: {error}", file.display())
}
