//! The door against real sockets: hosts that lead inside, and receivers that behave badly.

use super::door::{Attempt, DoorOptions, Message, OutboundClient};
use super::resolver::{self, Lookup};
use codeq_store::SystemClock;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{self, ServerConfig};

/// A receiver that keeps what it got and answers as told.
struct Receiver {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Receiver {
    fn start(answer: impl Fn(&mut TcpStream) + Send + 'static) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut bytes = [0; 8192];
                let count = stream.read(&mut bytes).unwrap_or(0);
                kept.lock().unwrap().push(String::from_utf8_lossy(&bytes[..count]).into_owned());
                answer(&mut stream);
            }
        });
        Receiver { port, requests }
    }

    fn answering(text: &'static str) -> Receiver {
        Receiver::start(move |stream| stream.write_all(text.as_bytes()).unwrap())
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook", self.port)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

fn door(allows_private: bool, lookup: Lookup, secret: &str) -> OutboundClient {
    let options = DoorOptions {
        secret: secret.to_owned(),
        timeout: Duration::from_millis(1500),
        allows_private,
        lookup,
        clock: Arc::new(SystemClock),
    };
    OutboundClient::new(options).unwrap()
}

fn open() -> OutboundClient {
    door(true, resolver::system(), "")
}

async fn send(door: &OutboundClient, url: &str) -> Attempt {
    door.send(Message { url: url.into(), id: "msg_1".into(), body: "{}".into(), trace: None }).await
}

fn error(attempt: Attempt) -> String {
    attempt.error.expect("the attempt failed")
}

/// Gives one answer after the other, and the last for ever.
fn scripted(answers: Vec<Vec<&'static str>>, asked: Arc<AtomicUsize>) -> Lookup {
    Arc::new(move |_| {
        let turn = asked.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1);
        let found: Vec<SocketAddr> =
            answers[turn].iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect();
        Box::pin(async move { Ok(found) })
    })
}

#[tokio::test]
async fn hosts_that_are_inner_addresses_in_any_spelling_are_refused() {
    let receiver = Receiver::answering(OK);
    let door = door(false, resolver::system(), "");
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0x7f.0.0.0x1",
        "127.0.0.1.",
        "0.0.0.0",
        "0",
        "localhost",
        "10.1.2.3",
        "169.254.169.254",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[fd00::1]",
        "[fe80::1]",
        "１２７.0.0.1",
    ] {
        let attempt = send(&door, &format!("http://{host}:{}/", receiver.port)).await;
        assert_eq!(attempt.error.as_deref(), Some("refused address"), "{host}");
        assert!(!attempt.is_prompt);
    }
    assert!(receiver.requests().is_empty());
}

#[tokio::test]
async fn names_that_stand_for_inner_addresses_are_refused() {
    for inside in
        ["127.0.0.1", "10.0.0.1", "100.64.0.1", "169.254.1.1", "::1", "::ffff:10.0.0.1", "64:ff9b::a00:1"]
    {
        let door = door(false, scripted(vec![vec![inside]], Arc::default()), "");
        assert_eq!(error(send(&door, "http://inner.example/").await), "refused address", "{inside}");
        let secure = send(&door, "https://inner.example/").await;
        assert_eq!(error(secure), "refused address", "{inside}");
    }
}

#[tokio::test]
async fn an_answer_that_changes_between_check_and_dial_gains_nothing() {
    let receiver = Receiver::answering(OK);
    let asked = Arc::new(AtomicUsize::new(0));
    // The first answer is mixed: only its public address may be dialled, and nobody is there.
    let lookup = scripted(vec![vec!["203.0.113.1", "127.0.0.1"], vec!["127.0.0.1"]], asked.clone());
    let door = door(false, lookup, "");
    let url = format!("http://rebind.example:{}/", receiver.port);
    let first = error(send(&door, &url).await);
    assert_ne!(first, "refused address");
    assert_eq!(asked.load(Ordering::Relaxed), 1, "a name is asked for once per dial");
    assert_eq!(error(send(&door, &url).await), "refused address");
    assert!(receiver.requests().is_empty());
}

#[tokio::test]
async fn private_addresses_may_be_allowed() {
    let receiver = Receiver::answering(OK);
    let attempt = send(&open(), &receiver.url()).await;
    assert_eq!((attempt.error, attempt.is_prompt), (None, true));
    let name = format!("http://localhost:{}/", receiver.port);
    assert_eq!(send(&open(), &name).await.error, None);
}

