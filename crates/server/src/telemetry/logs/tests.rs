use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use tracing::subscriber::with_default;
use tracing::{debug, error, info, info_span, warn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;

use super::{Format, Level, LogOptions, layer_at};

/// Remembers each write call.
#[derive(Clone, Default)]
struct Writes(Arc<Mutex<Vec<String>>>);

impl Write for Writes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8(bytes.to_vec()).expect("lines are UTF-8");
        self.0.lock().expect("no test panics while writing").push(text);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn noon() -> Timestamp {
    "2026-03-01T12:00:00.123456Z".parse().expect("a time")
}

fn written(level: Level, format: Format, work: impl FnOnce()) -> Vec<String> {
    let writes = Writes::default();
    let options = LogOptions { level, format, env: "prod".into(), to_stderr: false };
    with_default(Registry::default().with(layer_at(options, writes.clone(), noon)), work);
    let lines = writes.0.lock().expect("no test panics while writing");
    lines.clone()
}

#[test]
fn json_has_the_fixed_fields_first_and_then_its_own_in_order() {
    let lines = written(Level::Info, Format::Json, || {
        warn!(taskId = "t-1", attempts = 3, ok = true, ratio = 0.5, "task dead-lettered");
    });
    let expected = concat!(
        r#"{"time":"2026-03-01T12:00:00.123Z","level":"warn","msg":"task dead-lettered","service":"codeq","#,
        r#""env":"prod","taskId":"t-1","attempts":3,"ok":true,"ratio":0.5}"#,
        "\n"
    );
    assert_eq!(lines, [expected]);
}

#[test]
fn text_reads_as_a_sentence() {
    let lines = written(Level::Info, Format::Text, || info!(addr = "127.0.0.1:8080", "listening"));
    assert_eq!(
        lines,
        ["2026-03-01T12:00:00.123Z INFO listening addr=127.0.0.1:8080 service=codeq env=prod\n"]
    );
}

#[test]
fn events_carry_the_fields_of_their_spans_and_the_nearest_wins() {
    let lines = written(Level::Error, Format::Json, || {
        let request =
            info_span!("request", requestId = "r-1", tenantId = tracing::field::Empty, op = "outer");
        let _in_request = request.enter();
        request.record("tenantId", "acme");
        let step = tracing::debug_span!("step", op = "inner");
        let _in_step = step.enter();
        error!(err = "disk", "storage error");
    });
    assert!(
        lines[0]
            .ends_with("\"err\":\"disk\",\"op\":\"inner\",\"requestId\":\"r-1\",\"tenantId\":\"acme\"}\n")
    );
}

#[test]
fn the_level_filters_our_crates_and_others_speak_from_warn_on() {
    let speak = || {
        debug!("ours debug");
        info!("ours info");
        warn!("ours warn");
        info!(target: "hyper", "other info");
        warn!(target: "hyper", "other warn");
        tracing::trace!("ours trace");
    };
    for (level, expected) in [
        (Level::Debug, &["ours debug", "ours info", "ours warn", "other warn"][..]),
        (Level::Info, &["ours info", "ours warn", "other warn"]),
        (Level::Warn, &["ours warn", "other warn"]),
        (Level::Error, &["other warn"]),
    ] {
        let messages: Vec<String> = written(level, Format::Json, speak)
            .iter()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a line is JSON"))
            .map(|line| line["msg"].as_str().expect("a message").to_string())
            .collect();
        assert_eq!(messages, expected, "{level:?}");
    }
}

#[test]
fn no_value_can_forge_a_line() {
    let forge = || {
        info!(command = "a\nb", path = "x y", empty = "", tricky = "a\u{202e}b", "one\ntwo\u{1b}[31m \"q\"")
    };
    let text = written(Level::Info, Format::Text, forge);
    let expected = concat!(
        "2026-03-01T12:00:00.123Z INFO one\\ntwo\\u{1b}[31m \"q\" command=\"a\\nb\" path=\"x y\" empty=\"\" ",
        "tricky=\"a\\u{202e}b\" service=codeq env=prod\n"
    );
    assert_eq!(text, [expected]);
    let json = written(Level::Info, Format::Json, forge);
    assert_eq!(json[0].matches('\n').count(), 1);
}

#[test]
fn fields_of_every_type_are_written() {
    let cause = io::Error::other("disk full");
    let lines = written(Level::Info, Format::Json, || {
        info!(
            debug = ?[1, 2],
            display = %"shown",
            big = u64::MAX,
            negative = -1,
            nan = f64::NAN,
            err = &cause as &(dyn std::error::Error + 'static),
            env = "reserved",
            r#type = "raw",
            "all"
        );
    });
    let expected = concat!(
        r#""debug":"[1, 2]","display":"shown","big":18446744073709551615,"negative":-1,"nan":"NaN","#,
        r#""err":"disk full","type":"raw"}"#,
        "\n"
    );
    assert!(lines[0].ends_with(expected), "{}", lines[0]);
}

#[test]
fn a_closed_pipe_is_survived() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
    let options =
        LogOptions { level: Level::Info, format: Format::Json, env: "prod".into(), to_stderr: true };
    with_default(Registry::default().with(super::layer(options, Closed)), || {
        info!("first");
        info!("second");
    });
}

#[test]
fn names_of_levels_and_formats() {
    for (name, level) in
        [("debug", Some(Level::Debug)), ("error", Some(Level::Error)), ("INFO", None), ("", None)]
    {
        assert_eq!(Level::parse(name), level);
    }
    assert_eq!((Format::parse("text"), Format::parse("xml")), (Some(Format::Text), None));
}
