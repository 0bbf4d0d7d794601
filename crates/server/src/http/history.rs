//! The history of queues, for charts.

use super::admin::scope;
use super::call::Call;
use super::error::Error;
use super::reply;
use crate::auth::Admin;
use crate::history::{Shown, ShownQueue};
use crate::stamp::WireTime;
use axum::response::Response;
use codeq_api::history::{HistoryBody, HistoryQueue, HistorySeries};

/// Minutes that are shown when nothing, or no number, is asked for.
const MINUTES: i64 = 60;
const MINUTES_MAX: i64 = 24 * 60;
const POINTS: i64 = 180;
const POINTS_MAX: i64 = 1440;

pub async fn history(call: Call, admin: Admin) -> Result<Response, Error> {
    let tenant = scope(&call, &admin)?;
    let command = call.query("command").filter(|command| !command.is_empty());
    let minutes = number(call.query("minutes"), MINUTES, MINUTES_MAX);
    let points = number(call.query("points"), POINTS, POINTS_MAX);
    let shown = call.app.history.show(tenant.as_deref(), command.as_deref(), minutes, points);
    Ok(reply::ok(&body(&shown, &call.app.stamp)))
}

fn number(asked: Option<String>, default: i64, most: i64) -> i64 {
    let asked = asked.and_then(|text| text.trim().parse::<i64>().ok());
    asked.unwrap_or(default).clamp(1, most)
}

fn body(shown: &Shown, stamp: &WireTime) -> HistoryBody {
    let points = &shown.total;
    let depth = |place: usize| points.iter().map(|point| point.depth[place]).collect();
    let took = |part: f64| points.iter().map(|point| point.took_millis(part).map(rounded)).collect();
    HistoryBody {
        since: stamp.text(shown.since),
        until: stamp.text(shown.until),
        step_seconds: shown.step_seconds,
        total: HistorySeries {
            created: points.iter().map(|point| point.created).collect(),
            claimed: points.iter().map(|point| point.claimed).collect(),
            completed: points.iter().map(|point| point.completed).collect(),
            failed: points.iter().map(|point| point.failed).collect(),
            returned: points.iter().map(|point| point.returned).collect(),
            ready: depth(0),
            delayed: depth(1),
            in_progress: depth(2),
            dlq: depth(3),
            p50_ms: took(0.5),
            p95_ms: took(0.95),
        },
        queues: shown.queues.iter().map(queue).collect(),
    }
}

fn queue(queue: &ShownQueue) -> HistoryQueue {
    HistoryQueue {
        command: queue.command.to_string(),
        tenant_id: queue.tenant.to_string(),
        created_per_second: rounded(queue.created_per_second),
        ended_per_second: rounded(queue.ended_per_second),
        created: queue.created.clone(),
        ended: queue.ended.clone(),
        failed: queue.failed.clone(),
    }
}

/// A tenth is as much as a chart can show.
fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
