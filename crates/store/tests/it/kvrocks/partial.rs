//! Lists while one of the servers is away: what the others hold, and later the rest, each task once.

use super::ground::open;
use super::isolation::{becomes, over};
use super::server::Server;
use super::verbs::create;
use codeq_queue::store::Health;
use codeq_queue::{Filter, Listed, OperatorStore, Page, TaskId};
use codeq_store::kvrocks::KvrocksStore;
use std::collections::BTreeSet;
use std::sync::Arc;

async fn page(store: &KvrocksStore, cursor: Option<String>, is_newest_first: bool, limit: usize) -> Listed {
    let page = Page {
        tenant: Some("t".into()),
        filter: Arc::new(Filter::default()),
        is_newest_first,
        cursor,
        limit,
    };
    store.list(page).await.expect("somebody answers").expect("the cursor is ours")
}

/// A list failed as a whole when one server of several was away.
#[tokio::test]
async fn a_list_has_what_answers_and_goes_on_with_the_rest() {
    let (one, mut two) = (Server::start(&[]), Server::start(&[]));
    let store = open(over(&one, &two));
    let mut made = BTreeSet::new();
    for number in 0..12 {
        let command = if number % 3 == 0 { "far" } else { "near" };
        made.insert(create(&*store, command).await.unwrap().task.id);
    }
    for newest_first in [false, true] {
        // Half of the tasks with both, then one goes, then it comes back.
        let first = page(&store, None, newest_first, 5).await;
        assert_eq!((first.tasks.len(), first.missing.len()), (5, 0));
        two.kill();
        becomes(&store, |health| matches!(health, Health::Degraded(_))).await;
        let mut seen: Vec<TaskId> = first.tasks.iter().map(|task| task.id).collect();
        let mut cursor = first.next;
        loop {
            let part = page(&store, cursor.clone(), newest_first, 2).await;
            assert_eq!(part.missing, ["two"]);
            seen.extend(part.tasks.iter().map(|task| task.id));
            let is_over = part.next == cursor;
            cursor = part.next;
            if is_over {
                break;
            }
        }
        assert!(seen.len() >= 8 && seen.len() < 12, "{} of the tasks", seen.len());
        two.run();
        becomes(&store, |health| *health == Health::Ready).await;
        while let Some(next) = cursor {
            let part = page(&store, Some(next), newest_first, 2).await;
            assert!(part.missing.is_empty());
            seen.extend(part.tasks.iter().map(|task| task.id));
            cursor = part.next;
        }
        assert_eq!(seen.len(), 12, "each task once");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), made);
    }
    let odd = Page {
        tenant: None,
        filter: Arc::new(Filter::default()),
        is_newest_first: false,
        cursor: Some("~nowhere:".into()),
        limit: 1,
    };
    assert!(store.list(odd).await.unwrap().is_err(), "a shard that is not there");
}
