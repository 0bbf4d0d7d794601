//! The life of one stream: greeted, open, over.
//!
//! A session is polled by the transport when there is room to write, and by nobody else. It then hands out
//! an answer, or moves on: ends what has to end, collects calls that are done, reads what has arrived.

use super::StreamContext;
use super::codec::{Answer, Event};
use super::connection::Opening;
use super::desk::Desk;
use super::handshake::{greet, shutting_down};
use super::strangers::Guest;
use super::texts::transport;
use crate::auth::Caller;
use crate::metrics::Counted;
use crate::shares::Place;
use crate::telemetry::traces::http::Carried;
use codeq_queue::Time;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Sleep;
use tokio_stream::Stream;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::{Code, Status, Streaming};

/// Events that have arrived together and are taken together.
const GATHERED: usize = 1000;
/// Bytes of payloads and results after which no more is gathered.
const GATHERED_BYTES: usize = 4 * 1024 * 1024;

/// A side of the queue as a stream serves it.
pub trait Role: Send + Sized + Unpin + 'static {
    /// The full name of the gRPC service; its method is `Stream`.
    const SERVICE: &'static str;
    type Event: Event;
    type Answer: Answer;

    /// Lets the caller in, if the first event is a Hello with a good token.
    fn enter(
        office: &Arc<StreamContext>,
        first: Self::Event,
        carried: Option<Carried>,
    ) -> impl Future<Output = Result<Entered<Self>, Status>> + Send;
    /// Takes an event: answers it, calls the broker, or keeps it until [`Role::dispatch`]. Says how many
    /// bytes of payloads or results it brought.
    fn take(&mut self, event: Self::Event, desk: &mut Desk<Self::Answer>) -> usize;
    /// Calls the broker for everything that was kept.
    fn dispatch(&mut self, desk: &mut Desk<Self::Answer>);
    /// The next answer that no event is waiting for.
    fn poll_more(&mut self, _: &mut Context<'_>) -> Poll<Self::Answer> {
        Poll::Pending
    }
    /// No event will come any more.
    fn stop(&mut self) {}
}

/// A caller that was let in.
pub struct Entered<R: Role> {
    pub role: R,
    pub welcome: R::Answer,
    pub caller: Arc<Caller>,
    /// When its token is no longer accepted.
    pub ends_at: Option<Time>,
}

type Entering<R> = Pin<Box<dyn Future<Output = Result<Open<R>, Status>> + Send>>;

pub enum Session<R: Role> {
    Entering(Entering<R>),
    Open(Box<Open<R>>),
    Over,
}

pub struct Open<R: Role> {
    /// Counted while it is open.
    _counted: Counted,
    /// Its connection is in use.
    _guest: Guest,
    _place: Place,
    incoming: Streaming<R::Event>,
    role: R,
    desk: Desk<R::Answer>,
    limits: Limits,
}

impl<R: Role> Session<R> {
    pub fn new(opening: Opening, incoming: Streaming<R::Event>) -> Session<R> {
        let draining = opening.office.draining.clone();
        Session::Entering(Box::pin(async move {
            tokio::select! {
                biased;
                () = draining.cancelled() => Err(shutting_down()),
                opened = open(opening, incoming) => opened,
            }
        }))
    }
}

async fn open<R: Role>(opening: Opening, mut incoming: Streaming<R::Event>) -> Result<Open<R>, Status> {
    let entered: Entered<R> = greet(&opening.office, &mut incoming, opening.carried).await?;
    let place = opening.office.shares.take(&entered.caller.tenant).ok_or_else(|| {
        let most = opening.office.shares.most();
        Status::resource_exhausted(format!("too many streams of the tenant (max {most})"))
    })?;
    let share = Arc::new(opening.office.budget.share(&entered.caller));
    opening.guest.is_greeted();
    let share = opening.known.get_or_init(|| share).clone();
    let mut desk = Desk::new(share);
    desk.answer(entered.welcome);
    let counted = Counted::new(opening.office.metrics.streams(R::SERVICE));
    let limits = Limits::new(opening.office, entered.ends_at);
    Ok(Open {
        _counted: counted,
        _guest: opening.guest,
        _place: place,
        incoming,
        role: entered.role,
        desk,
        limits,
    })
}

