//! Redis-servers with a replica each, and who promotes it when its master is gone: a Sentinel, or the cluster itself.
//!
//! A master is killed, or it stops for a while and comes back as one that still believes to be master. Which of a pair
//! is master is asked each time, because a promotion that nobody ordered is as good as any other.

use anyhow::{Context, bail, ensure};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// For everything that must happen in the end, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// For one answer.
const ANSWER: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(10);
/// How long an old master that has come back believes to be master, at least, before it is told otherwise. A Sentinel
/// does that after 8 seconds by itself.
const BELIEVES: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promoter {
    Sentinel,
    Cluster,
}

/// One process.
struct Node {
    directory: PathBuf,
    port: u16,
    arguments: Vec<String>,
    child: Option<Child>,
}

pub struct Replicated {
    promoter: Promoter,
    nodes: Vec<Node>,
    /// Each a master and its replica, in any order.
    pairs: Vec<[usize; 2]>,
    sentinel: Option<Node>,
}

/// What a strike was about.
pub struct Strike {
    master: usize,
    replica: usize,
    is_killed: bool,
}

impl Replicated {
    pub fn start(promoter: Promoter, directory: &Path) -> anyhow::Result<Replicated> {
        match promoter {
            Promoter::Sentinel => Replicated::behind_sentinel(directory),
            Promoter::Cluster => Replicated::cluster(directory),
        }
    }

    fn behind_sentinel(directory: &Path) -> anyhow::Result<Replicated> {
        let master = Node::redis(&directory.join("one"), &[], &[])?;
        let replica = Node::redis(&directory.join("two"), &[], &replica_of(master.port))?;
        let sentinel = Node::sentinel(&directory.join("sentinel"), master.port)?;
        let (nodes, pairs) = (vec![master, replica], vec![[0, 1]]);
        let all = Replicated { promoter: Promoter::Sentinel, nodes, pairs, sentinel: Some(sentinel) };
        all.await_replica(0)?;
        until("the Sentinel does not know the replica", || {
            let known = all.ask_sentinel("SENTINEL REPLICAS codeq");
            known.iter().any(|word| *word == all.nodes[1].port.to_string())
        })?;
        Ok(all)
    }

    /// Three masters, each with a replica.
    fn cluster(directory: &Path) -> anyhow::Result<Replicated> {
        let mut nodes = Vec::new();
        for number in 0..6 {
            let bus = free_port()?.to_string();
            let cluster =
                ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port", &bus];
            let fast = ["--cluster-replica-validity-factor", "0"];
            let directory = directory.join(format!("node-{number}"));
            nodes.push(Node::redis(&directory, &[&cluster[..], &fast[..]].concat(), &[])?);
        }
        let addresses = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port));
        let created = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(addresses)
            .args(["--cluster-replicas", "1", "--cluster-yes"])
            .stdin(Stdio::null())
            .output()
            .context("redis-cli, from the package redis-tools, cannot be run")?;
        ensure!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
        let mut all = Replicated { promoter: Promoter::Cluster, nodes, pairs: Vec::new(), sentinel: None };
        until("the cluster does not come up", || {
            all.nodes.iter().all(|node| node.ask("CLUSTER INFO").concat().contains("cluster_state:ok"))
                && all.nodes.iter().filter(|node| node.is_master()).count() == 3
        })?;
        all.pairs = all.find_pairs()?;
        for pair in 0..all.pairs.len() {
            all.await_replica(all.master_of(pair)?)?;
        }
        Ok(all)
    }

    /// Replicas tell their masters.
    fn find_pairs(&self) -> anyhow::Result<Vec<[usize; 2]>> {
        let mut pairs = Vec::new();
        for (replica, node) in self.nodes.iter().enumerate() {
            let role = node.ask("ROLE");
            if role.first().is_some_and(|word| word == "slave") {
                let master = self.nodes.iter().position(|node| Some(&node.port.to_string()) == role.get(2));
                pairs.push([master.context("a replica of nobody")?, replica]);
            }
        }
        ensure!(pairs.len() == 3, "{} pairs", pairs.len());
        Ok(pairs)
    }

    /// What a server of codeQ is told of the store.
    pub fn config(&self, wait_replicas: u32) -> serde_json::Value {
        let mut config = serde_json::json!({"waitReplicas": wait_replicas, "poolSize": 3});
        match &self.sentinel {
            Some(sentinel) => {
                let addrs = format!("127.0.0.1:{}", sentinel.port);
                config["sentinel"] = serde_json::json!({"addrs": addrs, "master": "codeq"});
            }
            None => {
                let addresses: Vec<String> =
                    self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
                config["addr"] = addresses.join(",").into();
                config["cluster"] = true.into();
            }
        }
        config
    }

    pub fn is_cluster(&self) -> bool {
        self.promoter == Promoter::Cluster
    }

    fn master_of(&self, pair: usize) -> anyhow::Result<usize> {
        let mut found = None;
        until("a pair has no master", || {
            found = self.pairs[pair].into_iter().find(|node| self.nodes[*node].is_master());
            found.is_some()
        })?;
        found.context("a pair has no master")
    }

    fn await_replica(&self, master: usize) -> anyhow::Result<()> {
        // Behind the offset a master tells of each replica that follows it.
        until("a master finds no replica", || self.nodes[master].ask("ROLE").len() > 2)
    }

    /// Takes the master of the next pair away, by a kill or by stopping it, and returns when another one is named.
    pub fn strike(&mut self, round: u32) -> anyhow::Result<Strike> {
        let pair = round as usize % self.pairs.len();
        let master = self.master_of(pair)?;
        self.await_replica(master)?;
        let replica = self.pairs[pair].into_iter().find(|node| *node != master).context("a pair is two")?;
        let is_killed = (round as usize / self.pairs.len()).is_multiple_of(2);
        match is_killed {
            true => self.nodes[master].kill()?,
            false => self.nodes[master].signal("STOP")?,
        }
        let port = self.nodes[replica].port.to_string();
        until("nobody is promoted", || match self.promoter {
            Promoter::Sentinel => {
                self.ask_sentinel("SENTINEL GET-MASTER-ADDR-BY-NAME codeq").get(1) == Some(&port)
            }
            Promoter::Cluster => self.nodes[replica].is_master(),
        })?;
        Ok(Strike { master, replica, is_killed })
    }

    /// Brings back whoever was taken away, and waits until it follows the new master.
    pub fn restore(&mut self, strike: Strike) -> anyhow::Result<()> {
        let Strike { master: old, replica: new, is_killed } = strike;
        let port = self.nodes[new].port;
        match (is_killed, self.promoter) {
            (true, Promoter::Sentinel) => self.nodes[old].launch(&replica_of(port))?,
            (true, Promoter::Cluster) => self.nodes[old].launch(&[])?,
            (false, promoter) => {
                self.nodes[old].signal("CONT")?;
                std::thread::sleep(BELIEVES);
                if promoter == Promoter::Sentinel {
                    self.nodes[old].ask(&format!("REPLICAOF 127.0.0.1 {port}"));
                }
            }
        }
        self.await_replica(new)
    }

    fn ask_sentinel(&self, question: &str) -> Vec<String> {
        self.sentinel.as_ref().map(|sentinel| sentinel.ask(question)).unwrap_or_default()
    }
}

