//! Export and import: tasks as JSON lines, with a checksum at the end.

use super::admin::scope;
use super::audit::Deed;
use super::call::Call;
use super::error::Error;
use super::{filter, options, reply, show};
use crate::auth::Admin;
use crate::broker::{Broker, Moved};
use crate::stamp::{self, WireTime};
use aws_lc_rs::digest::{Context, SHA256};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use bytes::{Buf, Bytes, BytesMut};
use codeq_api::admin::{ExportEnd, ExportedMore, ExportedTask, ImportedBody, RefusedLine};
use codeq_api::json;
use codeq_queue::dependency::check_after;
use codeq_queue::store::Import;
use codeq_queue::{
    Artifact, Body as TaskBody, Delay, FailureReason, Filter, Held, OnFailure, Refusal, ResultRecord, State,
    Status, Task, TaskId,
};
use futures_util::stream;
use http_body_util::BodyExt;
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");
/// Tasks handed to the store at once.
const BATCH: usize = 100;
/// Lines that are named when they are refused.
const TOLD: usize = 1000;

pub async fn export(call: Call, admin: Admin) -> Result<Response, Error> {
    let filter = filter::of_query(&call, &[])?;
    // Live tasks are what one moves; everything else has to be asked for.
    let is_live_only = filter.status.is_none() && filter.place.is_none() && filter.group.is_none();
    let writer = Writer {
        broker: call.broker()?.clone(),
        tenant: scope(&call, &admin)?,
        filter: Arc::new(filter),
        is_live_only,
        stamp: call.app.stamp.clone(),
        digest: Context::new(&SHA256),
        count: 0,
        at: At::Page(None),
    };
    // The first page tells whether the store is well while a status can still be sent.
    let (first, writer) = writer.next().await?;
    let rest = stream::try_unfold(writer, |writer| async move {
        if matches!(writer.at, At::Over) {
            return Ok(None);
        }
        let next = writer.next().await.map_err(|error| std::io::Error::other(error.text))?;
        Ok::<_, std::io::Error>(Some(next))
    });
    let first = stream::once(std::future::ready(Ok(first)));
    Ok(reply::with_type(
        StatusCode::OK,
        LINES,
        Body::from_stream(futures_util::StreamExt::chain(first, rest)),
    ))
}

enum At {
    /// The page that begins here.
    Page(Option<String>),
    End,
    Over,
}

struct Writer {
    broker: Arc<Broker>,
    tenant: Option<Arc<str>>,
    filter: Arc<Filter>,
    is_live_only: bool,
    stamp: WireTime,
    digest: Context,
    count: u64,
    at: At,
}

impl Writer {
    /// The next lines.
    async fn next(mut self) -> Result<(Bytes, Writer), Error> {
        let mut lines = Vec::new();
        match std::mem::replace(&mut self.at, At::Over) {
            At::Page(cursor) => {
                let exported = self.broker.export(self.tenant.clone(), self.filter.clone(), cursor);
                let (moved, next) = exported.await?;
                for moved in moved.iter().filter(|(task, _)| !self.is_live_only || task.state.is_live()) {
                    write_line(&mut lines, &exported_task(moved, &self.stamp));
                    self.count += 1;
                }
                self.digest.update(&lines);
                self.at = next.map_or(At::End, |next| At::Page(Some(next)));
            }
            At::End => {
                let sha256 = hex(self.digest.clone().finish().as_ref());
                write_line(&mut lines, &ExportEnd { count: self.count, sha256 });
            }
            At::Over => {}
        }
        Ok((lines.into(), self))
    }
}

fn write_line<T: serde::Serialize>(lines: &mut Vec<u8>, value: &T) {
    lines.extend_from_slice(&reply::encode(value));
    lines.push(b'\n');
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

fn exported_task<'a>((task, record): &'a Moved, stamp: &WireTime) -> ExportedTask<'a> {
    let more = ExportedMore {
        idempotency_key: task.body.idempotency_key.as_deref().map(Cow::Borrowed),
        visible_at: match task.state {
            State::Delayed { until } => Some(stamp.text(until)),
            _ => None,
        },
        unique: task.body.unique().map(options::unique_body),
        max_run_seconds: task.body.max_run().map(options::seconds),
        on_dependency_failure: task
            .body
            .options
            .as_ref()
            .filter(|options| options.on_failure == OnFailure::Run)
            .map(|options| options.on_failure.word().into()),
        result: record.as_ref().map(|record| show::whole_record(task.id, record, stamp)),
    };
    // Keys of results are the business of the server that keeps them.
    ExportedTask { task: show::task(task, "", stamp), more }
}

