//! Cases by hand, random schemas against another implementation, and schemas that are meant to do harm.

use super::*;
use serde_json::json;
use std::time::{Duration, Instant};

fn schema(text: &Value) -> PayloadSchema {
    PayloadSchema::read(&text.to_string()).unwrap_or_else(|refusal| panic!("{text}: {refusal}"))
}

/// The pointer of what does not match.
fn fault(schema: &PayloadSchema, payload: &Value) -> Option<String> {
    match schema.check(&payload.to_string()) {
        Ok(()) => None,
        Err(Refusal::PayloadInvalid { field, .. }) => Some(field),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_payload_is_told_by_the_pointer_to_what_does_not_match() {
    let read = schema(&json!({
        "type": "object",
        "required": ["to"],
        "properties": {"to": {"type": "string", "pattern": "^\\w+@"}, "a/b": {"items": {"minimum": 1}}},
        "additionalProperties": false,
    }));
    for (payload, expected) in [
        (json!({"to": "me@here"}), None),
        (json!({"to": "nobody"}), Some("/to")),
        (json!({}), Some("")),
        (json!({"to": "me@here", "a/b": [1, 0]}), Some("/a~1b/1")),
        (json!({"to": "me@here", "cc": 1}), Some("/cc")),
    ] {
        assert_eq!(fault(&read, &payload).as_deref(), expected, "{payload}");
    }
    assert!(matches!(read.check("no json"), Err(Refusal::PayloadInvalid { .. })));
}

#[test]
fn what_is_no_schema_is_refused_with_its_place() {
    for (bad, told) in [
        (json!({"type": "nothing"}), "type"),
        (json!({"properties": {"a": {"minLength": -1}}}), "/properties/a: minLength"),
        (json!({"$defs": {"a": {"required": "b"}}}), "/$defs/a: required"),
        (json!({"$ref": "https://example.com/schema.json"}), "https://example.com/schema.json"),
        (json!({"$ref": "#/missing"}), "#/missing"),
        (json!({"$ref": "#nowhere"}), "#nowhere"),
        (json!({"$schema": "http://json-schema.org/draft-07/schema#"}), "$schema"),
        (json!({"pattern": "("}), "pattern"),
        (json!({"pattern": "(a)\\1"}), "pattern"),
        (json!({"pattern": "(a{1000}){1000}"}), "too large"),
        (json!({"multipleOf": 0}), "multipleOf"),
        (json!({"allOf": []}), "allOf"),
        (json!({"items": [1]}), "items"),
        (json!("text"), "a schema must be"),
    ] {
        match PayloadSchema::read(&bad.to_string()) {
            Err(Refusal::InvalidPolicy { field, message }) => {
                assert_eq!(field, "payloadSchema");
                assert!(message.contains(told), "{bad}: {message}");
            }
            other => panic!("{bad}: {other:?}"),
        }
    }
}

/// Cases in which implementations differ from the standard, with what it says.
#[test]
fn hard_cases_are_as_the_standard_has_them() {
    let tree = json!({"properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}, "required": ["n"]});
    let anchored = json!({"$defs": {"a": {"$anchor": "x", "type": "null"}}, "$ref": "#x"});
    for (text, payload, matches) in [
        (json!({"type": "integer"}), json!(1.0), true),
        (json!({"const": 1}), json!(1.0), true),
        (json!({"const": {"a": 1, "b": 2}}), json!({"b": 2, "a": 1.0}), true),
        (json!({"enum": [false]}), json!(0), false),
        (json!({"multipleOf": 0.01}), json!(19.99), true),
        (json!({"multipleOf": 0.01}), json!(19.999), false),
        (json!({"multipleOf": 1e-300}), json!(1e300), true),
        (json!({"maximum": 9_007_199_254_740_993_u64}), json!(9_007_199_254_740_994_u64), false),
        (json!({"maxLength": 2}), json!("\u{1f600}\u{1f600}"), true),
        (json!({"pattern": "^\\d$"}), json!("\u{0663}"), false),
        (json!({"pattern": "^[\\w[&&-]+$"}), json!("a[&&-"), true),
        (json!({"pattern": "b"}), json!("abc"), true),
        (json!({"uniqueItems": true}), json!([1, 1.0]), false),
        (json!({"uniqueItems": true}), json!([{"a": 1, "b": 2}, {"b": 2, "a": 1}]), false),
        (json!({"uniqueItems": true}), json!([1, true, "1", [1], null]), true),
        (json!({"contains": {"const": 1}, "minContains": 0}), json!([]), true),
        (json!({"contains": {"const": 1}}), json!([]), false),
        (json!({"contains": {"const": 1}, "maxContains": 1}), json!([1, 1]), false),
        (json!({"prefixItems": [true], "items": false}), json!([1, 2]), false),
        (json!({"propertyNames": {"maxLength": 1}}), json!({"ab": 1}), false),
        (json!({"dependentRequired": {"a": ["b"]}}), json!({"a": 1}), false),
        (json!({"if": {"type": "string"}, "then": {"minLength": 1}, "else": false}), json!(""), false),
        (json!({"oneOf": [{"minimum": 0}, {"maximum": 0}]}), json!(0), false),
        (json!({"format": "email"}), json!("no address"), true),
        (json!({"$ref": "#/$defs/a%25b", "$defs": {"a%b": {"type": "null"}}}), json!(1), false),
        (tree.clone(), json!({"n": 1, "next": {"n": 2, "next": {"n": "x"}}}), false),
        (tree, json!({"n": 1, "next": {"n": 2}}), true),
        (anchored, json!(1), false),
    ] {
        assert_eq!(fault(&schema(&text), &payload).is_none(), matches, "{text} of {payload}");
    }
}

#[test]
fn what_others_have_looked_at_and_dynamic_references_are_as_the_standard_has_them() {
    let strict = json!({
        "$id": "https://a.example/strict",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        "unevaluatedProperties": false,
        "$defs": {"tree": {
            "$id": "tree",
            "$dynamicAnchor": "node",
            "properties": {"data": true, "children": {"items": {"$dynamicRef": "#node"}}},
        }},
    });
    let unevaluated = json!({
        "anyOf": [{"properties": {"a": true}, "required": ["a"]}, {"properties": {"b": true}}],
        "unevaluatedProperties": false,
    });
    for (text, payload, matches) in [
        (strict.clone(), json!({"children": [{"data": 1}]}), true),
        (strict, json!({"children": [{"daat": 1}]}), false),
        (unevaluated.clone(), json!({"a": 1, "b": 1}), true),
        (unevaluated, json!({"b": 1, "c": 1}), false),
        (
            json!({"prefixItems": [true], "contains": {"const": 2}, "unevaluatedItems": false}),
            json!([1, 2, 3]),
            false,
        ),
        (
            json!({"prefixItems": [true], "contains": {"const": 2}, "unevaluatedItems": false}),
            json!([1, 2]),
            true,
        ),
    ] {
        assert_eq!(fault(&schema(&text), &payload).is_none(), matches, "{text} of {payload}");
    }
}

/// Chains of references, each twice the last; recursion without a payload to go into; large automata; many of everything.
fn hostile() -> Vec<Value> {
    let chain = |count: usize, link: &dyn Fn(usize) -> Value| {
        let defs: serde_json::Map<String, Value> = (0..count)
            .map(|n| (format!("d{n}"), link(n + 1)))
            .chain([(format!("d{count}"), json!({}))])
            .collect();
        json!({"$ref": "#/$defs/d0", "$defs": defs})
    };
    let to = |n: usize| json!({"$ref": format!("#/$defs/d{n}")});
    let twice = |word: &str, n: usize| json!({word: [to(n), to(n)]});
    vec![
        chain(1_500, &|n| to(n)),
        chain(800, &|n| twice("allOf", n)),
        chain(800, &|n| json!({"anyOf": [{"not": to(n)}, to(n), false]})),
        chain(800, &|n| json!({"unevaluatedProperties": to(n), "unevaluatedItems": to(n)})),
        json!({"properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}, "items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}),
        json!({"items": {"anyOf": [{"items": {"$ref": "#"}}, {"$ref": "#"}, {"$ref": "#"}]}, "additionalProperties": {"$ref": "#"}}),
        json!({"items": {"$ref": "#"}, "uniqueItems": true, "not": {"items": {"$ref": "#/not"}, "minItems": 1}}),
        json!({"pattern": "[01]*1[01]{300}$", "items": {"$ref": "#"}, "propertyNames": {"$ref": "#"}}),
        json!({"enum": (0..9_000).collect::<Vec<_>>(), "items": {"$ref": "#"}}),
    ]
}

fn payloads() -> Vec<Value> {
    let nested = |wrap: &dyn Fn(Value) -> Value| (0..120).fold(json!(1), |inner, _| wrap(inner));
    vec![
        json!(1),
        nested(&|inner| json!([inner])),
        nested(&|inner| json!([[1, 2, 3], inner])),
        nested(&|inner| json!({"l": inner, "r": 1})),
        json!(vec![json!([1, 0, 1]); 50_000]),
        json!((0..20_000).map(|n| (format!("{n:b}"), json!(n))).collect::<serde_json::Map<_, _>>()),
        json!("01".repeat(250_000)),
    ]
}

/// A schema and a payload that were made for each other used to end the process, or to keep a thread for ever.
#[test]
fn hostile_schemas_cost_a_bounded_time_and_little_of_the_stack() {
    // Smaller than that of the threads that answer requests, for code that is not optimised.
    let small_stack = std::thread::Builder::new().stack_size(1536 * 1024);
    let work = || {
        for text in hostile() {
            let began = Instant::now();
            let Ok(read) = PayloadSchema::read(&text.to_string()) else { continue };
            for payload in payloads() {
                drop(read.check(&payload.to_string()));
            }
            // Without bounds the first of them takes longer than the universe has had.
            assert!(began.elapsed() < Duration::from_secs(60), "{:.200}", text.to_string());
        }
    };
    small_stack.spawn(work).unwrap().join().unwrap();
}

#[test]
fn what_costs_too_much_is_refused_and_says_so() {
    let doubling = json!({"items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}});
    let deep = (0..60).fold(json!(1), |inner, _| json!([inner]));
    match schema(&doubling).check(&deep.to_string()) {
        Err(Refusal::PayloadInvalid { message, .. }) => {
            assert!(message.contains("too many steps"), "{message}")
        }
        other => panic!("{other:?}"),
    }
    // A list and a tree as deep as JSON allows are no hostile ones.
    let list = json!({"properties": {"next": {"$ref": "#"}}});
    let deep = (0..126).fold(json!(1), |inner, _| json!({"next": inner}));
    assert_eq!(fault(&schema(&list), &deep), None);
}

#[test]
fn a_schema_that_only_leads_to_itself_is_refused() {
    for endless in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"not": {"$ref": "#"}}),
        json!({"if": {"$ref": "#/$defs/a"}, "$defs": {"a": {"dependentSchemas": {"x": {"$ref": "#"}}}}}),
        json!({"$dynamicAnchor": "a", "$defs": {"b": {"anyOf": [{"$dynamicRef": "#a"}]}}, "$ref": "#/$defs/b"}),
    ] {
        match PayloadSchema::read(&endless.to_string()) {
            Err(Refusal::InvalidPolicy { message, .. }) => {
                assert!(message.contains("refers to itself"), "{message}")
            }
            other => panic!("{endless}: {other:?}"),
        }
    }
}

/// Expressions that make others go back and forth, and those whose automata explode.
#[test]
fn a_payload_of_a_megabyte_is_matched_in_bounded_time() {
    let base64 = schema(&json!({"pattern": "^[A-Za-z0-9+/]*={0,2}$"}));
    assert_eq!(fault(&base64, &json!("QUJD".repeat(250_000))), None);
    let nested = schema(&json!({"pattern": "^(a+)+$"}));
    assert_eq!(fault(&nested, &json!(format!("{}!", "a".repeat(100_000)))).as_deref(), Some(""));
}

/// Small random schemas and payloads, decided here and by the implementation that dashboards and editors use.
#[test]
fn random_schemas_decide_as_another_implementation_does() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut matched = 0;
    for _ in 0..500 {
        let mut text = random.schema(3);
        if let Some(fields) = text.as_object_mut() {
            fields.insert("$defs".into(), json!({"a": random.schema(1), "b": random.schema(2)}));
        }
        let Ok(read) = PayloadSchema::read(&text.to_string()) else { continue };
        let other = jsonschema::draft202012::new(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        for _ in 0..10 {
            let payload = random.payload(3);
            let matches = other.is_valid(&payload);
            matched += usize::from(matches);
            assert_eq!(fault(&read, &payload).is_none(), matches, "{text} of {payload}");
        }
    }
    assert!((800..4_200).contains(&matched), "{matched} matched: one verdict is no comparison");
}

/// A sequence of numbers that is always the same.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn one_of(&mut self, values: &[Value]) -> Value {
        values[self.below(values.len() as u64) as usize].clone()
    }

    fn payload(&mut self, depth: u32) -> Value {
        let plain =
            [json!(null), json!(true), json!(0), json!(1), json!(2.5), json!(3), json!(""), json!("ab")];
        match self.below(if depth == 0 { 3 } else { 6 }) {
            0..3 => self.one_of(&plain),
            3 => (0..self.below(4)).map(|_| self.payload(depth - 1)).collect(),
            _ => {
                let names = ["a", "b", "cc"];
                let fields = (0..self.below(4)).map(|_| {
                    let name = names[self.below(3) as usize];
                    (name.to_owned(), self.payload(depth - 1))
                });
                Value::Object(fields.collect())
            }
        }
    }

    fn schema(&mut self, depth: u32) -> Value {
        if depth == 0 || self.below(8) == 0 {
            return self.one_of(&[
                json!(true),
                json!(true),
                json!(false),
                json!({}),
                json!({"type": "object"}),
            ]);
        }
        let mut fields = serde_json::Map::new();
        for _ in 0..1 + self.below(3) {
            let (name, value) = self.keyword(depth - 1);
            fields.insert(name.into(), value);
        }
        Value::Object(fields)
    }

    fn keyword(&mut self, depth: u32) -> (&'static str, Value) {
        let kind = self.below(7) as usize;
        let types = Value::from(node::Types::NAMES[kind]);
        let small = json!(self.below(4));
        let named = ["a", "b", "cc"][self.below(3) as usize];
        match self.below(32) {
            0 => ("type", types),
            1 => ("type", json!([types, node::Types::NAMES[(kind + 1) % 7]])),
            2 => ("enum", json!([self.payload(2), self.payload(1), 1, "ab"])),
            3 => ("const", self.payload(1)),
            4 => ("minimum", small),
            5 => ("exclusiveMaximum", small),
            6 => ("multipleOf", self.one_of(&[json!(0.5), json!(2), json!(3)])),
            7 => ("minLength", small),
            8 => ("maxLength", small),
            9 => ("pattern", self.one_of(&[json!("^a"), json!("\\w\\w"), json!("^$")])),
            10 => ("minItems", small),
            11 => ("maxItems", small),
            12 => ("uniqueItems", json!(true)),
            13 => ("items", self.schema(depth)),
            14 => ("prefixItems", json!([self.schema(depth), self.schema(depth)])),
            15 => ("contains", self.schema(depth)),
            16 => ("required", json!([named])),
            17 => ("properties", json!({"a": self.schema(depth), named: self.schema(depth)})),
            18 => ("patternProperties", json!({"^.$": self.schema(depth)})),
            19 => ("additionalProperties", self.schema(depth)),
            20 => ("propertyNames", json!({"maxLength": small})),
            21 => ("dependentRequired", json!({"a": [named]})),
            22 => ("dependentSchemas", json!({named: self.schema(depth)})),
            23 => ("allOf", json!([self.schema(depth), self.schema(depth)])),
            24 => ("anyOf", json!([self.schema(depth), self.schema(depth)])),
            25 => ("oneOf", json!([self.schema(depth), self.schema(depth)])),
            26 => ("not", self.schema(depth)),
            27 => ("if", self.schema(depth)),
            28 => (["then", "else"][self.below(2) as usize], self.schema(depth)),
            29 => ("$ref", self.one_of(&[json!("#/$defs/a"), json!("#/$defs/b"), json!("#")])),
            30 => ("unevaluatedProperties", self.schema(depth)),
            _ => ("unevaluatedItems", self.schema(depth)),
        }
    }
}
