//! Moving the clock of a server under test.

use super::call::{Call, parse};
use super::error::Error;
use super::reply;
use crate::auth::Admin;
use crate::stamp;
use axum::response::Response;
use codeq_queue::{Refusal, Time};
use codeq_store::Clock;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How far one call may move it: ten years.
const FARTHEST: Duration = Duration::from_secs(10 * 366 * 86_400);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClockBody {
    advance_seconds: Option<f64>,
    to: Option<String>,
}

#[derive(Serialize)]
struct ClockAnswer {
    now: String,
}

/// Answers when everything that fell due on the way has happened.
pub async fn advance(mut call: Call, _: Admin) -> Result<Response, Error> {
    let body: ClockBody = parse(&call.read().await?)?;
    let clock = call.app.test_clock.clone().ok_or_else(Error::route_not_found)?;
    let to = target(&body, clock.now())?;
    call.broker()?.advance(&clock, to).await?;
    Ok(reply::ok(&ClockAnswer { now: call.app.stamp.text(clock.now()) }))
}

fn target(body: &ClockBody, now: Time) -> Result<Time, Refusal> {
    let to = match (body.advance_seconds, &body.to) {
        (Some(seconds), None) if seconds >= 0.0 && seconds <= FARTHEST.as_secs_f64() => {
            now.plus(Duration::from_secs_f64(seconds))
        }
        (Some(_), None) => return Err(Refusal::InvalidClock("advanceSeconds is zero to ten years")),
        (None, Some(text)) => stamp::parse(text).ok_or(Refusal::InvalidClock("to is not RFC3339"))?,
        _ => return Err(Refusal::InvalidClock("give advanceSeconds or to")),
    };
    match to {
        to if to < now => Err(Refusal::InvalidClock("it does not go back")),
        to if to.since(now) > FARTHEST => Err(Refusal::InvalidClock("at most ten years at once")),
        to => Ok(to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_forward_only_and_not_too_far() {
        let now = Time::from_millis(1_800_000_000_000);
        let by = |seconds: f64| target(&ClockBody { advance_seconds: Some(seconds), to: None }, now);
        assert_eq!(by(0.0), Ok(now));
        assert_eq!(by(1.5), Ok(now.plus(Duration::from_millis(1500))));
        for bad in [-1.0, f64::NAN, f64::INFINITY, 1e12] {
            assert!(by(bad).is_err(), "{bad}");
        }
        let to = |text: &str| target(&ClockBody { advance_seconds: None, to: Some(text.into()) }, now);
        assert_eq!(to(&now.to_utc()), Ok(now));
        for bad in ["", "tomorrow", "2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z"] {
            assert!(to(bad).is_err(), "{bad}");
        }
        assert!(target(&ClockBody { advance_seconds: None, to: None }, now).is_err());
    }
}
