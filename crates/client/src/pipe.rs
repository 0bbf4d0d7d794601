//! Items in, answers out, over one stream.
//!
//! Callers hand over an item and wait for its answer. One task owns the stream: it takes all items that wait,
//! puts them into as few messages as it can, and hands every answer to the caller it belongs to. It reads and
//! writes at the same time, because the server does not read from a client that does not.
//!
//! The stream is opened when there is an item. When it breaks, every caller that waits for an answer is told
//! `Unavailable`, and the next item opens a new one; trying again is the callers' business, because only they
//! know for how long it makes sense. Nothing here grows without bound: see [`limits`].

use crate::{Error, limits};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tonic::Streaming;

/// What the two services have in common.
pub(crate) trait Protocol: Send + Sync + 'static {
    type Item: Send + 'static;
    type Answer: Send + 'static;
    type Key: Hash + Eq + Clone + Send;
    type Event: Send + 'static;
    type Message: Send + 'static;

    /// A stream after its handshake.
    fn open(&self) -> impl Future<Output = Result<Open<Self>, Error>> + Send;
    /// The longest silence while there are items without an answer.
    fn patience(&self) -> Duration;
    /// What the answer to an item is recognised by.
    fn key(&self, item: &mut Self::Item) -> Self::Key;
    fn bytes(item: &Self::Item) -> usize;
    /// Puts items into messages.
    fn events(items: Vec<Self::Item>) -> Vec<Self::Event>;
    /// Takes a message apart into answers.
    fn answers(&self, message: Self::Message) -> Answers<Self>;
}

pub(crate) type Answers<P> = Vec<(<P as Protocol>::Key, Result<<P as Protocol>::Answer, Error>)>;

/// Both directions of a stream.
pub(crate) struct Open<P: Protocol + ?Sized> {
    pub events: mpsc::Sender<P::Event>,
    pub messages: Streaming<P::Message>,
}

struct Asked<P: Protocol> {
    item: P::Item,
    answer: oneshot::Sender<Result<P::Answer, Error>>,
}

/// The callers' end.
pub(crate) struct Pipe<P: Protocol> {
    protocol: Arc<P>,
    /// Where the stream runs; that of the first caller if none is given.
    runtime: Option<Handle>,
    /// None until the first item, and closed when the runtime that ran the task is gone.
    items: Mutex<Option<mpsc::Sender<Asked<P>>>>,
}

impl<P: Protocol> Pipe<P> {
    pub fn new(protocol: P) -> Pipe<P> {
        Pipe { protocol: Arc::new(protocol), runtime: None, items: Mutex::new(None) }
    }

    /// One whose stream runs on a runtime of its own.
    pub fn on(runtime: Handle, protocol: P) -> Pipe<P> {
        Pipe { runtime: Some(runtime), ..Pipe::new(protocol) }
    }

    /// Hands the item over and waits for its answer.
    pub async fn ask(&self, item: P::Item) -> Result<P::Answer, Error> {
        self.hand_over(item).await?.await.unwrap_or_else(|_| Err(Error::unavailable("the stream is gone")))
    }

    /// Hands all of them over before it waits for the answers, which come in the same order.
    pub async fn ask_all(&self, items: Vec<P::Item>) -> Vec<Result<P::Answer, Error>> {
        let mut waiting = Vec::with_capacity(items.len());
        for item in items {
            waiting.push(self.hand_over(item).await);
        }
        let mut answers = Vec::with_capacity(waiting.len());
        for answer in waiting {
            answers.push(match answer {
                Ok(answer) => answer.await.unwrap_or_else(|_| Err(Error::unavailable("the stream is gone"))),
                Err(error) => Err(error),
            });
        }
        answers
    }

    async fn hand_over(&self, item: P::Item) -> Result<oneshot::Receiver<Result<P::Answer, Error>>, Error> {
        if P::bytes(&item) > limits::ITEM_BYTES {
            let message = format!("more than {} bytes do not fit a stream", limits::ITEM_BYTES);
            return Err(Error::refused(413, "payload_too_large", message));
        }
        let (answer, receiver) = oneshot::channel();
        let sent = self.items().send(Asked { item, answer }).await;
        sent.map_err(|_| Error::unavailable("the stream is gone"))?;
        Ok(receiver)
    }

