//! Can the certificate be used, and for how long?

use super::report::Report;
use codeq_server::config::Config;
use codeq_server::tls::{Tls, Validity};
use jiff::{SignedDuration, Timestamp};

/// Less is worth a warning: certificates of 90 days are usually renewed 30 days before their end.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);

pub fn check(report: &mut Report, config: &Config) {
    let Some(files) = &config.tls else { return };
    match Tls::open(files) {
        Ok(tls) => validity(report, tls.validity(), Timestamp::now()),
        Err(text) => report.error("tls", text, "correct tls.certFile, tls.keyFile or tls.clientCaFile"),
    }
}

fn validity(report: &mut Report, validity: Validity, now: Timestamp) {
    let Validity { not_before, not_after } = validity;
    let left = not_after.duration_since(now);
    if now < not_before {
        let next = "wait, set the clock of this machine, or use another certificate";
        report.error("tls", format!("the certificate is good only from {not_before}"), next);
    } else if left.is_negative() {
        report.error("tls", format!("the certificate expired on {not_after}"), "renew it");
    } else if left < SOON {
        let days = left.as_hours() / 24;
        report.warn("tls", format!("the certificate expires in {days} days, on {not_after}"), "renew it");
    } else {
        report.ok("tls", format!("the certificate is good until {not_after}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_judged_by_its_times() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let good = Validity { not_before: at("2026-01-01T00:00:00Z"), not_after: at("2026-04-01T00:00:00Z") };
        let told = |now: &str| {
            let mut report = Report::default();
            validity(&mut report, good, at(now));
            report.json()["checks"][0]["status"].clone()
        };
        assert_eq!(told("2025-12-31T23:59:59Z"), "error");
        assert_eq!(told("2026-01-01T00:00:00Z"), "ok");
        assert_eq!(told("2026-03-20T00:00:00Z"), "warn");
        assert_eq!(told("2026-04-01T00:00:01Z"), "error");
    }
}
