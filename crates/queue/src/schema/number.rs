//! JSON values compared as JSON Schema has it: 1 equals 1.0, and the order of properties does not matter.

use serde_json::{Number, Value};
use std::cmp::Ordering;

pub(super) fn is_whole(number: &Number) -> bool {
    whole(number).is_some() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

pub(super) fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    let float = |number: &Number| number.as_f64().unwrap_or_default();
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => compare_mixed(a, float(b)),
        (None, Some(b)) => compare_mixed(b, float(a)).reverse(),
        (None, None) => float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal),
    }
}

/// Exact, so that sorting has one order.
fn compare_mixed(whole: i128, float: f64) -> Ordering {
    // Whole numbers have at most 64 bits; `as` cuts what is beyond 128.
    match whole.cmp(&(float.floor() as i128)) {
        Ordering::Equal if float.fract() != 0.0 => Ordering::Less,
        order => order,
    }
}

/// Exact on the decimal digits that were written.
pub(super) fn is_multiple(number: &Number, of: &Number) -> bool {
    let (Some((number, exponent)), Some((of, of_exponent))) = (decimal(number), decimal(of)) else {
        return false;
    };
    if number == 0 || of == 0 {
        return number == 0;
    }
    if exponent >= of_exponent {
        let mut rest = number % of;
        for _ in of_exponent..exponent {
            rest = rest * 10 % of;
        }
        return rest == 0;
    }
    let scale = u32::try_from(of_exponent - exponent).ok().and_then(|power| 10_i128.checked_pow(power));
    // A number has at most 20 digits: it is no multiple of what has more.
    scale.and_then(|scale| of.checked_mul(scale)).is_some_and(|of| number % of == 0)
}

/// Digits and the power of ten they are multiplied with.
fn decimal(number: &Number) -> Option<(i128, i32)> {
    let text = number.to_string();
    let (digits, power) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let (before, after) = digits.split_once('.').unwrap_or((digits, ""));
    let exponent = power.parse::<i32>().ok()? - i32::try_from(after.len()).ok()?;
    Some((format!("{before}{after}").parse().ok()?, exponent))
}

pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let differ = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
            a.len().cmp(&b.len()).then(differ.unwrap_or(Ordering::Equal))
        }
        (Value::Object(a), Value::Object(b)) => {
            let (mut left, mut right): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
            left.sort_unstable_by_key(|(name, _)| *name);
            right.sort_unstable_by_key(|(name, _)| *name);
            let pairs = left.iter().zip(&right);
            let differ = pairs
                .map(|((name, a), (other, b))| name.cmp(other).then_with(|| compare(a, b)))
                .find(|order| order.is_ne());
            a.len().cmp(&b.len()).then(differ.unwrap_or(Ordering::Equal))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

/// Steps of looking at all of a value.
pub(super) fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => 1 + text.len() / 64,
        Value::Array(items) => 1 + items.iter().map(weight).sum::<usize>(),
        Value::Object(items) => {
            1 + items.iter().map(|(name, value)| 1 + name.len() / 64 + weight(value)).sum::<usize>()
        }
    }
}