pub async fn import(mut call: Call, admin: Admin) -> Result<Response, Error> {
    let mut reader = Reader {
        broker: call.broker()?.clone(),
        tenant: scope(&call, &admin)?,
        now: call.app.now(),
        line: 0,
        batch: Vec::new(),
        held: 0,
        digest: Context::new(&SHA256),
        end: None,
        count: 0,
        done: ImportedBody::default(),
    };
    let mut body = std::mem::take(&mut call.body);
    let mut pending = BytesMut::new();
    let (mut total, mut searched) = (0, 0);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Refusal::InvalidBody)?.into_data() else { continue };
        total += data.len();
        if total > call.limit {
            return Err(Error::body_too_large());
        }
        pending.extend_from_slice(&data);
        call.hold(pending.len() + reader.held)?;
        while let Some(end) = pending[searched..].iter().position(|byte| *byte == b'\n') {
            reader.line(&pending[..=searched + end]).await?;
            pending.advance(searched + end + 1);
            searched = 0;
        }
        searched = pending.len();
        if pending.len() > call.app.limits.submit + call.app.limits.body {
            return Err(Error::body_too_large());
        }
    }
    if !pending.is_empty() {
        reader.line(&pending).await?;
    }
    let done = reader.finish().await?;
    Ok(Deed::count(done.created).with(reply::ok(&done)))
}

struct Reader {
    broker: Arc<Broker>,
    /// `None`: every line says its own.
    tenant: Option<Arc<str>>,
    now: codeq_queue::Time,
    line: u64,
    batch: Vec<(u64, Import)>,
    /// Bytes of the lines in the batch.
    held: usize,
    digest: Context,
    end: Option<ExportEnd>,
    count: u64,
    done: ImportedBody,
}

impl Reader {
    async fn line(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.line += 1;
        if bytes.trim_ascii().is_empty() {
            self.digest.update(bytes);
            return Ok(());
        }
        if self.end.is_some() {
            self.refuse("there is more after the last line", "invalid_body");
            return Ok(());
        }
        if let Ok(end) = json::read::<ExportEnd>(bytes) {
            self.end = Some(end);
            return Ok(());
        }
        self.digest.update(bytes);
        self.count += 1;
        self.held += bytes.len();
        match self.read(bytes) {
            Ok(import) => self.batch.push((self.line, import)),
            Err(refusal) => self.refuse(&refusal.to_string(), refusal.code()),
        }
        if self.batch.len() >= BATCH {
            self.flush().await?;
        }
        Ok(())
    }

    fn refuse(&mut self, error: &str, code: &str) {
        if self.done.refused.len() < TOLD {
            self.done.refused.push(RefusedLine { line: self.line, error: error.into(), code: code.into() });
        }
    }

    async fn flush(&mut self) -> Result<(), Error> {
        self.held = 0;
        let (lines, imports): (Vec<u64>, Vec<Import>) = self.batch.drain(..).unzip();
        if imports.is_empty() {
            return Ok(());
        }
        let answers = self.broker.import(imports).await?;
        let here = self.line;
        for (line, answer) in lines.into_iter().zip(answers) {
            match answer {
                Ok(true) => self.done.created += 1,
                Ok(false) => self.done.existing += 1,
                Err(refusal) => {
                    self.line = line;
                    self.refuse(&refusal.to_string(), refusal.code());
                }
            }
        }
        self.line = here;
        Ok(())
    }

    /// Whether the file is whole is told, too; what was in it is stored anyway, once.
    async fn finish(mut self) -> Result<ImportedBody, Error> {
        self.flush().await?;
        match self.end.take() {
            None => self.refuse("the file ends without its last line", "incomplete_file"),
            Some(end)
                if end.count != self.count || end.sha256 != hex(self.digest.clone().finish().as_ref()) =>
            {
                self.refuse("the lines are not those that were exported", "checksum_mismatch");
            }
            Some(_) => {}
        }
        Ok(self.done)
    }

