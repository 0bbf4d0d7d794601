//! Subscriptions of workers.

use super::call::{Call, parse};
use super::error::Error;
use super::reply;
use crate::auth::Worker;
use crate::broker::SubscribeRequest;
use axum::response::Response;
use codeq_api::json;
use codeq_api::subscription::{RenewBody, SubscribeBody, Subscribed};
use codeq_queue::TaskId;
use codeq_queue::subscription::Subscription;

pub async fn subscribe(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let body: SubscribeBody = parse(&call.read().await?)?;
    let request = SubscribeRequest {
        callback_url: body.callback_url.unwrap_or_default(),
        event_types: body.event_types,
        delivery_mode: body.delivery_mode,
        group_id: body.group_id,
        ttl_seconds: body.ttl_seconds.unwrap_or(0),
        min_interval_seconds: body.min_interval_seconds,
    };
    let subscription = call.broker()?.subscribe(&worker.0, request).await?;
    Ok(reply::ok(&subscribed(&call, &subscription)))
}

/// A malformed body is read as none: a renewal must not fail for it.
pub async fn renew(mut call: Call, worker: Worker) -> Result<Response, Error> {
    let body: RenewBody = json::read_or_empty(&call.read().await?).unwrap_or_default();
    let ttl = body.ttl_seconds.unwrap_or(0);
    let renewed = call.broker()?.renew(worker.0.tenant.clone(), &call.param("id"), ttl).await?;
    Ok(reply::ok(&subscribed(&call, &renewed)))
}

fn subscribed(call: &Call, subscription: &Subscription) -> Subscribed {
    Subscribed {
        subscription_id: TaskId::from_bytes(subscription.id.to_be_bytes()).to_string(),
        expires_at: call.app.stamp.text(subscription.expires_at),
    }
}
