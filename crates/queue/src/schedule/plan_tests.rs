use super::*;

fn plan(cron: &str, zone: &str) -> Plan {
    let rhythm = Rhythm::Cron(Cron::parse(cron).unwrap());
    Plan { rhythm, zone: Zone::parse(zone).unwrap(), start_at: None, end_at: None }
}

fn at(text: &str) -> Time {
    Time::from_millis(text.parse::<Timestamp>().unwrap().as_millisecond())
}

/// All ticks in [from, to).
fn ticks(plan: &Plan, from: &str, to: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut tick = plan.next(Time::from_millis(at(from).millis() - 1));
    while let Some(next) = tick.filter(|next| *next < at(to)) {
        found.push(next.to_utc());
        tick = plan.next(next);
    }
    found
}

/// `30 2 * * *` over both changes, written down by hand from the laws of the places: day by day, in UTC.
#[test]
fn half_past_two_over_the_changes_of_four_zones() {
    for (zone, from, to, expected) in [
        // Spring: 02:00 CET becomes 03:00 CEST at 01:00Z. 02:30 is skipped and ticks when the gap ends.
        (
            "Europe/Berlin",
            "2026-03-28T00:00:00Z",
            "2026-03-31T00:00:00Z",
            &["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"][..],
        ),
        // Autumn: 03:00 CEST becomes 02:00 CET at 01:00Z. 02:30 comes twice and ticks the first time.
        (
            "Europe/Berlin",
            "2026-10-24T00:00:00Z",
            "2026-10-27T00:00:00Z",
            &["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        ),
        // Spring: 02:00 EST becomes 03:00 EDT at 07:00Z.
        (
            "America/New_York",
            "2026-03-07T00:00:00Z",
            "2026-03-10T00:00:00Z",
            &["2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"],
        ),
        // Autumn: 02:00 EDT becomes 01:00 EST at 06:00Z. 02:30 comes once, in EST.
        (
            "America/New_York",
            "2026-10-31T00:00:00Z",
            "2026-11-03T00:00:00Z",
            &["2026-10-31T06:30:00Z", "2026-11-01T07:30:00Z", "2026-11-02T07:30:00Z"],
        ),
        // Half an hour only. Spring: 02:00 (+10:30) becomes 02:30 (+11) at 15:30Z. 02:30 is the end of the gap.
        (
            "Australia/Lord_Howe",
            "2026-10-02T12:00:00Z",
            "2026-10-05T12:00:00Z",
            &["2026-10-02T16:00:00Z", "2026-10-03T15:30:00Z", "2026-10-04T15:30:00Z"],
        ),
        // Autumn: 02:00 (+11) becomes 01:30 (+10:30) at 15:00Z. 02:30 comes once.
        (
            "Australia/Lord_Howe",
            "2026-04-03T12:00:00Z",
            "2026-04-06T12:00:00Z",
            &["2026-04-03T15:30:00Z", "2026-04-04T16:00:00Z", "2026-04-05T16:00:00Z"],
        ),
        // Turkey, spring 2016: 03:00 (+2) becomes 04:00 (+3) at 01:00Z. 02:30 is not touched.
        (
            "Europe/Istanbul",
            "2016-03-26T00:00:00Z",
            "2016-03-29T00:00:00Z",
            &["2016-03-26T00:30:00Z", "2016-03-27T00:30:00Z", "2016-03-27T23:30:00Z", "2016-03-28T23:30:00Z"],
        ),
        // Autumn 2016: the change back was abolished; autumn 2015: 04:00 (+3) becomes 03:00 (+2) on 8 November.
        (
            "Europe/Istanbul",
            "2016-10-29T00:00:00Z",
            "2016-11-01T00:00:00Z",
            &["2016-10-29T23:30:00Z", "2016-10-30T23:30:00Z", "2016-10-31T23:30:00Z"],
        ),
        (
            "Europe/Istanbul",
            "2015-11-07T00:00:00Z",
            "2015-11-10T00:00:00Z",
            &["2015-11-07T23:30:00Z", "2015-11-09T00:30:00Z"],
        ),
    ] {
        assert_eq!(ticks(&plan("30 2 * * *", zone), from, to), expected, "{zone} from {from}");
    }
}

/// Half past three in Turkey, where the gap of 2016 swallowed it and the repeated hour of 2015 had it twice.
#[test]
fn half_past_three_in_a_zone_that_changed_its_rules() {
    let plan = plan("30 3 * * *", "Europe/Istanbul");
    assert_eq!(
        ticks(&plan, "2016-03-26T12:00:00Z", "2016-03-28T12:00:00Z"),
        ["2016-03-27T01:00:00Z", "2016-03-28T00:30:00Z"]
    );
    assert_eq!(
        ticks(&plan, "2015-11-07T12:00:00Z", "2015-11-09T12:00:00Z"),
        ["2015-11-08T00:30:00Z", "2015-11-09T01:30:00Z"]
    );
}

/// Every ten minutes goes by elapsed time: what comes between two full hours of UTC is the same all year.
#[test]
fn every_ten_minutes_over_the_changes_of_four_zones() {
    for (zone, from, to) in [
        ("Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T03:00:00Z"),
        ("Europe/Berlin", "2026-10-24T23:00:00Z", "2026-10-25T03:00:00Z"),
        ("America/New_York", "2026-03-08T05:00:00Z", "2026-03-08T09:00:00Z"),
        ("America/New_York", "2026-11-01T04:00:00Z", "2026-11-01T09:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T14:00:00Z", "2026-10-03T18:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T13:00:00Z", "2026-04-04T17:00:00Z"),
        ("Europe/Istanbul", "2016-03-27T00:00:00Z", "2016-03-27T03:00:00Z"),
        ("Europe/Istanbul", "2015-11-07T23:00:00Z", "2015-11-08T03:00:00Z"),
    ] {
        let mut expected = Vec::new();
        let mut tick = at(from);
        while tick < at(to) {
            expected.push(tick.to_utc());
            tick = tick.plus_seconds(600);
        }
        for cron in ["*/10 * * * *", "*/10 */1 * * *"] {
            assert_eq!(ticks(&plan(cron, zone), from, to), expected, "{zone} from {from}");
        }
    }
}

/// The same ten minutes of two local hours, named: the gap gives one tick at its end, the repeated hour counts once.
#[test]
fn every_ten_minutes_of_named_hours_over_a_gap_and_a_fold() {
    let plan = plan("*/10 2-3 * * *", "Europe/Berlin");
    let spring = ticks(&plan, "2026-03-29T00:00:00Z", "2026-03-29T03:00:00Z");
    let minutes = |hour: u32| (0..60).step_by(10).map(move |m| format!("{hour:02}:{m:02}"));
    let on = |day: &str, times: &mut dyn Iterator<Item = String>| -> Vec<String> {
        times.map(|time| format!("{day}T{time}:00Z")).collect()
    };
    // All of 02:xx at 01:00Z together with 03:00, then 03:10 to 03:50.
    assert_eq!(spring, on("2026-03-29", &mut minutes(1)));
    let autumn = ticks(&plan, "2026-10-25T00:00:00Z", "2026-10-25T04:00:00Z");
    // 02:xx in summer time, nothing while it repeats, then 03:xx.
    assert_eq!(autumn, on("2026-10-25", &mut minutes(0).chain(minutes(2))));
}

#[test]
fn every_second_hour_over_the_changes() {
    let plan = plan("0 */2 * * *", "Europe/Berlin");
    // 00:00 CET, the gap hides 02:00, 04:00 CEST.
    assert_eq!(
        ticks(&plan, "2026-03-28T23:00:00Z", "2026-03-29T03:00:00Z"),
        ["2026-03-28T23:00:00Z", "2026-03-29T02:00:00Z"]
    );
    // 02:00 CEST, 02:00 CET.
    assert_eq!(
        ticks(&plan, "2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z"),
        ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"]
    );
}

/// Samoa had no 30 December 2011.
#[test]
fn a_day_that_a_zone_skipped_ticks_once_at_its_end() {
    let plan = plan("0 9,18 * * *", "Pacific/Apia");
    assert_eq!(
        ticks(&plan, "2011-12-29T12:00:00Z", "2011-12-31T12:00:00Z"),
        [
            "2011-12-29T19:00:00Z",
            "2011-12-30T04:00:00Z",
            "2011-12-30T10:00:00Z",
            "2011-12-30T19:00:00Z",
            "2011-12-31T04:00:00Z"
        ]
    );
}

#[test]
fn seconds_in_the_second_pass_of_a_repeated_hour_have_had_their_tick() {
    let plan = plan("* * 2 * * *", "Europe/Berlin");
    assert_eq!(plan.next(at("2026-10-25T01:10:00Z")), Some(at("2026-10-26T01:00:00Z")));
    assert_eq!(plan.next(at("2026-10-25T00:59:59.5Z")), Some(at("2026-10-26T01:00:00Z")));
}

#[test]
fn intervals_count_elapsed_time_from_their_anchor() {
    let every = |seconds, anchor: &str| Plan {
        rhythm: Rhythm::Every { seconds, anchor: at(anchor) },
        zone: Zone::parse("Europe/Berlin").unwrap(),
        start_at: None,
        end_at: None,
    };
    let daily = every(86_400, "2026-03-28T01:30:00Z");
    assert_eq!(
        ticks(&daily, "2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z"),
        ["2026-03-28T01:30:00Z", "2026-03-29T01:30:00Z", "2026-03-30T01:30:00Z"]
    );
    assert_eq!(daily.next(at("2020-01-01T00:00:00Z")), Some(at("2020-01-01T01:30:00Z")));
    let epoch = every(90, "1970-01-01T00:00:00Z");
    assert_eq!(epoch.next(Time::from_millis(0)), Some(Time::from_millis(90_000)));
    assert_eq!(epoch.next(Time::from_millis(-1)), Some(Time::ZERO));
    assert_eq!(epoch.next(Time::from_millis(89_999)), Some(Time::from_millis(90_000)));
    assert_eq!(every(1, "1970-01-01T00:00:00Z").next(Time::MAX), None);
}

#[test]
fn ticks_lie_between_the_bounds() {
    let mut plan = plan("0 * * * *", "UTC");
    plan.start_at = Some(at("2026-01-01T10:00:00Z"));
    plan.end_at = Some(at("2026-01-01T12:00:00Z"));
    assert_eq!(
        ticks(&plan, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ["2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"]
    );
    assert_eq!(plan.next(at("2026-01-01T11:00:00Z")), None);
}

#[test]
fn passing_over_ticks_counts_each_of_them() {
    let hourly = plan("0 * * * *", "UTC");
    let (tick, until) = (at("2026-01-01T10:00:00Z"), at("2026-01-01T13:00:00Z"));
    let passed = hourly.pass(tick, until, 1000);
    assert_eq!((passed.count, passed.last), (3, at("2026-01-01T12:00:00Z")));
    assert_eq!(passed.next, Some(until));
    assert_eq!(hourly.pass(tick, until, 2).next, Some(at("2026-01-01T12:00:00Z")));
    assert_eq!(hourly.pass(tick, tick, 2).count, 1);
    let rhythm = Rhythm::Every { seconds: 1, anchor: Time::ZERO };
    let every = Plan { rhythm, ..hourly };
    let passed = every.pass(tick, until, 1);
    assert_eq!((passed.count, passed.last), (10_800, at("2026-01-01T12:59:59Z")));
    assert_eq!(passed.next, Some(until));
    let ended = Plan { end_at: Some(at("2026-01-01T10:00:05Z")), ..every };
    let passed = ended.pass(tick, until, 1);
    assert_eq!((passed.count, passed.next), (5, None));
}

#[test]
fn zones_are_those_of_the_database() {
    assert_eq!(Zone::parse("europe/berlin").unwrap().name(), "Europe/Berlin");
    assert_eq!(Zone::parse("UTC").unwrap().name(), "UTC");
    for unknown in ["", "Mars/Olympus", "CEST-2", "+02:00", "local"] {
        assert_eq!(Zone::parse(unknown), None, "{unknown}");
    }
}
