//! Durations as configuration writes them: `"60s"`, `"500ms"`, `"1m30s"`, or whole nanoseconds.

use serde_json::Value;
use std::time::Duration;

/// None if the value is no duration, or a negative one.
pub fn read(value: &Value) -> Option<Duration> {
    match value {
        Value::Number(nanos) => nanos.as_u64().map(Duration::from_nanos),
        Value::String(text) => parse(text.trim()),
        _ => None,
    }
}

fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut total) = (text, None);
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, after) = split(after, |c| !c.is_ascii_digit() && c != '.');
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds(unit)?).ok()?;
        total = Some(total.unwrap_or(Duration::ZERO).checked_add(part)?);
        rest = after;
    }
    total
}

fn split(text: &str, is_first: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !is_first(c)).unwrap_or(text.len()))
}

fn seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "h" => 3600.0,
        "m" => 60.0,
        "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn durations_are_nanoseconds_or_text() {
        let table = [
            (json!(1_500_000_000_u64), 1500),
            (json!(0), 0),
            (json!("0"), 0),
            (json!("60s"), 60_000),
            (json!("500ms"), 500),
            (json!("1m"), 60_000),
            (json!("1m30s"), 90_000),
            (json!(" 1.5s "), 1500),
            (json!("1h"), 3_600_000),
            (json!("2000us"), 2),
        ];
        for (value, millis) in table {
            assert_eq!(read(&value), Some(Duration::from_millis(millis)), "{value}");
        }
    }

    #[test]
    fn other_values_are_none() {
        let bad = ["", "60", "s", "-5s", "5 s", "5x", "1m30", "1..5s", "1e3s", "∞s", "99999999999999999999h"];
        for value in
            bad.map(|text| json!(text)).into_iter().chain([json!(-1), json!(1.5), json!(null), json!([])])
        {
            assert_eq!(read(&value), None, "{value}");
        }
    }
}