    fn items(&self) -> mpsc::Sender<Asked<P>> {
        let mut items = self.items.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &*items {
            Some(open) if !open.is_closed() => open.clone(),
            _ => {
                let (sender, receiver) = mpsc::channel(limits::QUEUED);
                let running = run(self.protocol.clone(), receiver);
                match &self.runtime {
                    Some(runtime) => runtime.spawn(running),
                    None => tokio::spawn(running),
                };
                items.insert(sender).clone()
            }
        }
    }
}

/// Opens a stream whenever there is something to send, until there are no callers any more.
async fn run<P: Protocol>(protocol: Arc<P>, mut items: mpsc::Receiver<Asked<P>>) {
    while let Some(first) = items.recv().await {
        match protocol.open().await {
            Ok(open) => Session::new(&*protocol, open).run(first, &mut items).await,
            Err(error) => {
                let _ = first.answer.send(Err(error.clone()));
                while let Ok(next) = items.try_recv() {
                    let _ = next.answer.send(Err(error.clone()));
                }
            }
        }
    }
}

struct Session<'a, P: Protocol> {
    protocol: &'a P,
    events: mpsc::Sender<P::Event>,
    messages: Streaming<P::Message>,
    waiting: HashMap<P::Key, oneshot::Sender<Result<P::Answer, Error>>>,
    /// Made and not yet taken by the transport, last one first.
    unsent: Vec<P::Event>,
    /// When something was last heard, or when waiting began again.
    heard: Instant,
}

impl<'a, P: Protocol> Session<'a, P> {
    fn new(protocol: &'a P, open: Open<P>) -> Session<'a, P> {
        let Open { events, messages } = open;
        let (waiting, unsent) = (HashMap::new(), Vec::new());
        Session { protocol, events, messages, waiting, unsent, heard: Instant::now() }
    }

    /// Returns when the stream is over or nobody asks any more.
    async fn run(mut self, first: Asked<P>, items: &mut mpsc::Receiver<Asked<P>>) {
        self.take(vec![first]);
        let error = loop {
            let room = limits::UNANSWERED.saturating_sub(self.waiting.len()).min(limits::STREAM_BATCH);
            let mut asked = Vec::new();
            tokio::select! {
                permit = self.events.clone().reserve_owned(), if !self.unsent.is_empty() => match permit {
                    Ok(permit) => { self.unsent.pop().map(|event| permit.send(event)); }
                    Err(_) => break Error::unavailable("the stream broke"),
                },
                count = items.recv_many(&mut asked, room), if room > 0 && self.unsent.is_empty() => match count {
                    0 => break Error::unavailable("the stream is closed"),
                    _ => self.take(asked),
                },
                message = self.messages.message() => match message {
                    Ok(Some(message)) => self.answer(message),
                    Ok(None) => break Error::unavailable("the server closed the stream"),
                    Err(status) => break Error::broken(&status),
                },
                () = tokio::time::sleep_until(self.heard + self.protocol.patience()),
                    if !self.waiting.is_empty() => break Error::unavailable("the stream did not answer in time"),
            }
        };
        for (_, answer) in self.waiting {
            let _ = answer.send(Err(error.clone()));
        }
    }

    fn take(&mut self, asked: Vec<Asked<P>>) {
        if self.waiting.is_empty() {
            self.heard = Instant::now();
        }
        let mut items = Vec::with_capacity(asked.len());
        for Asked { mut item, answer } in asked {
            let key = self.protocol.key(&mut item);
            // Answers name the task and not the attempt: two questions at a time could not be told apart.
            if self.waiting.contains_key(&key) {
                let _ = answer.send(Err(Error::unavailable("an earlier report is not answered yet")));
                continue;
            }
            self.waiting.insert(key, answer);
            items.push(item);
        }
        self.unsent = cut::<P>(items).into_iter().flat_map(P::events).collect();
        self.unsent.reverse();
    }

    fn answer(&mut self, message: P::Message) {
        self.heard = Instant::now();
        for (key, answer) in self.protocol.answers(message) {
            if let Some(caller) = self.waiting.remove(&key) {
                let _ = caller.send(answer);
            }
        }
    }
}

/// Groups that fit a message.
fn cut<P: Protocol>(items: Vec<P::Item>) -> Vec<Vec<P::Item>> {
    let mut groups = vec![Vec::new()];
    let mut bytes = 0;
    for item in items {
        bytes += P::bytes(&item);
        if bytes > limits::MESSAGE_BYTES && groups.last().is_some_and(|group| !group.is_empty()) {
            groups.push(Vec::new());
            bytes = P::bytes(&item);
        }
        groups.last_mut().expect("there is a first group").push(item);
    }
    groups
}
