//! A real redis-server in a directory of its own, on a loopback port of its own.
//!
//! It ends with whoever holds it, and also when the test process is killed: a shell stands between and waits
//! for the end of a pipe that only the test process holds.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// Ends the server by its process id when it is told to, and also removes its directory when the pipe closes.
/// Its process id is told before it can say anything itself.
const GUARD: &str = "sh -c 'echo pid $$; exec redis-server \"$@\"' server \"$@\" & server=$!; read -r signal; \
    kill -${signal:-KILL} $server; wait $server 2>/dev/null; \
    [ -n \"$signal\" ] || rm -rf -- \"$DIRECTORY\"; echo gone";

pub struct Server {
    pub port: u16,
    directory: PathBuf,
    arguments: Vec<String>,
    running: Option<Running>,
}

struct Running {
    guard: Child,
    pid: u32,
    pipe: ChildStdin,
    lines: Mutex<mpsc::Receiver<String>>,
}

impl Server {
    /// Every acknowledged write is on disk.
    pub fn start(arguments: &[&str]) -> Server {
        let port = free_port();
        let directory = tempfile::tempdir().unwrap().keep();
        let fixed = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"]
            .into_iter()
            .chain(["--appendonly", "yes", "--appendfsync", "always", "--databases", "20000"])
            .chain(["--dir", directory.to_str().unwrap()])
            .chain(arguments.iter().copied())
            .map(str::to_owned)
            .collect();
        let mut server = Server { port, directory, arguments: fixed, running: None };
        server.run();
        server
    }

    /// A Sentinel that watches a master called `codeq`, and decides alone.
    pub fn sentinel(master: u16) -> Server {
        let port = free_port();
        let directory = tempfile::tempdir().unwrap().keep();
        let settings = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor codeq 127.0.0.1 {master} 1\n\
             sentinel down-after-milliseconds codeq 500\nsentinel failover-timeout codeq 5000\n",
            directory.display()
        );
        let file = directory.join("sentinel.conf");
        std::fs::write(&file, settings).unwrap();
        let arguments = vec![file.to_str().unwrap().to_owned(), "--sentinel".into()];
        let mut server = Server { port, directory, arguments, running: None };
        server.launch();
        server.running.as_ref().unwrap().hear("+monitor");
        server
    }

    /// Everything that is answered within a moment.
    pub fn text_of(&self, command: &str) -> String {
        let stream = self.send(command).into_inner();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let (mut stream, mut text, mut part) = (stream, Vec::new(), [0; 4096]);
        while let Ok(read @ 1..) = stream.read(&mut part) {
            text.extend_from_slice(&part[..read]);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Sends the process a signal; it goes on to be watched.
    pub fn signal(&self, signal: &str) {
        let pid = self.running.as_ref().expect("it runs").pid.to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -{signal} {pid}");
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts the process and waits until it serves.
    pub fn run(&mut self) {
        self.launch();
        self.running.as_ref().unwrap().hear("Ready to accept connections");
    }

    /// Starts the process.
    pub fn launch(&mut self) {
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .args(&self.arguments)
            .env("DIRECTORY", &self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell, and redis-server from the package redis-server");
        let (heard, lines) = mpsc::channel();
        let output = BufReader::new(guard.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = heard.send(line);
            }
        });
        let pipe = guard.stdin.take().unwrap();
        let first = lines.recv_timeout(PATIENCE).expect("the guard tells the process id");
        let pid = first.trim_start_matches("pid ").parse().expect("a process id");
        self.running = Some(Running { guard, pid, pipe, lines: Mutex::new(lines) });
    }

    pub fn kill(&mut self) {
        self.end("KILL");
    }

    fn end(&mut self, signal: &str) {
        let Some(mut running) = self.running.take() else { return };
        let _ = writeln!(running.pipe, "{signal}");
        running.hear("gone");
        let _ = running.guard.wait();
    }

    /// Says something to the server the short way, and gives the first line of the answer.
    pub fn say(&self, command: &str) -> String {
        let mut line = String::new();
        self.send(command).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// The same behind a password.
    pub fn say_as(&self, password: &str, command: &str) -> String {
        let mut answer = self.send(&format!("AUTH {password}\r\n{command}"));
        let mut lines = [String::new(), String::new()];
        for line in &mut lines {
            answer.read_line(line).unwrap();
        }
        lines[1].trim().to_owned()
    }

    /// Asks for a text.
    pub fn ask(&self, command: &str) -> String {
        let (mut answer, mut line) = (self.send(command), String::new());
        answer.read_line(&mut line).unwrap();
        let length: usize = line.trim().trim_start_matches('$').parse().expect(command);
        let mut text = vec![0; length];
        answer.read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn send(&self, command: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        BufReader::new(stream)
    }
}

impl Running {
    fn hear(&self, wanted: &str) {
        let mut heard = Vec::new();
        loop {
            match self.lines.lock().unwrap().recv_timeout(PATIENCE) {
                Ok(line) if line.contains(wanted) => return,
                Ok(line) => heard.push(line),
                Err(_) => panic!("never heard {wanted:?} but {heard:#?}"),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end("KILL");
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
