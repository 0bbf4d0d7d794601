//! What operators did: noted with every admin call that changes something and with every change of a schedule, and listed.

use super::admin::scope;
use super::call::Call;
use super::error::Error;
use super::routes::{Endpoint, Reply, Route};
use super::search::limit;
use super::{App, RequestId, reply};
use crate::auth::{Admin, Caller};
use crate::stamp;
use axum::http::Method;
use axum::response::Response;
use codeq_api::admin::{AuditBody, AuditListBody};
use codeq_queue::audit::{Note, noting};
use codeq_queue::{AuditEntry, AuditPage, Refusal, Time, limits};
use percent_encoding::percent_decode_str;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Longest text of what a verb was done to.
const TARGET_BYTES: usize = 512;
/// What stands in front of a target: the second where the first does not.
const PREFIXES: [&str; 2] = ["/v1/codeq/admin/", "/v1/codeq/"];

/// What a handler tells of its deed besides the path, in the extensions of its answer.
#[derive(Clone, Default, Debug)]
pub struct Deed {
    pub count: Option<u64>,
    /// Nothing was changed: a dry run.
    pub is_dry: bool,
}

impl Deed {
    pub fn count(count: u64) -> Deed {
        Deed { count: Some(count), ..Deed::default() }
    }

    pub fn dry() -> Deed {
        Deed { is_dry: true, ..Deed::default() }
    }

    /// The answer that carries it.
    pub fn with(self, mut response: Response) -> Response {
        response.extensions_mut().insert(self);
        response
    }
}

/// A call that may be going to change something.
pub struct Noting {
    /// None for one that only reads.
    note: Option<Arc<Note>>,
}

impl Noting {
    pub fn of(call: &Call, route: &Route, caller: &Caller) -> Noting {
        if !route.is_noted() {
            return Noting { note: None };
        }
        let request_id = call.head.extensions.get::<RequestId>().map_or("", RequestId::text);
        // Only admin routes can be about another tenant.
        let named = call.query("tenant").filter(|_| matches!(route.endpoint, Endpoint::Admin(_)));
        let tenant = named.map_or_else(|| caller.tenant.clone(), Arc::from);
        let (verb, target) = words(&route.method, route.path, call.head.uri.path());
        let entry = AuditEntry {
            at: call.app.now(),
            id: next_id(),
            who: caller.subject.clone(),
            tenant,
            verb: verb.into(),
            target: target.into(),
            count: None,
            request_id: request_id.into(),
        };
        Noting { note: Some(Note::new(entry)) }
    }

    /// The call, whose first transition takes the record.
    pub fn around(self, app: Arc<App>, answering: Reply) -> Reply {
        let Some(note) = self.note else { return answering };
        Box::pin(async move {
            let response = noting(note.clone(), answering).await?;
            keep(&note, &app, response).await
        })
    }
}

/// Sees to it that the record of what was done is kept, whole. Without it nobody is told that it was done.
async fn keep(note: &Note, app: &App, response: Response) -> Result<Response, Error> {
    let deed = response.extensions().get::<Deed>().cloned().unwrap_or_default();
    if !response.status().is_success() || deed.is_dry {
        return Ok(response);
    }
    if let Some(count) = deed.count {
        note.amend(|entry| entry.count = Some(count));
    }
    // What a transition took before it was known how many there would be is put again.
    let is_whole = note.is_kept() && deed.count.is_none();
    app.broker().ok_or_else(Error::starting)?.note_audit(note.entry(), is_whole).await?;
    Ok(response)
}

/// Numbers that rise, also over a restart: entries of one millisecond stay in the order in which they were made.
fn next_id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanos = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
    let after = |last: u64| Some(nanos.max(last.saturating_add(1)));
    let previous = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
    nanos.max(previous.unwrap_or_default().saturating_add(1))
}

/// Verb and target of a call: `POST /v1/codeq/admin/queues/mail/pause` pauses `queues/mail`.
fn words(method: &Method, template: &str, path: &str) -> (&'static str, String) {
    let last = template.rsplit('/').next().unwrap_or_default();
    let verb = match (method, last) {
        (&Method::DELETE, _) => "delete",
        (&Method::PUT, _) => "put",
        (_, "pause") => "pause",
        (_, "resume") => "resume",
        (_, "cancel") => "cancel",
        (_, "requeue") => "requeue",
        (_, "run-now") => "run-now",
        (_, "redeliver") => "redeliver",
        (_, "cleanup") => "cleanup",
        (_, "import") => "import",
        (_, "backfill") => "backfill",
        (_, "clock") => "move clock",
        _ => "change",
    };
    let path = PREFIXES.iter().find_map(|prefix| path.strip_prefix(prefix)).unwrap_or(path);
    let target = match path.rsplit_once('/') {
        Some((target, word)) if word == verb => target,
        _ => path,
    };
    let target = percent_decode_str(target).decode_utf8_lossy();
    (verb, limits::cut(&target, TARGET_BYTES).to_owned())
}

