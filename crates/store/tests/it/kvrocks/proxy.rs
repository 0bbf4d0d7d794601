//! A proxy in front of a server: it can cut a connection around an EXEC or hold everything back, and it counts
//! the round trips that are made through it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

pub const PASS: u8 = 0;
/// Nothing of the EXEC is forwarded.
pub const CUT_BEFORE_EXEC: u8 = 1;
/// The EXEC was executed; nothing of its reply is forwarded.
pub const CUT_BEFORE_REPLY: u8 = 2;
/// The EXEC was executed; half of what came of its reply is forwarded.
pub const CUT_MID_REPLY: u8 = 3;

const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";
const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
/// What is said when a connection is made or a server is asked how it is, and wake-ups, which no verb waits for.
const ASIDE: [&[u8]; 10] = [
    b"PING",
    b"ROLE",
    b"layout",
    b"SELECT",
    b"AUTH",
    b"CLIENT",
    b"SCRIPT",
    b"INFO",
    b"PUBLISH",
    b"SUBSCRIBE",
];

#[derive(Clone)]
pub struct Proxy {
    pub address: String,
    /// Goes back to pass by itself once it has cut.
    pub mode: Arc<AtomicU8>,
    /// So many EXECs pass before the one that is cut.
    pub spared: Arc<AtomicU64>,
    round_trips: Arc<AtomicU64>,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Proxy {
    pub fn start(server: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy {
            address: listener.local_addr().unwrap().to_string(),
            mode: Arc::default(),
            spared: Arc::default(),
            round_trips: Arc::default(),
            gate: Arc::default(),
        };
        let shared = proxy.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&server) else { continue };
                let line = Arc::new(Line { cut: AtomicU8::new(PASS), is_open: AtomicBool::new(false) });
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (proxy, forth, back) = (shared.clone(), line.clone(), line);
                std::thread::spawn(move || proxy.forward(from, to, &forth));
                std::thread::spawn(move || give_back(server, client, &back));
            }
        });
        proxy
    }

    /// Round trips of callers so far: every EXEC, and every read outside of one.
    pub fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Acquire)
    }

    /// From now on nothing gets to the server, until it is let through.
    pub fn hold(&self, is_held: bool) {
        *self.gate.0.lock().unwrap() = is_held;
        self.gate.1.notify_all();
    }

    fn forward(&self, mut from: TcpStream, mut to: TcpStream, line: &Line) {
        let mut buffer = vec![0; 1 << 20];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let bytes = &buffer[..read];
            drop(self.gate.1.wait_while(self.gate.0.lock().unwrap(), |is_held| *is_held).unwrap());
            self.count(bytes, line);
            let spare = |left: u64| left.checked_sub(1);
            if let Some(at) = find(bytes, EXEC)
                && self.spared.fetch_update(Ordering::AcqRel, Ordering::Acquire, spare).is_err()
            {
                let mode = self.mode.swap(PASS, Ordering::AcqRel);
                if mode == CUT_BEFORE_EXEC {
                    let _ = to.write_all(&bytes[..at]);
                    break;
                }
                line.cut.store(mode, Ordering::Release);
            }
            if to.write_all(bytes).is_err() {
                break;
            }
        }
        let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
    }

    fn count(&self, bytes: &[u8], line: &Line) {
        let execs = bytes.windows(EXEC.len()).filter(|window| *window == EXEC).count() as u64;
        let was_open = line.is_open.load(Ordering::Acquire);
        let has_opened = find(bytes, MULTI).is_some();
        line.is_open.store(execs == 0 && (was_open || has_opened), Ordering::Release);
        let is_aside = ASIDE.iter().any(|word| find(bytes, word).is_some());
        let is_read = execs == 0 && !was_open && !has_opened && !is_aside;
        self.round_trips.fetch_add(execs + u64::from(is_read), Ordering::AcqRel);
    }
}

struct Line {
    cut: AtomicU8,
    /// Within a transaction whose EXEC has not come yet.
    is_open: AtomicBool,
}

fn give_back(mut from: TcpStream, mut to: TcpStream, line: &Line) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let bytes = &buffer[..read];
        let cut = line.cut.load(Ordering::Acquire);
        // MULTI and what is queued are answered with plain words: the first star begins the reply to EXEC.
        let begun = bytes.iter().position(|byte| *byte == b'*').filter(|_| cut != PASS);
        let (passed, is_over) = match begun {
            None => (if cut == CUT_BEFORE_REPLY { 0 } else { read }, false),
            Some(_) if cut == CUT_BEFORE_REPLY => (0, true),
            Some(at) => (at + (read - at) / 2, true),
        };
        if to.write_all(&bytes[..passed]).is_err() || is_over {
            break;
        }
    }
    let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
