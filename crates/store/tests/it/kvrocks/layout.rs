//! A server that lost what it held, or holds what is another deployment's, is not served as if it were ours.

use super::ground::open;
use super::isolation::{becomes, over};
use super::server::Server;
use super::verbs::{create, named};
use codeq_queue::store::Health;
use codeq_queue::{Store, TaskStore};
use codeq_store::kvrocks;

fn is_without_two(health: &Health) -> bool {
    *health == Health::Degraded(vec!["two".into()])
}

/// A server that came back without its volume was taken for one that is empty: its tasks were told to be unknown.
#[tokio::test]
async fn an_emptied_server_is_away_until_it_is_accepted() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    let store = open(over(&one, &two));
    let far = create(&*store, "far").await.unwrap().task;
    assert_eq!(two.say("FLUSHALL"), "+OK");
    // A running process notices.
    becomes(&store, is_without_two).await;
    assert!(create(&*store, "far").await.is_err());
    assert!(store.get(vec![named(&far)]).await.is_err(), "nobody says that the task is unknown");
    create(&*store, "near").await.expect("the other one serves");
    let reason = store.shards().into_iter().find_map(|shard| shard.away).expect("it is told");
    assert!(reason.contains("codeq store accept two --deployment "), "{reason}");
    // So does one that starts.
    let late = open(over(&one, &two));
    assert!(is_without_two(&late.health()), "{:?}", late.health());
    // The others know the id.
    let id = kvrocks::accept(&over(&one, &two), "two", None).await.expect("it is accepted");
    assert!(reason.ends_with(&id), "{reason}");
    for store in [&store, &late] {
        becomes(store, |health| *health == Health::Ready).await;
    }
    create(&*late, "far").await.unwrap();
    assert_eq!(store.get(vec![named(&far)]).await.unwrap(), [None]);
}

#[tokio::test]
async fn a_server_of_another_deployment_is_not_used_and_nothing_is_written_to_it() {
    let (one, two, three) = (Server::start(&[]), Server::start(&[]), Server::start(&[]));
    drop(open(over(&one, &two)));
    drop(open(over(&three, &three)));
    let other = open(over(&three, &two));
    assert!(is_without_two(&other.health()), "{:?}", other.health());
    create(&*other, "near").await.unwrap();
    assert!(create(&*other, "far").await.is_err());
    assert_eq!(two.say("EXISTS codeq:tasks"), ":0");
    let reason = other.shards().into_iter().find_map(|shard| shard.away).expect("it is told");
    assert!(reason.contains("belongs to deployment"), "{reason}");
}

/// One that joins has never been used, and one that was away at its first start is as good as new.
#[tokio::test]
async fn a_new_server_joins_by_itself_whenever_it_comes() {
    let (one, mut two) = (Server::start(&[]), Server::start(&[]));
    let options = || over(&one, &two);
    let (first, second) = (options(), options());
    two.kill();
    let store = open(first);
    becomes(&store, is_without_two).await;
    two.run();
    becomes(&store, |health| *health == Health::Ready).await;
    create(&*store, "far").await.unwrap();
    let again = open(second);
    assert_eq!(again.health(), Health::Ready);
    let id = |server: &Server| server.ask("HGET codeq:layout deployment");
    assert_eq!(id(&one), id(&two));
}
