//! Queue policies and lanes, as operators put and watch them.

use super::admin::one_tenant;
use super::call::{Call, parse};
use super::error::Error;
use super::reply;
use super::search::limit;
use crate::auth::Admin;
use crate::stamp::WireTime;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use codeq_api::policy::{LaneBody, LanesBody, QueuePolicyBody};
use codeq_queue::StoredPolicy;
use codeq_queue::policy::LaneStats;

pub async fn put(mut call: Call, admin: Admin) -> Result<Response, Error> {
    let policy: serde_json::Value = parse(&call.read().await?)?;
    let (tenant, command) = (one_tenant(&call, &admin)?, call.param("command"));
    let stored = call.broker()?.put_policy(&tenant, &command, &policy).await?;
    shown(&command, &stored, &call.app.stamp)
}

pub async fn get(call: Call, admin: Admin) -> Result<Response, Error> {
    let (tenant, command) = (one_tenant(&call, &admin)?, call.param("command"));
    let stored = call.broker()?.policy(&tenant, &command).await?;
    shown(&command, &stored, &call.app.stamp)
}

pub async fn delete(call: Call, admin: Admin) -> Result<Response, Error> {
    let tenant = one_tenant(&call, &admin)?;
    call.broker()?.delete_policy(&tenant, &call.param("command")).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn shown(command: &str, stored: &StoredPolicy, stamp: &WireTime) -> Result<Response, Error> {
    let policy = serde_json::from_str(&stored.text).unwrap_or_default();
    Ok(reply::ok(&QueuePolicyBody {
        command: command.to_owned(),
        policy,
        version: stored.version,
        updated_at: stamp.text(stored.updated_at),
    }))
}

pub async fn lanes(call: Call, admin: Admin) -> Result<Response, Error> {
    let (tenant, command) = (one_tenant(&call, &admin)?, call.param("command"));
    let limit = limit(call.query("limit").as_deref());
    let found = call.broker()?.lanes(&tenant, &command, limit).await?;
    let items = found.iter().map(|lane| lane_body(lane, &call.app.stamp)).collect();
    Ok(reply::ok(&LanesBody { items }))
}

fn lane_body(lane: &LaneStats, stamp: &WireTime) -> LaneBody {
    let until = lane.blocked_by.as_ref().and_then(|obstacle| obstacle.until());
    LaneBody {
        lane: lane.lane.to_string(),
        ready: lane.ready,
        running: lane.running,
        weight: lane.weight,
        blocked_by: lane.blocked_by.as_ref().map(|obstacle| obstacle.code().to_owned()),
        until: until.map(|at| stamp.text(at)),
    }
}
