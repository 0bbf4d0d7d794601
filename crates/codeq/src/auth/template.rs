//! Templates of URLs and bodies, and paths into answers.

use crate::client::encoded;
use serde_json::Value;

/// What a template may name.
pub struct Known<'a> {
    pub email: &'a str,
    pub password: &'a str,
    pub api_key: &'a str,
    pub iam_base_url: &'a str,
}

impl Known<'_> {
    /// A URL: values are written so that they cannot end what they stand in. The base is a URL itself.
    pub fn url(&self, template: &str) -> String {
        let template = template.replace("{{iamBaseUrl}}", self.iam_base_url.trim_end_matches('/'));
        self.fill(&template, encoded)
    }

    /// A body: values are written as its kind wants them.
    pub fn body(&self, template: &str, content_type: &str) -> String {
        let written = match content_type {
            kind if kind.contains("json") => in_json,
            kind if kind.contains("x-www-form-urlencoded") => encoded,
            _ => str::to_owned,
        };
        self.fill(&template.replace("{{iamBaseUrl}}", &written(self.iam_base_url)), written)
    }

    pub fn header(&self, template: &str) -> String {
        self.fill(&template.replace("{{iamBaseUrl}}", self.iam_base_url), str::to_owned)
    }

    /// One pass: what a value holds is not looked at again.
    fn fill(&self, template: &str, written: impl Fn(&str) -> String) -> String {
        let mut filled = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once("{{") {
            filled += before;
            let named = after.split_once("}}").and_then(|(name, after)| Some((self.get(name)?, after)));
            match named {
                Some((value, after)) => {
                    filled += &written(value);
                    rest = after;
                }
                None => {
                    filled += "{{";
                    rest = after;
                }
            }
        }
        filled + rest
    }

    fn get(&self, name: &str) -> Option<&str> {
        match name.trim() {
            "email" => Some(self.email),
            "password" => Some(self.password),
            "apiKey" => Some(self.api_key),
            _ => None,
        }
    }
}

/// As it stands between the quotes of a JSON string.
fn in_json(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// What a dotted path leads to; numbers count into lists.
pub fn at<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    let step = |value: &'a Value, name: &str| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        other => other.get(name),
    };
    path.split('.').try_fold(value, step)?.as_str().filter(|token| !token.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const KNOWN: Known<'_> = Known {
        email: "a@b.c",
        password: "p\"{{apiKey}}&",
        api_key: "k/1",
        iam_base_url: "https://iam.example.com/v1/",
    };

    #[test]
    fn values_cannot_leave_the_place_they_are_put_in() {
        assert_eq!(KNOWN.url("{{iamBaseUrl}}/in?key={{apiKey}}"), "https://iam.example.com/v1/in?key=k%2F1");
        let body = KNOWN.body(r#"{"p":"{{password}}","x":"{{other}}"}"#, "application/json");
        assert_eq!(body, r#"{"p":"p\"{{apiKey}}&","x":"{{other}}"}"#);
        let form = KNOWN.body("p={{password}}", "application/x-www-form-urlencoded");
        assert_eq!(form, "p=p%22%7B%7BapiKey%7D%7D%26");
    }

    #[test]
    fn paths_lead_into_objects_and_lists() {
        let answer = json!({"data": {"tokens": [{"id": "t"}]}, "n": 1});
        assert_eq!(at(&answer, "data.tokens.0.id"), Some("t"));
        assert!(at(&answer, "data.nothing").is_none() && at(&answer, "n").is_none());
    }
}
