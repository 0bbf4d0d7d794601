//! Listening to what happens, through kills and restarts.

use crate::server::{PATIENCE, Server, TOKEN};
use codeq_client::{Error, Event, Events, NewTask, Producer};

async fn next(events: &mut Events) -> Event {
    let heard = tokio::time::timeout(PATIENCE, events.next()).await;
    heard.expect("an event comes in time").expect("the server is willing")
}

#[tokio::test]
async fn events_are_heard_again_after_the_server_was_killed() {
    let mut server = Server::start();
    let producer = Producer::http(&server.base, TOKEN);
    let mut events = Events::http(&server.base, TOKEN).command("Render").types("created");
    // Nothing tells when the stream is open: create until something is heard.
    let mut created = Vec::new();
    let first = loop {
        created.push(producer.create(NewTask::new("render", &1)).await.unwrap().id);
        let heard = tokio::time::timeout(std::time::Duration::from_millis(200), events.next()).await;
        if let Ok(event) = heard {
            break event.unwrap();
        }
    };
    let Event::Happened(first) = first else { panic!("nothing was missed yet") };
    assert!(created.contains(&first.task_id.expect("a task")), "{created:?}");
    assert_eq!((first.kind.as_str(), first.command.as_str()), ("created", "render"));
    server.kill();
    server.start_again();
    let hearing = async {
        loop {
            if let Event::Lagged { .. } = next(&mut events).await {
                return next(&mut events).await;
            }
        }
    };
    // The first ones may come before the stream is open again.
    let creating = async {
        loop {
            producer.create(NewTask::new("render", &2)).await.unwrap();
        }
    };
    let heard = tokio::select! {
        heard = hearing => heard,
        () = creating => unreachable!("it goes on until something is heard"),
    };
    assert!(matches!(heard, Event::Happened(_)), "{heard:?}");
}

#[tokio::test]
async fn a_refusal_is_told() {
    let server = Server::start();
    let refused = Events::http(&server.base, "wrong").next().await;
    assert!(matches!(refused, Err(Error::Unauthorized { .. })), "{refused:?}");
    let refused = Events::http(&server.base, TOKEN).types("gone").next().await;
    assert!(matches!(refused, Err(Error::Refused { status: 400, .. })), "{refused:?}");
}
