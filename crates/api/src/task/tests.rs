use super::*;
use crate::json;

#[test]
fn payload_text_is_kept_to_the_byte() {
    let body = br#"{"command":"c","payload": {"a" : 9007199254740993, "b":"\u00e9"} ,"x":[1]}"#;
    let create: CreateBody<'_> = json::read(body).unwrap();
    assert_eq!(create.payload.unwrap().get(), r#"{"a" : 9007199254740993, "b":"\u00e9"}"#);
    let none: CreateBody<'_> = json::read(br#"{"command":null,"payload":null}"#).unwrap();
    assert!(none.payload.is_none() && none.command.is_none());
}

#[test]
fn integers_are_integers() {
    for bad in
        [r#"{"priority":1.0}"#, r#"{"priority":"1"}"#, r#"{"delaySeconds":1e3}"#, r#"{"headers":{"a":1}}"#]
    {
        assert!(json::read::<CreateBody<'_>>(bad.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn what_is_zero_or_empty_is_left_out() {
    let task = Task { id: "i".into(), status: "PENDING".into(), ..Task::default() };
    let text = serde_json::to_string(&task).unwrap();
    assert_eq!(text, r#"{"id":"i","command":"","status":"PENDING","createdAt":"","updatedAt":""}"#);
    let headers = vec![("b".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())];
    let task = Task { priority: 3, headers: headers.into(), ..task };
    let text = serde_json::to_string(&task).unwrap();
    assert!(text.contains(r#""priority":3,"headers":{"b":"1","a":"2"},"status""#), "{text}");
    assert_eq!(serde_json::from_str::<Task<'_>>(&text).unwrap(), task);
}
