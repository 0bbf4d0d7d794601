//! A proxy that can cut a connection right before an EXEC is forwarded, or right before its reply is.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

pub const PASS: u8 = 0;
pub const CUT_BEFORE_EXEC: u8 = 1;
pub const CUT_BEFORE_REPLY: u8 = 2;

const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

pub struct Proxy {
    pub address: String,
    /// Goes back to pass by itself once it has cut.
    pub mode: Arc<AtomicU8>,
}

impl Proxy {
    pub fn start(server: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mode = Arc::new(AtomicU8::new(PASS));
        let shared = mode.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (server, mode) = (TcpStream::connect(&server).unwrap(), shared.clone());
                let line = Arc::new(AtomicU8::new(PASS));
                let (from, to, cut) =
                    (client.try_clone().unwrap(), server.try_clone().unwrap(), line.clone());
                std::thread::spawn(move || forward(from, to, &mode, &cut));
                std::thread::spawn(move || give_back(server, client, &line));
            }
        });
        Proxy { address, mode }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, mode: &AtomicU8, line: &AtomicU8) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let bytes = &buffer[..read];
        let exec = bytes.windows(EXEC.len()).position(|window| window == EXEC);
        let is_next =
            |wanted| mode.compare_exchange(wanted, PASS, Ordering::AcqRel, Ordering::Acquire).is_ok();
        match exec {
            Some(at) if is_next(CUT_BEFORE_EXEC) => {
                let _ = to.write_all(&bytes[..at]);
                break;
            }
            Some(_) if is_next(CUT_BEFORE_REPLY) => line.store(CUT_BEFORE_REPLY, Ordering::Release),
            _ => {}
        }
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
}

fn give_back(mut from: TcpStream, mut to: TcpStream, line: &AtomicU8) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let is_cut = line.load(Ordering::Acquire) == CUT_BEFORE_REPLY;
        if is_cut || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
}