fn replica_of(master: u16) -> Vec<String> {
    vec!["--replicaof".into(), "127.0.0.1".into(), master.to_string()]
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > deadline {
            bail!("{what}");
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

impl Node {
    /// `first` is what it is told besides at its first start.
    fn redis(directory: &Path, arguments: &[&str], first: &[String]) -> anyhow::Result<Node> {
        std::fs::create_dir_all(directory)?;
        let port = free_port()?;
        let own = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]
            .into_iter()
            .map(str::to_owned)
            .chain([directory.to_string_lossy().into_owned()])
            .chain(["--appendonly", "yes", "--appendfsync", "always"].map(str::to_owned))
            .chain(["--repl-diskless-sync-delay", "0"].map(str::to_owned))
            .chain(arguments.iter().map(|&argument| argument.to_owned()))
            .collect();
        let mut node = Node { directory: directory.to_owned(), port, arguments: own, child: None };
        node.launch(first)?;
        Ok(node)
    }

    fn sentinel(directory: &Path, master: u16) -> anyhow::Result<Node> {
        std::fs::create_dir_all(directory)?;
        let (port, file) = (free_port()?, directory.join("sentinel.conf"));
        let settings = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor codeq 127.0.0.1 {master} 1\n\
             sentinel down-after-milliseconds codeq 1000\nsentinel failover-timeout codeq 5000\n",
            directory.display()
        );
        std::fs::write(&file, settings)?;
        let arguments = vec![file.to_string_lossy().into_owned(), "--sentinel".into()];
        let mut node = Node { directory: directory.to_owned(), port, arguments, child: None };
        node.launch(&[])?;
        Ok(node)
    }

    /// Starts the process and waits until it serves.
    fn launch(&mut self, more: &[String]) -> anyhow::Result<()> {
        let mut command = Command::new("redis-server");
        command.args(&self.arguments).args(more).current_dir(&self.directory);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        self.child =
            Some(command.spawn().context("redis-server, from the package of that name, cannot be run")?);
        until("redis-server does not serve", || self.ask("PING").first().is_some_and(|word| word == "PONG"))
    }

    fn kill(&mut self) -> anyhow::Result<()> {
        let mut child = self.child.take().context("the server does not run")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let pid = self.child.as_ref().context("the server does not run")?.id().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status()?;
        ensure!(sent.success(), "kill -{signal} {pid}");
        Ok(())
    }

    fn is_master(&self) -> bool {
        self.ask("ROLE").first().is_some_and(|word| word == "master")
    }

    /// All words of the answer, one after the other; none if there is no answer.
    fn ask(&self, question: &str) -> Vec<String> {
        let mut words = Vec::new();
        match self.try_ask(question, &mut words) {
            Ok(()) => words,
            Err(_) => Vec::new(),
        }
    }

    fn try_ask(&self, question: &str, words: &mut Vec<String>) -> std::io::Result<()> {
        let mut line = TcpStream::connect_timeout(&([127, 0, 0, 1], self.port).into(), ANSWER)?;
        line.set_read_timeout(Some(ANSWER))?;
        line.write_all(format!("{question}\r\n").as_bytes())?;
        read(&mut BufReader::new(line), words)
    }
}

fn read(from: &mut impl BufRead, words: &mut Vec<String>) -> std::io::Result<()> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let rest = line.get(1..).unwrap_or_default().trim_end();
    match line.as_bytes().first() {
        Some(b'$') => {
            let mut text = vec![0; rest.parse::<usize>().unwrap_or(0) + 2];
            from.read_exact(&mut text)?;
            words.push(String::from_utf8_lossy(&text[..text.len() - 2]).into_owned());
        }
        Some(b'*') => {
            for _ in 0..rest.parse().unwrap_or(0) {
                read(from, words)?;
            }
        }
        Some(_) => words.push(rest.to_owned()),
        None => return Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
    Ok(())
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
