//! Creating a task: what a producer may ask for, checked once for every protocol.

use crate::limits;
use crate::options::OptionsRequest;
use crate::queue::check_command;
use crate::refusal::Refusal;
use crate::task::Body;
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// When the task becomes visible.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Delay {
    /// At once.
    #[default]
    None,
    /// This long after the create, or after the release of a task that waits for others.
    For(Duration),
    /// At this instant; one that has passed means at once.
    Until(Time),
}

impl Delay {
    /// The instant of visibility, or `None` for "now".
    pub fn visible_at(self, now: Time) -> Option<Time> {
        let at = match self {
            Delay::None => return None,
            Delay::For(duration) => now.plus(duration),
            Delay::Until(at) => at,
        };
        (at > now).then_some(at)
    }
}

/// A checked request to create one task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewTask {
    /// What never changes.
    pub body: Arc<Body>,
    /// 0 to 9; higher ones are served first.
    pub priority: u8,
    /// Attempts that may count; when they are used up the task is dead.
    pub max_attempts: u32,
    /// From when on it may be claimed.
    pub delay: Delay,
}

/// What the producer sent, apart from the payload's shape, which is the protocol's business.
#[derive(Clone, Debug, Default)]
pub struct CreateRequest {
    /// Taken from the token, never from the request.
    pub tenant: Arc<str>,
    /// Trimmed and checked by [`check_command`].
    pub command: String,
    /// Exact JSON text.
    pub payload: String,
    /// Clamped to 0 to 9.
    pub priority: i64,
    /// An absolute http or https URL that is sent the result; blank is none.
    pub webhook: Option<String>,
    /// Names with values: at most 16, together at most 4 KiB.
    pub headers: Vec<(String, String)>,
    /// Zero and below mean the default.
    pub max_attempts: i64,
    /// At most 255 bytes; blank is none.
    pub idempotency_key: Option<String>,
    /// Wins over `delay_seconds`.
    pub run_at: Option<Time>,
    /// 0 to 31,622,400.
    pub delay_seconds: i64,
    /// W3C `traceparent`; left out if it is too long.
    pub trace_parent: Option<String>,
    /// W3C `tracestate`; kept only together with a trace parent.
    pub trace_state: Option<String>,
    /// Lane, tags, uniqueness and what else few tasks have.
    pub options: OptionsRequest,
    /// Passed on with callbacks as long as the process lives; not stored.
    pub baggage: Option<Arc<str>>,
}

impl CreateRequest {
    /// Checks every rule and fills the defaults in.
    pub fn check(
        self,
        max_attempts_default: u32,
        payload_bytes: usize,
        now: Time,
    ) -> Result<NewTask, Refusal> {
        let command = check_command(&self.command)?.into();
        if self.payload.len() > payload_bytes.min(limits::PAYLOAD_BYTES_MOST) {
            return Err(Refusal::PayloadTooLarge);
        }
        let webhook = check_url(self.webhook.as_deref()).map_err(|_| Refusal::InvalidWebhookUrl)?;
        check_headers(&self.headers)?;
        let delay = check_delay(self.run_at, self.delay_seconds, now)?;
        let idempotency_key = check_key(self.idempotency_key.as_deref())?;
        let options = self.options.check(now)?;
        let priority = self.priority.clamp(0, i64::from(limits::PRIORITY_MAX));
        let max_attempts = match u32::try_from(self.max_attempts) {
            Ok(0) => max_attempts_default,
            Ok(asked) => asked,
            Err(_) if self.max_attempts > 0 => u32::MAX,
            Err(_) => max_attempts_default,
        };
        let (trace_parent, trace_state) =
            check_trace(self.trace_parent.as_deref(), self.trace_state.as_deref());
        let body = Body {
            tenant: self.tenant,
            command,
            payload: self.payload.into(),
            webhook,
            headers: self.headers.into(),
            idempotency_key,
            trace_parent,
            trace_state,
            options,
        };
        let priority = u8::try_from(priority).expect("clamped to 0..=9");
        Ok(NewTask { body: Arc::new(body), priority, max_attempts, delay })
    }
}

/// Not an absolute http or https URL with a host, or too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidUrl;

