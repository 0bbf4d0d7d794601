//! The log: one event per line, as JSON or as text for people.
//!
//! Every line has `time`, `level`, `msg`, `service` and `env`, then the fields of the event and of the
//! spans around it, such as the `requestId` of a request. Our own crates are heard from the chosen level
//! on, all others from `warn` on. A line is one write; a log that cannot be written is dropped.

mod fields;
mod line;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use fields::Fields;
use line::Line;

/// Targets of our own crates start with this.
const OURS: &str = "codeq";

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    const ALL: [Level; 4] = [Level::Debug, Level::Info, Level::Warn, Level::Error];

    pub fn parse(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }

    /// `None` for what is finer than any level of ours.
    fn of(metadata: &Metadata<'_>) -> Option<Level> {
        match *metadata.level() {
            tracing::Level::ERROR => Some(Level::Error),
            tracing::Level::WARN => Some(Level::Warn),
            tracing::Level::INFO => Some(Level::Info),
            tracing::Level::DEBUG => Some(Level::Debug),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Json,
    Text,
}

impl Format {
    pub fn parse(name: &str) -> Option<Format> {
        match name {
            "json" => Some(Format::Json),
            "text" => Some(Format::Text),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct LogOptions {
    pub level: Level,
    pub format: Format,
    pub env: String,
    pub to_stderr: bool,
}

/// Sends all events of the process to stdout or stderr. Does nothing if they already go somewhere.
pub fn init(options: LogOptions) {
    let writer: Box<dyn Write + Send> =
        if options.to_stderr { Box::new(std::io::stderr()) } else { Box::new(std::io::stdout()) };
    let subscriber = Registry::default().with(layer(options, writer));
    // An error says that a subscriber is set already, which is as good.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// The layer behind [`init`], writing to `writer`.
pub fn layer<S, W>(options: LogOptions, writer: W) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: Write + Send + 'static,
{
    layer_at(options, writer, Timestamp::now)
}

fn layer_at<S, W>(options: LogOptions, writer: W, now: fn() -> Timestamp) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: Write + Send + 'static,
{
    let least = options.level;
    let filter = FilterFn::new(move |metadata| is_wanted(metadata, least));
    LogLayer { format: options.format, env: options.env, now, writer: Mutex::new(writer) }.with_filter(filter)
}

/// Our spans are wanted at every level: events inside need their fields.
fn is_wanted(metadata: &Metadata<'_>, least: Level) -> bool {
    let is_ours = metadata.target().starts_with(OURS);
    let least = if is_ours { least } else { Level::Warn };
    (is_ours && metadata.is_span()) || Level::of(metadata).is_some_and(|level| level >= least)
}

struct LogLayer<W> {
    format: Format,
    env: String,
    now: fn() -> Timestamp,
    writer: Mutex<W>,
}

impl<S, W> Layer<S> for LogLayer<W>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: Write + Send + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().replace(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        // Innermost first: what is nearest to the event wins over its namesakes further out.
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.add_missing(outer);
            }
        }
        let level = Level::of(event.metadata()).unwrap_or(Level::Debug);
        let line = Line { time: (self.now)(), level, env: &self.env, fields: &fields };
        let text = line.text(self.format);
        // A log that cannot be written must not stop the work it tells about.
        let _ = self.writer.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes());
    }
}
