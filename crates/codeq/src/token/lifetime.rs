//! How long a token is good: `90s`, `15m`, `12h`, `30d`.

use anyhow::{Context, bail};

/// Whole seconds, at least one and at most ten years.
pub fn read(text: &str) -> anyhow::Result<u64> {
    let wrong = || format!("{text:?} is not a duration (use 90s, 15m, 12h or 30d)");
    let text = text.trim();
    let unit = text.chars().next_back().with_context(wrong)?;
    let factor = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => bail!(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().with_context(wrong)?;
    let seconds = number.saturating_mul(factor);
    if !(1..=315_360_000).contains(&seconds) {
        bail!("{text:?} is not between a second and ten years");
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_have_a_unit_and_a_bound() {
        assert_eq!(
            ["90s", "15m", "12h", "30d"].map(|text| read(text).unwrap()),
            [90, 900, 43_200, 2_592_000]
        );
        for text in ["", "5", "0s", "-1s", "1.5h", "5ä", "4000d"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