pub async fn list(call: Call, admin: Admin) -> Result<Response, Error> {
    let page = AuditPage {
        tenant: scope(&call, &admin)?,
        verb: given(&call, "verb"),
        who: given(&call, "who"),
        after: time(&call, "after")?,
        before: time(&call, "before")?,
        cursor: given(&call, "cursor")
            .map(|text| read_cursor(&text).ok_or(Refusal::InvalidCursor))
            .transpose()?,
        limit: limit(call.query("limit").as_deref()),
    };
    let found = call.broker()?.audit(page).await?;
    let items = found.entries.iter().map(|entry| AuditBody {
        at: call.app.stamp.text(entry.at),
        who: (&*entry.who).into(),
        tenant: (&*entry.tenant).into(),
        verb: (&*entry.verb).into(),
        target: (&*entry.target).into(),
        count: entry.count,
        request_id: (&*entry.request_id).into(),
    });
    let next = found.next.map(|(at, id)| format!("{}-{id:016x}", at.millis()));
    Ok(reply::ok(&AuditListBody { items: items.collect(), next }))
}

fn given(call: &Call, name: &str) -> Option<String> {
    call.query(name).filter(|text| !text.is_empty())
}

fn time(call: &Call, name: &str) -> Result<Option<Time>, Refusal> {
    let invalid = || Refusal::InvalidFilter(format!("invalid {name} (use RFC3339)"));
    given(call, name).map(|text| stamp::parse(&text).ok_or_else(invalid)).transpose()
}

fn read_cursor(text: &str) -> Option<(Time, u64)> {
    let (at, id) = text.rsplit_once('-')?;
    Some((Time::from_millis(at.parse().ok()?), u64::from_str_radix(id, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_by_its_verb_and_its_target() {
        let post = |template: &str, path: &str| words(&Method::POST, template, path);
        let pause = post("/v1/codeq/admin/queues/{command}/pause", "/v1/codeq/admin/queues/a%3Ab/pause");
        assert_eq!(pause, ("pause", "queues/a:b".to_owned()));
        let cancel = post("/v1/codeq/admin/tasks/cancel", "/v1/codeq/admin/tasks/cancel");
        assert_eq!(cancel, ("cancel", "tasks".to_owned()));
        let import = post("/v1/codeq/admin/import", "/v1/codeq/admin/import");
        assert_eq!(import, ("import", "import".to_owned()));
        let path = "/v1/codeq/admin/dlq/mail/7";
        let delete = words(&Method::DELETE, "/v1/codeq/admin/dlq/{command}/{id}", path);
        assert_eq!(delete, ("delete", "dlq/mail/7".to_owned()));
    }

    /// Who changes what the clock makes is an operator, whatever the right.
    #[test]
    fn every_change_of_a_schedule_is_noted_and_a_trigger_is_not() {
        let table = super::super::routes::table();
        let noted = table.iter().filter(|route| route.is_noted() && route.path.contains("/schedules/"));
        let noted: Vec<&str> = noted.map(|route| words(&route.method, route.path, "").0).collect();
        assert_eq!(noted, ["put", "delete", "pause", "resume", "backfill"]);
        let path = "/v1/codeq/schedules/nightly/pause";
        let told = words(&Method::POST, "/v1/codeq/schedules/{scheduleName}/pause", path);
        assert_eq!(told, ("pause", "schedules/nightly".to_owned()));
    }

    #[test]
    fn later_entries_have_greater_numbers() {
        let ids: Vec<u64> = (0..1000).map(|_| next_id()).collect();
        assert!(ids.is_sorted_by(|earlier, later| earlier < later));
    }

    #[test]
    fn a_cursor_is_an_instant_and_a_number() {
        assert_eq!(read_cursor("1800-00000000000000ff"), Some((Time::from_millis(1800), 255)));
        for bad in ["", "-", "x-1", "1", "1-x"] {
            assert_eq!(read_cursor(bad), None, "{bad}");
        }
    }

    /// A route that changes something and has no word of its own would be told as a change of something.
    #[test]
    fn every_changing_admin_route_has_a_verb() {
        for route in super::super::routes::table() {
            if route.is_noted() {
                let (verb, _) = words(&route.method, route.path, route.path);
                assert_ne!(verb, "change", "{} {} has no verb for the audit", route.method, route.path);
            }
        }
    }
}
