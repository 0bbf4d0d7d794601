//! The bytes of a connection, with TLS around them or without.

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Pieces that are taken to find out whether the peer has closed.
const PIECES: usize = 8;

pub enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    pub fn set_nodelay(&self, is_on: bool) -> io::Result<()> {
        match self {
            Transport::Plain(stream) => stream.set_nodelay(is_on),
            Transport::Tls(stream) => stream.get_ref().0.set_nodelay(is_on),
        }
    }

    /// Whether the peer has closed its side. Asks the system itself: the runtime may not have been told yet.
    pub fn is_closed_there(&mut self) -> bool {
        match self {
            Transport::Plain(stream) => {
                match recv(&*stream, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
                    Ok((_, received)) => received == 0,
                    Err(error) => !matches!(error, Errno::AGAIN | Errno::INTR),
                }
            }
            Transport::Tls(stream) => has_said_goodbye(stream),
        }
    }
}

/// Under TLS the end is a message: what has arrived must be opened to see it. What else it holds stays in the
/// session, where the next read finds it.
fn has_said_goodbye(stream: &mut TlsStream<TcpStream>) -> bool {
    let (stream, session) = stream.get_mut();
    let mut arrived = Arrived(stream);
    for _ in 0..PIECES {
        match session.read_tls(&mut arrived) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
        match session.process_new_packets() {
            Err(_) => return true,
            Ok(state) if state.peer_has_closed() => return true,
            // Who sends another request is there.
            Ok(state) if state.plaintext_bytes_to_read() > 0 => return false,
            Ok(_) => {}
        }
    }
    false
}

struct Arrived<'a>(&'a TcpStream);

impl Read for Arrived<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match recv(self.0, buffer, RecvFlags::DONTWAIT) {
            Ok((_, received)) => Ok(received),
            Err(Errno::INTR) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(context),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Inside, Tls};
    use super::*;
    use crate::config::TlsFiles;
    use std::process::Command;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

    const CERTIFY: &str = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj /CN=codeq -addext subjectAltName=DNS:codeq -addext basicConstraints=critical,CA:FALSE \
        -keyout key.pem -out cert.pem";

    /// The two ends of a connection.
    async fn pair() -> (client::TlsStream<TcpStream>, Transport) {
        let files = tempfile::tempdir().expect("a temporary directory");
        let mut shell = Command::new("sh");
        let made = shell.args(["-ec", CERTIFY]).current_dir(files.path()).output().expect("a shell");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let [cert_file, key_file] = ["cert.pem", "key.pem"].map(|name| files.path().join(name));
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&cert_file).expect("a certificate")).expect("a root");
        let config = TlsFiles { cert_file, key_file, client_ca_file: None };
        let tls = Tls::open(&config).expect("sound files");

        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = config.expect("versions").with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("a way");
        let (accepted, _) = listener.accept().await.expect("a caller");
        let connector = TlsConnector::from(Arc::new(config));
        let connecting = connector.connect(ServerName::try_from("codeq").expect("a name"), stream);
        let (caller, served) = tokio::join!(connecting, tls.greet(accepted, Inside::Http1));
        (caller.expect("a handshake"), served.expect("a handshake"))
    }

    /// Waits until something has arrived, or the connection is torn, without taking it.
    async fn arrival(served: &Transport) {
        let Transport::Tls(stream) = served else { panic!("it is TLS") };
        let _ = stream.get_ref().0.peek(&mut [0; 1]).await;
    }

    /// A worker that had hung up got its task: the end of a connection is a message under TLS, and peeking at the
    /// socket shows bytes, not an end.
    #[tokio::test]
    async fn a_farewell_is_seen_among_what_has_arrived() {
        let (mut caller, mut served) = pair().await;
        assert!(!served.is_closed_there());
        caller.shutdown().await.expect("the server is there");
        arrival(&served).await;
        assert!(served.is_closed_there());
        assert!(served.is_closed_there(), "and stays seen");
        assert_eq!(served.read(&mut [0; 8]).await.expect("an orderly end"), 0);
    }

    #[tokio::test]
    async fn what_was_looked_at_is_still_there_to_be_read() {
        let (mut caller, mut served) = pair().await;
        caller.write_all(b"GET / HTTP/1.1").await.expect("the server is there");
        caller.flush().await.expect("the server is there");
        arrival(&served).await;
        assert!(!served.is_closed_there() && !served.is_closed_there());
        let mut read = [0; 14];
        served.read_exact(&mut read).await.expect("all of it");
        assert_eq!(&read, b"GET / HTTP/1.1");
    }

    #[tokio::test]
    async fn a_connection_that_is_torn_is_closed() {
        let (caller, mut served) = pair().await;
        drop(caller);
        arrival(&served).await;
        assert!(served.is_closed_there());
    }
}
