use super::notice::KINDS;
use super::*;
use codeq_queue::event::What;
use codeq_queue::shared::{Bucket, Hearer, Lot, NoticeHearer};
use codeq_queue::store::Answer;
use codeq_queue::subscription::Subscription;
use codeq_queue::{QueueKey, TaskId, Time};

fn event(n: u64, tenant: &str) -> Event {
    Event {
        at: Time::ZERO,
        queue: QueueKey::new(tenant, "Render"),
        command: "Render".into(),
        task: Some(TaskId::from_bits(u128::from(n))),
        what: What::Created,
        has_filled: false,
    }
}

fn tasks(news: &[News]) -> Vec<TaskId> {
    let task = |news: &News| match news {
        News::Event { notice, .. } => notice.task,
        News::Lagged { .. } => None,
    };
    news.iter().filter_map(task).collect()
}

fn wanted() -> Wanted {
    Wanted { tenant: "acme".into(), ..Wanted::default() }
}

#[tokio::test]
async fn a_reader_hears_its_tenant_and_goes_on_where_it_was() {
    let feed = Arc::new(Feed::new());
    feed.observe(&[event(1, "acme")]);
    let mut reader = feed.listen(wanted(), None);
    feed.observe(&[event(2, "acme"), event(3, "other"), event(4, "acme")]);
    let heard = reader.next().await;
    assert_eq!(tasks(&heard), [TaskId::from_bits(2), TaskId::from_bits(4)], "from now on, ours only");
    let News::Event { id, .. } = &heard[0] else { panic!("an event") };
    drop(reader);
    feed.observe(&[event(5, "acme")]);
    let mut again = feed.listen(wanted(), Some(id));
    assert_eq!(tasks(&again.next().await), [TaskId::from_bits(4), TaskId::from_bits(5)]);
}

#[tokio::test]
async fn who_comes_too_late_is_told_so() {
    let feed = Arc::new(Feed::new());
    let mut reader = feed.listen(wanted(), None);
    let many: Vec<Event> = (0..KEPT as u64 + 7).map(|n| event(n + 1, "acme")).collect();
    feed.observe(&many);
    let heard = reader.next().await;
    let lost = many.len() - TOLD_TO_ONE.end();
    assert!(matches!(heard[0], News::Lagged { missed } if missed == lost as u64), "{:?}", heard[0]);
    assert_eq!(heard.len(), TOLD_TO_ONE.end() + 1);
    for foreign in ["", "x", "0-1", "ffff-0"] {
        let mut other = feed.listen(wanted(), Some(foreign));
        assert!(matches!(other.next().await[0], News::Lagged { .. }), "{foreign}");
    }
}

#[tokio::test]
async fn filters_choose_among_events() {
    let feed = Arc::new(Feed::new());
    let chosen = Wanted {
        command: Some("render".into()),
        task: Some(TaskId::from_bits(2)),
        types: vec!["created".into()],
        ..wanted()
    };
    let mut reader = feed.listen(chosen, None);
    feed.observe(&[event(1, "acme"), event(2, "acme")]);
    assert_eq!(tasks(&reader.next().await), [TaskId::from_bits(2)]);
}

/// Processes that hear each other at once, as far as they listen.
#[derive(Default)]
struct Wire {
    hearers: Mutex<Vec<Hearer>>,
    is_heard: std::sync::atomic::AtomicBool,
}

impl Wire {
    fn say(&self, event: Option<&str>) {
        self.hearers.lock().unwrap().iter().for_each(|hearer| hearer(event));
    }
}

impl Shared for Wire {
    fn take_token(&self, _: Bucket) -> Answer<Result<(), u64>> {
        unreachable!("events need no bucket")
    }

    fn choose(&self, _: QueueKey, _: Vec<Lot>) -> Answer<Vec<Arc<Subscription>>> {
        unreachable!("events need no choice")
    }

    fn announce(&self) -> Answer<()> {
        self.is_heard.store(true, Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_heard(&self) -> bool {
        self.is_heard.load(Ordering::Relaxed)
    }

    fn send_event(&self, event: String) {
        self.say(Some(&event));
    }

    fn hear_events(&self, hearer: Hearer) {
        self.hearers.lock().unwrap().push(hearer);
    }

    fn send_notice(&self, _: String) {
        unreachable!("events are no notices")
    }

    fn hear_notices(&self, _: NoticeHearer) {
        unreachable!("events are no notices")
    }

    fn keep_sightings(&self, _: String) -> Answer<()> {
        unreachable!("events are no workers")
    }

    fn sightings(&self) -> Answer<Vec<String>> {
        unreachable!("events are no workers")
    }
}

fn joined() -> (Arc<Wire>, [Arc<Feed>; 2]) {
    let wire = Arc::new(Wire::default());
    let shared: Arc<dyn Shared> = wire.clone();
    let feeds = [(); 2].map(|()| Arc::new(Feed::new()));
    feeds.iter().for_each(|feed| feed.join(&shared));
    (wire, feeds)
}

#[tokio::test]
async fn what_any_process_does_is_told_everywhere_and_once() {
    let (_, [one, two]) = joined();
    let mut readers = [one.listen(wanted(), None), two.listen(wanted(), None)];
    one.announce().await;
    one.observe(&[event(1, "acme"), event(2, "other")]);
    two.observe(&[event(3, "acme")]);
    for reader in &mut readers {
        assert_eq!(tasks(&reader.next().await), [1, 3].map(TaskId::from_bits));
    }
    one.observe(&[event(4, "acme")]);
    let News::Event { id, .. } = readers[0].next().await.remove(0) else { panic!("an event") };
    let mut elsewhere = two.listen(wanted(), Some(&id));
    assert!(matches!(elsewhere.next().await[0], News::Lagged { missed: 0 }), "the id is of another process");
}

#[tokio::test]
async fn what_does_not_come_from_another_process_is_missed() {
    let (wire, [one, two]) = joined();
    let mut reader = two.listen(wanted(), None);
    one.observe(&[event(1, "acme")]);
    one.announce().await;
    one.observe(&[event(2, "acme")]);
    assert_eq!(tasks(&reader.next().await), [TaskId::from_bits(2)], "nothing is missed before the first");
    wire.is_heard.store(false, Ordering::Relaxed);
    one.observe(&[event(3, "acme"), event(4, "acme")]);
    wire.is_heard.store(true, Ordering::Relaxed);
    one.observe(&[event(5, "acme")]);
    let heard = reader.next().await;
    assert!(matches!(heard[0], News::Lagged { missed: 2 }), "{heard:?}");
    assert_eq!(tasks(&heard), [TaskId::from_bits(5)]);
    wire.say(None);
    assert!(matches!(reader.next().await[0], News::Lagged { missed: 0 }));
    for strange in ["", "{}", "nonsense", r#"{"from":"x","n":1,"type":"else"}"#] {
        wire.say(Some(strange));
    }
    one.observe(&[event(6, "acme")]);
    assert_eq!(
        tasks(&reader.next().await),
        [TaskId::from_bits(6)],
        "what is not ours to read is passed over"
    );
}

#[test]
fn the_dashboard_knows_every_kind_of_event() {
    let tail = include_str!("../../../../dashboard/views/tail.js");
    let listed =
        tail.split_once("const TYPES = [").and_then(|(_, rest)| rest.split_once("];")).expect("a list");
    let listed: Vec<&str> = listed.0.split('"').skip(1).step_by(2).collect();
    assert_eq!(listed, KINDS);
}
