//! Whether a token that is genuine is also meant for us, and for now.

use super::shown;
use crate::auth::denied::Denied;
use codeq_queue::Time;
use serde_json::{Map, Value};
use std::time::Duration;

/// What a token must say.
pub struct Expected {
    pub issuer: String,
    pub audience: String,
    pub leeway: Duration,
}

#[derive(Debug)]
pub struct Lifetime {
    /// `exp`, Unix seconds.
    pub expires_at: i64,
    /// `exp` plus leeway.
    pub ends_at: Time,
}

type Claims = Map<String, Value>;

/// Issuer, then audience, then the dates.
pub fn check(claims: &Claims, expected: &Expected, now: Time) -> Result<Lifetime, Denied> {
    let issuer = claims.get("iss").and_then(Value::as_str).unwrap_or_default();
    if issuer != expected.issuer {
        return Err(Denied::InvalidToken(format!("invalid issuer: {}", shown(issuer))));
    }
    let audience = audience(claims);
    if !audience.contains(&expected.audience.as_str()) {
        return Err(Denied::InvalidToken(format!("invalid audience: [{}]", shown(&audience.join(" ")))));
    }
    check_dates(claims, expected.leeway.as_secs_f64() * 1000.0, now)
}

fn audience(claims: &Claims) -> Vec<&str> {
    match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Milliseconds as floats are exact far beyond any date of ours, and a date may have a fraction.
fn check_dates(claims: &Claims, leeway_ms: f64, now: Time) -> Result<Lifetime, Denied> {
    let now_ms = now.millis() as f64;
    let expires_ms = date_ms(claims, "exp")?.ok_or_else(|| invalid("exp is required"))?;
    let ends_ms = expires_ms + leeway_ms;
    if now_ms >= ends_ms {
        return Err(invalid("token is expired"));
    }
    let is_ahead = |date: f64| now_ms < date - leeway_ms;
    if date_ms(claims, "nbf")?.is_some_and(is_ahead) {
        return Err(invalid("token is not valid yet"));
    }
    if date_ms(claims, "iat")?.is_some_and(is_ahead) {
        return Err(invalid("token used before issued"));
    }
    let expires_at = (expires_ms / 1000.0).floor() as i64;
    Ok(Lifetime { expires_at, ends_at: Time::from_millis(ends_ms as i64) })
}

fn date_ms(claims: &Claims, name: &str) -> Result<Option<f64>, Denied> {
    match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_f64().map(|date| Some(date * 1000.0)).ok_or_else(Denied::malformed),
    }
}

fn invalid(reason: &str) -> Denied {
    Denied::InvalidToken(format!("token has invalid claims: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: Time = Time::from_millis(1_000_000_000);

    fn outcome(changes: Value) -> String {
        let mut claims = json!({"iss": "https://id", "aud": "codeq", "exp": 1_000_100});
        for (name, value) in changes.as_object().expect("an object") {
            claims[name] = value.clone();
        }
        let claims = claims.as_object().expect("an object");
        let (issuer, audience) = ("https://id".to_owned(), "codeq".to_owned());
        let expected = Expected { issuer, audience, leeway: Duration::from_secs(60) };
        match check(claims, &expected, NOW) {
            Ok(lifetime) => format!("ends {}", lifetime.ends_at.millis()),
            Err(denied) => denied.to_string(),
        }
    }

    #[test]
    fn the_issuer_must_be_equal() {
        assert_eq!(outcome(json!({"iss": "https://id/"})), "invalid issuer: https://id/");
        assert_eq!(outcome(json!({"iss": null})), "invalid issuer: ");
        assert_eq!(outcome(json!({"iss": ["https://id"]})), "invalid issuer: ");
    }

    #[test]
    fn the_audience_must_be_among_them() {
        assert_eq!(outcome(json!({"aud": ["x", "codeq"]})), "ends 1000160000");
        assert_eq!(outcome(json!({"aud": ["x", "y"]})), "invalid audience: [x y]");
        assert_eq!(outcome(json!({"aud": "x"})), "invalid audience: [x]");
        assert_eq!(outcome(json!({"aud": null})), "invalid audience: []");
        assert_eq!(outcome(json!({"aud": [1, {}]})), "invalid audience: []");
    }

    #[test]
    fn the_dates_have_leeway_to_the_millisecond() {
        let expired = "token has invalid claims: token is expired";
        let early = "token has invalid claims: token is not valid yet";
        let unissued = "token has invalid claims: token used before issued";
        let table = [
            (json!({"exp": 999_940}), expired),
            (json!({"exp": 999_940.001}), "ends 1000000001"),
            (json!({"exp": 999_941}), "ends 1000001000"),
            (json!({"exp": -5}), expired),
            (json!({"nbf": 1_000_060}), "ends 1000160000"),
            (json!({"nbf": 1_000_061}), early),
            (json!({"iat": 1_000_060.0}), "ends 1000160000"),
            (json!({"iat": 1_000_060.001}), unissued),
            (json!({"exp": null}), "token has invalid claims: exp is required"),
            (json!({"exp": "1000100"}), "token is malformed"),
            (json!({"nbf": {}}), "token is malformed"),
            (json!({"exp": 1e300}), "ends 9223372036854775807"),
        ];
        for (changes, expected) in table {
            assert_eq!(outcome(changes.clone()), expected, "{changes}");
        }
    }

    #[test]
    fn the_first_thing_wrong_is_told() {
        let all_wrong = json!({"iss": "a", "aud": "b", "exp": 1, "nbf": 9_000_000, "iat": 9_000_000});
        assert_eq!(outcome(all_wrong.clone()), "invalid issuer: a");
        let mut rest = all_wrong;
        rest["iss"] = json!("https://id");
        assert_eq!(outcome(rest.clone()), "invalid audience: [b]");
        rest["aud"] = json!("codeq");
        assert_eq!(outcome(rest), "token has invalid claims: token is expired");
    }

    #[test]
    fn echoed_values_are_short_and_on_one_line() {
        let text = outcome(json!({"iss": format!("a\r\n\u{0}b{}", "é".repeat(500))}));
        assert_eq!(text, format!("invalid issuer: ab{}", "é".repeat(198)));
    }
}
