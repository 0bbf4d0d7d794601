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
