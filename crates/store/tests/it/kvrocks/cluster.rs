//! A cluster of three servers. Every candidate is a shard of its own, so its keys share a slot of their own.

use super::ground::{self, candidate, next, options};
use super::server::Server;
use codeq_store::kvrocks::{Backend, KvrocksOptions, Sharding, Timing};
use codeq_store::testing::exam::Open;
use codeq_store::testing::exam::bench::PATIENCE;
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

static CLUSTER: LazyLock<[Server; 3]> = LazyLock::new(cluster);

/// Three servers that serve all slots together. None takes the place of another.
pub fn cluster() -> [Server; 3] {
    let servers = [(); 3].map(|()| {
        let bus = super::server::free_port().to_string();
        let timeout = ["--cluster-node-timeout", "60000"];
        let cluster = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--databases", "1"];
        Server::start(&[&cluster[..], &timeout[..]].concat())
    });
    let created = Command::new("redis-cli")
        .args(["--cluster", "create"])
        .args(servers.iter().map(Server::address))
        .arg("--cluster-yes")
        .stdin(Stdio::null())
        .output()
        .expect("redis-cli from the package redis-tools");
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
    // They agree about the slots by now; that the cluster serves, each finds out by itself.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !servers.iter().all(|server| server.ask("CLUSTER INFO").contains("cluster_state:ok")) {
        assert!(Instant::now() < deadline, "the cluster does not come up");
        std::thread::sleep(Duration::from_millis(20));
    }
    servers
}

pub fn candidates() -> Open {
    candidate(|| {
        let shard = format!("shard-{}", next());
        let addresses: Vec<String> = CLUSTER.iter().map(Server::address).collect();
        Arc::new(move |rules, clock| KvrocksOptions {
            rules,
            clock,
            cluster: true,
            timing: Timing::Stepped,
            silence: PATIENCE,
            sharding: Sharding { default_shard: shard.clone(), ..Sharding::default() },
            ..options(Backend { address: addresses.join(","), ..Backend::default() })
        })
    })
}

/// Six shards of the cluster, with commands mapped to all of them.
pub fn over_six() -> impl Fn() -> KvrocksOptions {
    let number = next();
    let shard = move |at: usize| format!("across-{number}-{}", at % 6);
    let names = ["first", "second", "after", "top", "left", "right", "bottom", "then", "anyway", "late"];
    let parts = (0..6).map(|at| format!("part{at}"));
    let links = (0..7).map(|at| format!("link{at}"));
    let many = (0..5).map(|at| format!("many{at}"));
    let commands = names.map(str::to_owned).into_iter().chain(parts).chain(links).chain(many);
    let mappings = commands.enumerate().map(|(at, command)| (command, shard(at))).collect();
    let sharding = Sharding { default_shard: shard(0), command_mappings: mappings, ..Sharding::default() };
    let addresses: Vec<String> = CLUSTER.iter().map(Server::address).collect();
    move || KvrocksOptions {
        cluster: true,
        sharding: sharding.clone(),
        ..options(Backend { address: addresses.join(","), ..Backend::default() })
    }
}

pub fn across() -> Open {
    candidate(|| {
        let place = over_six();
        Arc::new(move |rules, clock| KvrocksOptions {
            rules,
            clock,
            timing: Timing::Stepped,
            silence: PATIENCE,
            ..place()
        })
    })
}

#[tokio::test]
async fn shards_of_a_cluster_live_on_different_servers() {
    let addresses: Vec<String> = CLUSTER.iter().map(Server::address).collect();
    let names = ["one", "two", "three", "four", "five", "six"].map(|name| format!("{name}-{}", next()));
    let mappings = names.iter().map(|name| (name.clone(), name.clone())).collect();
    let store = ground::open(KvrocksOptions {
        cluster: true,
        sharding: Sharding {
            default_shard: names[0].clone(),
            command_mappings: mappings,
            ..Sharding::default()
        },
        ..options(Backend { address: addresses.join(","), ..Backend::default() })
    });
    for name in &names {
        let made = super::verbs::create(&*store, name).await.unwrap().task;
        let lent = super::verbs::claim(&*store, name, 1).await;
        assert_eq!(lent[0].id, made.id);
    }
    let holding = CLUSTER.iter().filter(|server| server.say("DBSIZE") != ":0").count();
    assert!(holding > 1, "six shards on {holding} of three servers");
}

#[tokio::test]
async fn buckets_live_all_over_the_cluster() {
    let addresses: Vec<String> = CLUSTER.iter().map(Server::address).collect();
    let shard = format!("shard-{}", next());
    let store = ground::open(KvrocksOptions {
        cluster: true,
        sharding: Sharding { default_shard: shard, ..Sharding::default() },
        ..options(Backend { address: addresses.join(","), ..Backend::default() })
    });
    for caller in 0..8 {
        let (taken, _) = super::instances::drain([&store, &store], [caller; 32]).await;
        assert_eq!(taken, 3);
    }
}