    fn read(&self, bytes: &[u8]) -> Result<Import, Refusal> {
        let line: ExportedTask<'_> = json::read(bytes).map_err(|_| Refusal::InvalidBody)?;
        let tenant = match &self.tenant {
            Some(tenant) => tenant.clone(),
            None if crate::auth::is_tenant(&line.task.tenant_id) => (*line.task.tenant_id).into(),
            None => return Err(Refusal::InvalidBody),
        };
        let record = line.more.result.as_ref().map(record).transpose()?;
        let state = state(&line, record.as_ref(), self.now)?;
        Import { task: task(line, tenant, state, self.now)?, record }.check(self.now)
    }
}

fn text(text: Cow<'_, str>) -> Option<Box<str>> {
    (!text.is_empty()).then(|| text.into())
}

fn task(
    line: ExportedTask<'_>,
    tenant: Arc<str>,
    state: State,
    now: codeq_queue::Time,
) -> Result<Task, Refusal> {
    let options = options::imported(&line)?;
    let given = line.task;
    let command = codeq_queue::queue::check_command(&given.command)?.into();
    json::check(&given.payload).map_err(|_| Refusal::InvalidBody)?;
    let at = |text: &str| stamp::parse(text).unwrap_or(now);
    let body = TaskBody {
        tenant,
        command,
        payload: given.payload.into(),
        webhook: text(given.webhook),
        headers: given.headers.into_owned().into(),
        idempotency_key: line.more.idempotency_key.and_then(text),
        trace_parent: text(given.trace_parent),
        trace_state: text(given.trace_state),
        options,
    };
    Ok(Task {
        id: TaskId::parse(&given.id).ok_or(Refusal::InvalidBody)?,
        body: Arc::new(body),
        priority: given.priority,
        state,
        attempts: given.attempts,
        refunds: given.refunds,
        max_attempts: given.max_attempts,
        error: text(given.error).map(Into::into),
        checkpoint: given.checkpoint.map(|text| text.0.get().into()),
        progress: None,
        created_at: at(&given.created_at),
        updated_at: at(&given.updated_at),
    })
}

/// Where the task is to be. Who ran it elsewhere does not run it here.
fn state(
    line: &ExportedTask<'_>,
    record: Option<&ResultRecord>,
    now: codeq_queue::Time,
) -> Result<State, Refusal> {
    let visible = line.more.visible_at.as_deref().and_then(stamp::parse).filter(|at| *at > now);
    let reason = record.and_then(|record| record.failure_reason);
    match (&*line.task.status, record.is_some()) {
        // It asks here for what it waited for there. Its delay is not told.
        ("PENDING", false) if line.task.last_known_location == "HELD_SET" => {
            let open = check_after(&line.task.after)?;
            match open.is_empty() {
                true => Err(Refusal::InvalidBody),
                false => Ok(State::Held(Arc::new(Held { open, delay: Delay::None }))),
            }
        }
        ("PENDING" | "IN_PROGRESS", false) => {
            Ok(visible.map_or(State::Ready { seq: 0 }, |until| State::Delayed { until }))
        }
        ("COMPLETED", true) => Ok(State::Completed),
        ("FAILED", true) if line.task.last_known_location == "DLQ_SET" => Ok(State::Dead),
        ("FAILED", true) if reason == Some(FailureReason::Cancelled) => Ok(State::Cancelled),
        ("FAILED", true) => Ok(State::Failed),
        _ => Err(Refusal::InvalidStatus),
    }
}

/// Files that another server keeps stay there: their links are taken over as links.
fn record(given: &codeq_api::task::ResultRecord<'_>) -> Result<ResultRecord, Refusal> {
    let status = match &*given.status {
        "COMPLETED" => Status::Completed,
        "FAILED" => Status::Failed,
        _ => return Err(Refusal::InvalidStatus),
    };
    let failure_reason = match given.failure_reason.as_deref() {
        Some("MAX_ATTEMPTS") => Some(FailureReason::MaxAttempts),
        Some("CANCELLED") => Some(FailureReason::Cancelled),
        Some("EXPIRED") => Some(FailureReason::Expired),
        Some("DEPENDENCY") => Some(FailureReason::Dependency),
        _ => None,
    };
    let artifacts = given.artifacts.iter().map(|artifact| Artifact {
        name: artifact.name.to_string(),
        url: artifact.url.to_string(),
        stored: None,
    });
    Ok(ResultRecord {
        status,
        result: given.result.as_ref().map(|result| result.get().into()),
        error: given.error.as_deref().map(Into::into),
        failure_reason,
        artifacts: artifacts.collect(),
        completed_at: stamp::parse(&given.completed_at).ok_or(Refusal::InvalidBody)?,
    })
}