#[tokio::test]
async fn redirects_are_failures_and_not_followed() {
    let target = Receiver::answering(OK);
    let location = target.url();
    let receiver = Receiver::start(move |stream| {
        let head = format!(
            "HTTP/1.1 307 Go\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
    });
    let attempt = send(&open(), &receiver.url()).await;
    assert_eq!((attempt.error.as_deref(), attempt.is_prompt), (Some("status 307"), true));
    assert_eq!(attempt.answer.map(|answer| answer.status), Some(307));
    assert!(target.requests().is_empty());
}

#[tokio::test]
async fn an_endless_answer_is_cut_and_counts_by_its_status() {
    let receiver = Receiver::start(|stream| {
        let chunk = [b"1000\r\n".as_slice(), &[b'x'; 0x1000], b"\r\n"].concat();
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let _ = stream.write_all(head);
        while stream.write_all(&chunk).is_ok() {}
    });
    let started = Instant::now();
    assert_eq!(send(&open(), &receiver.url()).await.error, None);
    let dripping = Receiver::start(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n");
        while stream.write_all(b"1\r\nx\r\n").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(error(send(&open(), &dripping.url()).await), "status 500");
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn no_answer_no_tls_and_no_receiver_are_failures() {
    let silent = Receiver::start(|stream| {
        let _ = stream.read(&mut [0; 1]);
    });
    assert_eq!(
        send(&open(), &silent.url()).await,
        Attempt { error: Some("timeout".into()), is_prompt: false, answer: None }
    );
    let plain = Receiver::answering(OK);
    let tls = error(send(&open(), &plain.url().replace("http:", "https:")).await);
    assert!(["tls failed", "connection failed"].contains(&&*tls), "{tls}");
    assert!(!plain.requests()[0].contains("POST"), "nothing is sent in the clear");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_eq!(error(send(&open(), &format!("http://127.0.0.1:{port}/")).await), "connection refused");
    assert_eq!(error(send(&open(), "http://").await), "invalid url");
}

#[tokio::test]
async fn a_message_says_who_sends_what_and_is_signed_if_there_is_a_secret() {
    let receiver = Receiver::answering(OK);
    assert_eq!(send(&open(), &receiver.url()).await.error, None);
    let signing = door(true, resolver::system(), "s3cr3t");
    assert_eq!(send(&signing, &receiver.url()).await.error, None);
    let requests: Vec<String> = receiver.requests().iter().map(|text| text.to_lowercase()).collect();
    for request in &requests {
        let agent = format!("user-agent: codeq/{}", env!("CARGO_PKG_VERSION"));
        for part in [
            "post /hook http/1.1",
            "content-type: application/json",
            &agent,
            "webhook-id: msg_1",
            "webhook-timestamp: ",
        ] {
            assert!(request.contains(part), "{part} is not in\n{request}");
        }
        assert!(request.ends_with("\r\n\r\n{}") || !request.contains("{}"), "{request}");
    }
    for header in ["x-codeq-timestamp: ", "x-codeq-signature: ", "webhook-signature: v1,"] {
        assert_eq!([0, 1].map(|n: usize| requests[n].contains(header)), [false, true], "{header}");
    }
}

/// Speaks TLS with a certificate that nobody vouches for; what became of each handshake.
async fn self_signed() -> (u16, tokio::sync::mpsc::Receiver<std::io::Result<()>>) {
    let certificate = include_bytes!("fixtures/self-signed.der").as_slice().into();
    let key = PrivateKeyDer::Pkcs8(include_bytes!("fixtures/self-signed.key.der").as_slice().into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, handshakes) = tokio::sync::mpsc::channel(8);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = tell.send(acceptor.accept(stream).await.map(drop)).await;
        }
    });
    (port, handshakes)
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_told_nothing() {
    let (port, mut handshakes) = self_signed().await;
    for host in ["127.0.0.1", "localhost"] {
        let attempt = send(&open(), &format!("https://{host}:{port}/hook")).await;
        assert_eq!(attempt.error.as_deref(), Some("tls failed"), "{host}");
        let handshake = handshakes.recv().await.expect("it was dialled");
        assert!(handshake.is_err(), "{host}: the handshake must not end well");
    }
}

#[tokio::test]
async fn a_receiver_without_tls_gets_no_message_over_https() {
    let receiver = Receiver::answering(OK);
    let attempt = send(&open(), &receiver.url().replace("http:", "https:")).await;
    assert_eq!(error(attempt), "tls failed");
    assert!(!receiver.requests().iter().any(|request| request.contains("POST")));
}