/// An absolute http or https URL with a host, of bounded length; blank is absent.
pub fn check_url(url: Option<&str>) -> Result<Option<Box<str>>, InvalidUrl> {
    let Some(text) = url.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    if text.len() > limits::URL_BYTES {
        return Err(InvalidUrl);
    }
    // The parser mends what it can (spaces, backslashes, missing slashes); we keep the text as it is.
    let is_plain = !text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\');
    let (scheme, rest) = text.split_once("://").ok_or(InvalidUrl)?;
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let parsed = url::Url::parse(text).map_err(|_| InvalidUrl)?;
    let has_host = !rest.starts_with('/') && parsed.host_str().is_some_and(|host| !host.is_empty());
    if !is_plain || !is_web || !has_host {
        return Err(InvalidUrl);
    }
    Ok(Some(text.into()))
}

/// Headers that are few, short and of plain names.
pub fn check_headers(headers: &[(String, String)]) -> Result<(), Refusal> {
    let legal_name = |name: &str| {
        (1..=limits::HEADER_NAME_BYTES).contains(&name.len())
            && name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-'))
    };
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    let fits = headers.len() <= limits::HEADERS && bytes <= limits::HEADERS_BYTES;
    if !fits || !headers.iter().all(|(name, _)| legal_name(name)) {
        return Err(Refusal::InvalidHeaders);
    }
    Ok(())
}

/// A trace that is longer than traces are is left out: a task is worth more than its trace.
pub fn check_trace(parent: Option<&str>, state: Option<&str>) -> (Option<Box<str>>, Option<Box<str>>) {
    let parent = parent.filter(|text| text.len() <= limits::TRACE_PARENT_BYTES);
    let state = state.filter(|text| parent.is_some() && text.len() <= limits::TRACE_STATE_BYTES);
    (parent.map(Into::into), state.map(Into::into))
}

fn check_delay(run_at: Option<Time>, delay_seconds: i64, now: Time) -> Result<Delay, Refusal> {
    // Wrong is wrong, also where an instant wins over it.
    let seconds = u64::try_from(delay_seconds).map_err(|_| Refusal::DelayNegative)?;
    if let Some(at) = run_at {
        return match at.since(now) > limits::DELAY {
            true => Err(Refusal::RunAtTooFar),
            false => Ok(Delay::Until(at)),
        };
    }
    let delay = Duration::from_secs(seconds);
    match delay {
        Duration::ZERO => Ok(Delay::None),
        _ if delay > limits::DELAY => Err(Refusal::DelayTooLong),
        _ => Ok(Delay::For(delay)),
    }
}

/// A blank key is no key.
pub fn check_key(key: Option<&str>) -> Result<Option<Box<str>>, Refusal> {
    let Some(key) = key.filter(|key| !key.trim().is_empty()) else { return Ok(None) };
    match key.len() > limits::IDEMPOTENCY_KEY_BYTES {
        true => Err(Refusal::IdempotencyKeyTooLong),
        false => Ok(Some(key.into())),
    }
}

