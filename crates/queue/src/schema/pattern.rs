//! Regular expressions of schemas: matched in time that grows with the text, whose memory is bounded.

use regex::{Regex, RegexBuilder};

/// What the automaton of one expression may take, tried from the smallest: it tells how much a match can cost.
const SIZES: [usize; 10] = [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144];

/// Memory for what a match has learned of its expression.
const LEARNED_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// Most bytes of its automaton.
    pub bytes: usize,
}

impl Pattern {
    pub fn read(text: &str) -> Result<Pattern, String> {
        let translated = translate(text);
        let built = |bytes: usize| {
            let mut builder = RegexBuilder::new(&translated);
            builder.size_limit(bytes).dfa_size_limit(LEARNED_BYTES).build()
        };
        for bytes in SIZES {
            match built(bytes) {
                Ok(regex) => return Ok(Pattern { regex, bytes }),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(_) => {
                    return Err("is no regular expression, or uses what is not supported (look-around, \
                                      back references)"
                        .into());
                }
            }
        }
        Err("is too large a regular expression".into())
    }

    /// Steps of a match, whatever the text.
    pub fn cost(&self, text: &str) -> usize {
        1 + text.len() / 64 + (text.len() / 64).saturating_mul(self.bytes / 16)
    }

    pub fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// From the expressions of ECMAScript: classes are of ASCII, and brackets within brackets are characters.
fn translate(text: &str) -> String {
    let mut translated = String::with_capacity(text.len());
    let mut in_class = false;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some(escaped) => translated.push_str(&translate_escape(escaped, in_class, &mut rest)),
                None => translated.push('\\'),
            },
            '[' if in_class => translated.push_str("\\["),
            '[' => {
                in_class = true;
                translated.push('[');
                if rest.next_if_eq(&'^').is_some() {
                    translated.push('^');
                }
            }
            ']' => {
                in_class = false;
                translated.push(']');
            }
            '&' | '~' | '-' if in_class && rest.peek() == Some(&c) => {
                translated.push('\\');
                translated.push(c);
            }
            _ => translated.push(c),
        }
    }
    translated
}

fn translate_escape(escaped: char, in_class: bool, rest: &mut impl Iterator<Item = char>) -> String {
    match escaped {
        'd' => "[0-9]".into(),
        'D' => "[^0-9]".into(),
        'w' => "[A-Za-z0-9_]".into(),
        'W' => "[^A-Za-z0-9_]".into(),
        's' => r"[\p{Z}\t\n\r\x0b\x0c\x{feff}]".into(),
        'S' => r"[^\p{Z}\t\n\r\x0b\x0c\x{feff}]".into(),
        'b' if in_class => r"\x08".into(),
        'b' => r"(?-u:\b)".into(),
        'c' => match rest.next().filter(char::is_ascii_alphabetic) {
            Some(letter) => format!(r"\x{:02x}", u32::from(letter) % 32),
            None => r"\c".into(),
        },
        other => format!("\\{other}"),
    }
}
