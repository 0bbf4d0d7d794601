//! A server that confirms writes as Kvrocks does: a replica acknowledges the first record of a write batch, so
//! that WAIT after an EXEC of many is not answered before the next single write, and not always at once then.
//! Everything else is done by the Redis behind it.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Clone)]
pub struct LateReplica {
    pub address: String,
    /// Single writes after an EXEC until the replica is seen to have it.
    nudges: u64,
    pub waits: Arc<AtomicU64>,
}

impl LateReplica {
    pub fn start(server: String, nudges: u64) -> LateReplica {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let double = LateReplica { address, nudges, waits: Arc::default() };
        let shared = double.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (double, server) = (shared.clone(), TcpStream::connect(&server).unwrap());
                std::thread::spawn(move || double.serve(client, server));
            }
        });
        double
    }

    /// One command at a time.
    fn serve(&self, client: TcpStream, server: TcpStream) -> Option<()> {
        let (mut to_client, mut to_server) = (client.try_clone().ok()?, server.try_clone().ok()?);
        let (mut commands, mut answers) = (BufReader::new(client), BufReader::new(server));
        let mut nudges = self.nudges;
        loop {
            let command = element(&mut commands)?;
            if find(&command, b"\r\nWAIT\r\n") {
                self.waits.fetch_add(1, Ordering::AcqRel);
                let is_confirmed = nudges >= self.nudges;
                if !is_confirmed {
                    std::thread::sleep(Duration::from_millis(milliseconds(&command)));
                }
                to_client.write_all(if is_confirmed { b":1\r\n" } else { b":0\r\n" }).ok()?;
                continue;
            }
            match () {
                () if find(&command, b"\r\nEXEC\r\n") => nudges = 0,
                () if find(&command, b"\r\nPUBLISH\r\n") => nudges += 1,
                () => {}
            }
            to_server.write_all(&command).ok()?;
            to_client.write_all(&element(&mut answers)?).ok()?;
        }
    }
}

fn milliseconds(wait: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(wait);
    text.trim_end().rsplit("\r\n").next().and_then(|last| last.parse().ok()).unwrap_or(0)
}

/// What is done with a command instead of passing it on.
#[derive(Default)]
pub struct Instead {
    /// What the server is told.
    pub command: Option<Vec<u8>>,
    /// What the client is told, whatever the server says.
    pub answer: Option<Vec<u8>>,
}

/// A server in front of a Redis that does some things as others do. Gives its address.
pub fn pretend(server: String, how: impl Fn(&[u8]) -> Instead + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let how = Arc::new(how);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(&server) else { continue };
            let how = how.clone();
            std::thread::spawn(move || pass_on(client, server, &*how));
        }
    });
    address
}

fn pass_on(client: TcpStream, server: TcpStream, how: &dyn Fn(&[u8]) -> Instead) -> Option<()> {
    let (mut to_client, mut to_server) = (client.try_clone().ok()?, server.try_clone().ok()?);
    let (mut commands, mut answers) = (BufReader::new(client), BufReader::new(server));
    loop {
        let command = element(&mut commands)?;
        let Instead { command: other, answer } = how(&command);
        to_server.write_all(other.as_deref().unwrap_or(&command)).ok()?;
        let answered = element(&mut answers)?;
        to_client.write_all(answer.as_deref().unwrap_or(&answered)).ok()?;
        // From here on the server speaks without being asked.
        if find(&command, b"SUBSCRIBE") {
            let _ = std::io::copy(&mut answers, &mut to_client);
            return None;
        }
    }
}

/// One command or one answer, as it came.
fn element(from: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    from.read_until(b'\n', &mut bytes).ok().filter(|read| *read > 0)?;
    let length = String::from_utf8_lossy(&bytes[1..]).trim().parse::<i64>();
    match (bytes[0], length) {
        (b'$', Ok(length @ 0..)) => {
            let mut text = vec![0; usize::try_from(length).ok()? + 2];
            from.read_exact(&mut text).ok()?;
            bytes.extend(text);
        }
        (b'*', Ok(count @ 1..)) => {
            for _ in 0..count {
                bytes.extend(element(from)?);
            }
        }
        _ => {}
    }
    Some(bytes)
}

pub fn find(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}