impl<R: Role> Stream for Session<R> {
    type Item = Result<R::Answer, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let next = match &mut *self {
                Session::Entering(entering) => match std::task::ready!(entering.as_mut().poll(context)) {
                    Ok(open) => {
                        *self = Session::Open(Box::new(open));
                        continue;
                    }
                    Err(status) => Some(Err(status)),
                },
                Session::Open(open) => std::task::ready!(open.poll_next(context)),
                Session::Over => None,
            };
            if !matches!(next, Some(Ok(_))) {
                *self = Session::Over;
            }
            return Poll::Ready(next);
        }
    }
}

impl<R: Role> Open<R> {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<R::Answer, Status>>> {
        loop {
            if let Some(answer) = self.desk.next_answer() {
                return Poll::Ready(Some(Ok(answer)));
            }
            self.check_limits(context);
            if let Poll::Ready(answer) = self.role.poll_more(context) {
                return Poll::Ready(Some(Ok(answer)));
            }
            let mut has_moved = self.desk.poll_calls(context);
            has_moved |= !self.desk.is_ending() && self.read(context);
            if let Some(status) = self.desk.settled() {
                let is_plain = status.code() == Code::Ok;
                return Poll::Ready((!is_plain).then_some(Err(status)));
            }
            if !has_moved {
                return Poll::Pending;
            }
        }
    }

    fn check_limits(&mut self, context: &mut Context<'_>) {
        if !self.desk.is_ending()
            && let Poll::Ready(status) = self.limits.poll(context)
        {
            self.desk.finish(status);
        }
        if self.desk.is_ending() {
            self.role.stop();
        }
    }

    /// Takes what has arrived, as far as there is room for it; whether that was anything.
    fn read(&mut self, context: &mut Context<'_>) -> bool {
        let (mut events, mut bytes) = (0, 0);
        while events < self.desk.room().min(GATHERED) && bytes < GATHERED_BYTES && !self.desk.is_ending() {
            match Pin::new(&mut self.incoming).poll_next(context) {
                Poll::Ready(Some(Ok(event))) => bytes += self.role.take(event, &mut self.desk),
                Poll::Ready(Some(Err(status))) => self.desk.finish(transport(status)),
                Poll::Ready(None) => self.desk.finish(Status::ok("")),
                Poll::Pending => break,
            }
            events += 1;
        }
        self.role.dispatch(&mut self.desk);
        events > 0
    }
}

/// What ends an open stream from our side.
struct Limits {
    office: Arc<StreamContext>,
    draining: Pin<Box<WaitForCancellationFutureOwned>>,
    expiry: Option<(Time, Pin<Box<Sleep>>)>,
}

impl Limits {
    fn new(office: Arc<StreamContext>, ends_at: Option<Time>) -> Limits {
        let ends_at = ends_at.filter(|_| office.end_at_token_expiry);
        let now = office.broker.now();
        let expiry = ends_at.map(|at| (at, Box::pin(tokio::time::sleep(at.since(now)))));
        Limits { draining: Box::pin(office.draining.clone().cancelled_owned()), office, expiry }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        if self.draining.as_mut().poll(context).is_ready() {
            return Poll::Ready(shutting_down());
        }
        let Some((ends_at, sleep)) = &mut self.expiry else { return Poll::Pending };
        while sleep.as_mut().poll(context).is_ready() {
            let now = self.office.broker.now();
            if now >= *ends_at {
                return Poll::Ready(Status::unauthenticated("token expired"));
            }
            // The clock was set back: the token lives on.
            sleep.set(tokio::time::sleep(ends_at.since(now)));
        }
        Poll::Pending
    }
}
