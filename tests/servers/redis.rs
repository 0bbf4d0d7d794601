//! A redis-server that syncs every write, as a process that is killed and started again.

use anyhow::{Context, bail};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

pub struct Redis {
    directory: PathBuf,
    port: u16,
    child: Child,
}

impl Redis {
    pub fn start(directory: &Path) -> anyhow::Result<Redis> {
        std::fs::create_dir_all(directory)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = launch(directory, port)?;
        let redis = Redis { directory: directory.to_owned(), port, child };
        redis.serves()?;
        Ok(redis)
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn kill_and_start(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("redis-server ended by itself: {status}");
        }
        self.child.kill()?;
        self.child.wait()?;
        self.child = launch(&self.directory, self.port)?;
        self.serves()
    }

    /// Waits until it has loaded what it keeps: before that a replica refuses to start.
    fn serves(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.answers().unwrap_or(false) {
            if Instant::now() > deadline {
                bail!("redis-server does not serve");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn answers(&self) -> std::io::Result<bool> {
        let mut line = TcpStream::connect(("127.0.0.1", self.port))?;
        line.set_read_timeout(Some(PATIENCE))?;
        line.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        line.read_exact(&mut answer)?;
        Ok(answer == *b"+PONG")
    }
}

fn launch(directory: &Path, port: u16) -> anyhow::Result<Child> {
    let mut command = Command::new("redis-server");
    command.arg("--port").arg(port.to_string()).arg("--dir").arg(directory);
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().context("redis-server, from the package of that name, cannot be run")
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
