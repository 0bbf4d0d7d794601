//! What has to hold while somebody attacks, and whether it did.

use super::super::report::Row;

/// The honest tenant may become slower by this factor ...
const SLOWER: f64 = 3.0;
/// ... or by what the scheduling of one machine for server, attackers and measure adds.
const SCHEDULING_US: u64 = 5000;
/// Memory of the server under a hostile tenant, and under strangers.
pub const TENANT_MB: f64 = 1000.0;
pub const STRANGERS_MB: f64 = 500.0;

/// What the honest tenant saw when it was alone.
#[derive(Clone, Copy)]
pub struct Alone {
    pub p99_us: u64,
}

impl Alone {
    /// The row of an attack, judged.
    pub fn judge(self, row: Row, most_mb: f64) -> Row {
        let ratio = row.p99_us as f64 / self.p99_us.max(1) as f64;
        let ratio = (ratio * 100.0).round() / 100.0;
        let mut faults = Vec::new();
        if ratio > SLOWER && row.p99_us > SCHEDULING_US {
            faults.push(format!("p99 is {ratio} times that of alone, {SLOWER} at most"));
        }
        match row.refused {
            Some(0) => {}
            failed => faults.push(format!("{} answers were wrong", failed.unwrap_or_default())),
        }
        if row.in_flight > 0 && row.per_second == 0.0 {
            faults.push("nothing was answered".to_owned());
        }
        if row.rss_mb > most_mb {
            faults.push(format!("{} MB of memory, {most_mb} at most", row.rss_mb));
        }
        let verdict = match faults.is_empty() {
            true => "held".to_owned(),
            false => format!("not held: {}", faults.join("; ")),
        };
        Row { ratio: Some(ratio), verdict: Some(verdict), ..row }
    }

    /// Whether a second after the attack is as quick as before.
    pub fn is_back(self, second: &Row) -> bool {
        second.p99_us <= (self.p99_us * 2).max(SCHEDULING_US) && second.refused == Some(0)
    }
}

/// What did not hold, one line each.
pub fn faults(rows: &[Row]) -> Vec<String> {
    let verdicts = rows.iter().filter_map(|row| Some((&row.name, row.verdict.as_ref()?)));
    let broken = verdicts.filter(|(_, verdict)| verdict.starts_with("not "));
    broken.map(|(name, verdict)| format!("{name}: {verdict}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(p99_us: u64, failed: u64, rss_mb: f64) -> Row {
        let name = "hostile tenant".to_owned();
        Row { name, in_flight: 4, per_second: 300.0, p99_us, refused: Some(failed), rss_mb, ..Row::default() }
    }

    fn verdict(row: Row) -> String {
        Alone { p99_us: 2000 }.judge(row, TENANT_MB).verdict.expect("a verdict")
    }

    /// Memory was printed and never judged, and whatever came of it the command succeeded.
    #[test]
    fn an_attack_is_judged_by_latency_answers_and_memory() {
        assert_eq!(verdict(row(6000, 0, 1000.0)), "held");
        assert_eq!(verdict(row(6020, 0, 10.0)), "not held: p99 is 3.01 times that of alone, 3 at most");
        assert_eq!(
            verdict(row(100, 2, 1001.0)),
            "not held: 2 answers were wrong; 1001 MB of memory, 1000 at most"
        );
        assert_eq!(verdict(Row { per_second: 0.0, ..row(0, 0, 1.0) }), "not held: nothing was answered");
        let quick = Alone { p99_us: 500 }.judge(row(4999, 0, 1.0), STRANGERS_MB);
        assert_eq!(
            (quick.verdict.as_deref(), quick.ratio),
            (Some("held"), Some(10.0)),
            "the ratio is told all the same"
        );
    }

    #[test]
    fn whatever_did_not_hold_is_named() {
        let alone = Alone { p99_us: 2000 };
        let verdict = Some("not recovered after 10 s".to_owned());
        let late = Row { name: "after".into(), verdict, ..Row::default() };
        let rows = [row(1, 0, 1.0), alone.judge(row(1, 0, 1.0), 9.0), alone.judge(row(1, 0, 9.1), 9.0), late];
        assert_eq!(
            faults(&rows),
            ["hostile tenant: not held: 9.1 MB of memory, 9 at most", "after: not recovered after 10 s"]
        );
        assert!(alone.is_back(&row(5000, 0, 1.0)) && !alone.is_back(&row(5001, 0, 1.0)));
        assert!(!alone.is_back(&row(1, 1, 1.0)));
    }
}