/// One key from the body and the `Idempotency-Key` header (bare, or one quoted string).
pub fn merge_keys(body: Option<&str>, header: Option<&str>) -> Result<Option<String>, Refusal> {
    let present = |key: Option<&str>| key.filter(|k| !k.trim().is_empty()).map(str::to_owned);
    let unquoted = header.map(str::trim).map(|h| {
        let inner = h.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        inner.filter(|_| h.len() >= 2).unwrap_or(h)
    });
    match (present(body), present(unquoted)) {
        (Some(body), Some(header)) if body != header => Err(Refusal::IdempotencyKeysDiffer),
        (body, header) => Ok(body.or(header)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> CreateRequest {
        CreateRequest { tenant: "t".into(), command: "c".into(), payload: "1".into(), ..Default::default() }
    }

    fn check(request: CreateRequest) -> Result<NewTask, Refusal> {
        request.check(5, limits::PAYLOAD_BYTES, Time::from_millis(1_000))
    }

    #[test]
    fn numbers_are_clamped_and_defaults_filled_in() {
        for (priority, got) in [(-4, 0), (0, 0), (9, 9), (10, 9), (i64::MAX, 9)] {
            assert_eq!(check(CreateRequest { priority, ..request() }).unwrap().priority, got);
        }
        for (max_attempts, got) in [(i64::MIN, 5), (0, 5), (1, 1), (7, 7), (i64::MAX, u32::MAX)] {
            assert_eq!(check(CreateRequest { max_attempts, ..request() }).unwrap().max_attempts, got);
        }
    }

    #[test]
    fn schedules_are_bounded_and_the_past_means_now() {
        let now = Time::from_millis(1_000);
        let run_at = |millis| check(CreateRequest { run_at: Some(Time::from_millis(millis)), ..request() });
        assert_eq!(run_at(500).unwrap().delay.visible_at(now), None);
        assert_eq!(run_at(1_001).unwrap().delay.visible_at(now), Some(Time::from_millis(1_001)));
        assert!(run_at(1_000 + 31_622_400_000).is_ok());
        assert_eq!(run_at(1_001 + 31_622_400_000), Err(Refusal::RunAtTooFar));
        let both = CreateRequest { run_at: Some(now), delay_seconds: -1, ..request() };
        assert_eq!(check(both), Err(Refusal::DelayNegative));
        let delay = |delay_seconds| check(CreateRequest { delay_seconds, ..request() });
        assert_eq!(delay(-1), Err(Refusal::DelayNegative));
        assert_eq!(delay(31_622_401), Err(Refusal::DelayTooLong));
        assert_eq!(delay(2).unwrap().delay.visible_at(now), Some(Time::from_millis(3_000)));
        let both = CreateRequest { run_at: Some(Time::from_millis(1_500)), delay_seconds: 9, ..request() };
        assert_eq!(check(both).unwrap().delay, Delay::Until(Time::from_millis(1_500)));
    }

    #[test]
    fn urls_headers_keys_and_payloads_are_checked() {
        let webhook = |url: &str| check(CreateRequest { webhook: Some(url.into()), ..request() });
        assert_eq!(
            webhook("https://p.example/hook").unwrap().body.webhook.as_deref(),
            Some("https://p.example/hook")
        );
        assert_eq!(webhook(" ").unwrap().body.webhook, None);
        let long = |bytes: usize| format!("http://h/{}", "x".repeat(bytes - 9));
        assert!(webhook(&long(limits::URL_BYTES)).is_ok());
        assert_eq!(webhook(&long(limits::URL_BYTES + 1)), Err(Refusal::InvalidWebhookUrl));
        for bad in [
            "ftp://x/",
            "/relative",
            "http://",
            "mailto:a@b",
            "no url",
            " http://h/",
            "http://h/ ",
            "ht\ntp://h/",
            "http:\\\\h\\x",
            "http:h",
            "http:///h",
        ] {
            assert_eq!(webhook(bad), Err(Refusal::InvalidWebhookUrl), "{bad}");
        }
        let headers = |headers: Vec<(String, String)>| check(CreateRequest { headers, ..request() });
        assert!(headers(vec![("a.B-c_1".into(), "anything é".into())]).is_ok());
        let many: Vec<_> = (0..17).map(|i| (format!("h{i}"), String::new())).collect();
        for bad in [
            vec![(String::new(), "v".into())],
            vec![("a b".into(), "v".into())],
            many,
            vec![("a".into(), "v".repeat(4096))],
        ] {
            assert_eq!(headers(bad), Err(Refusal::InvalidHeaders));
        }
        let key = |key: String| check(CreateRequest { idempotency_key: Some(key), ..request() });
        assert_eq!(key("  ".into()).unwrap().body.idempotency_key, None);
        assert!(key("k".repeat(255)).is_ok());
        assert_eq!(key("k".repeat(256)), Err(Refusal::IdempotencyKeyTooLong));
        let payload = "x".repeat(limits::PAYLOAD_BYTES + 1);
        assert_eq!(check(CreateRequest { payload, ..request() }), Err(Refusal::PayloadTooLarge));
    }

    #[test]
    fn body_and_header_keys_are_one_key() {
        let key = |body, header| merge_keys(body, header);
        assert_eq!(key(None, Some("\"order-77\"")), Ok(Some("order-77".into())));
        assert_eq!(key(Some("a"), Some("a")), Ok(Some("a".into())));
        assert_eq!(key(Some("a"), Some("b")), Err(Refusal::IdempotencyKeysDiffer));
        assert_eq!(key(Some(" "), Some("")), Ok(None));
        assert_eq!(key(None, Some("\"")), Ok(Some("\"".into())));
    }
}
