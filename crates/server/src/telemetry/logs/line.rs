//! One line of the log in both forms.

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::Value;

use super::fields::Fields;
use super::{Format, Level};

const SERVICE: &str = "codeq";
const WRITABLE: &str = "a string can always be written to";

pub(super) struct Line<'a> {
    pub time: Timestamp,
    pub level: Level,
    pub env: &'a str,
    pub fields: &'a Fields,
}

impl Line<'_> {
    /// The line with its newline, which is the only one in it.
    pub fn text(&self, format: Format) -> String {
        match format {
            Format::Json => self.json(),
            Format::Text => self.plain(),
        }
    }

    fn json(&self) -> String {
        let mut text = format!(
            r#"{{"time":"{:.3}","level":"{}","msg":{},"service":"{SERVICE}","env":{}"#,
            self.time,
            self.level.name(),
            Value::from(self.fields.message.as_str()),
            Value::from(self.env),
        );
        for (name, value) in &self.fields.named {
            write!(text, ",{}:{value}", Value::from(*name)).expect(WRITABLE);
        }
        text.push_str("}\n");
        text
    }

    fn plain(&self) -> String {
        let level = self.level.name().to_uppercase();
        let mut text = format!("{:.3} {level} ", self.time);
        push_escaped(&mut text, &self.fields.message);
        for (name, value) in &self.fields.named {
            push_field(&mut text, name, value);
        }
        push_field(&mut text, "service", &Value::from(SERVICE));
        push_field(&mut text, "env", &Value::from(self.env));
        text.push('\n');
        text
    }
}

fn push_field(text: &mut String, name: &str, value: &Value) {
    write!(text, " {name}=").expect(WRITABLE);
    match value {
        Value::String(value) if needs_quotes(value) => write!(text, "{value:?}").expect(WRITABLE),
        Value::String(value) => text.push_str(value),
        other => write!(text, "{other}").expect(WRITABLE),
    }
}

fn needs_quotes(value: &str) -> bool {
    let is_plain =
        |letter: char| !letter.is_whitespace() && !matches!(letter, '"' | '=' | '\\') && is_visible(letter);
    value.is_empty() || !value.chars().all(is_plain)
}

fn push_escaped(text: &mut String, message: &str) {
    for letter in message.chars() {
        match is_visible(letter) {
            true => text.push(letter),
            false => text.extend(letter.escape_debug()),
        }
    }
}

/// Whether a terminal shows the character as it is. Controls, line ends and writing-direction marks are
/// not, so that no value can forge a line.
fn is_visible(letter: char) -> bool {
    matches!(letter, ' ' | '"' | '\'' | '\\') || letter.escape_debug().len() == 1
}
