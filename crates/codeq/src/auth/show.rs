//! `codeq auth show`.

use super::login::{EXCHANGE, LOGIN};
use crate::client::Connection;
use crate::say;
use serde_json::{Value, json};

pub fn run(connection: Connection, json: bool) -> anyhow::Result<()> {
    let settings = connection.settings()?;
    let profile = settings.profile();
    let given = &settings.given;
    let or = |given: &Option<String>, kept: &String| given.clone().unwrap_or_else(|| kept.clone());
    let tokens = [&profile.token, &profile.producer_token, &profile.worker_token];
    let token = tokens.into_iter().find(|token| !token.is_empty()).cloned().unwrap_or_default();
    let (login, exchange) = (&profile.auth.login, &profile.auth.exchange);
    let (iam, key) = (or(&given.iam_base_url, &profile.iam_base_url), secret(&profile.iam_api_key));
    let url = |template: &str, derived: &str| match template {
        "" if iam.is_empty() => String::new(),
        "" => derived.replace("{{iamBaseUrl}}", iam.trim_end_matches('/')).replace("{{apiKey}}", &key),
        template => template.to_owned(),
    };
    // Two tokens that differ are both shown; otherwise the one line above says it.
    let (producer, worker) = (&profile.producer_token, &profile.worker_token);
    let sides = match producer != worker && !producer.is_empty() && !worker.is_empty() {
        true => vec![("Producer Token", secret(producer)), ("Worker Token", secret(worker))],
        false => Vec::new(),
    };
    let lines = [
        ("Base URL", plain(&settings.base_url())),
        ("IAM URL", plain(&or(&given.iam_base_url, &profile.iam_base_url))),
        ("API Key", secret(&or(&given.iam_api_key, &profile.iam_api_key))),
        ("Login URL", plain(&url(&login.url_template, LOGIN))),
        ("Token Path", plain(&login.token_path)),
        ("Exchange URL", plain(&url(&exchange.url_template, EXCHANGE))),
        ("Exchange Token Path", plain(&exchange.token_path)),
        ("Audience", plain(&exchange.audience)),
        ("Token", secret(&token)),
        ("Admin", (profile.admin || given.admin).to_string()),
    ];
    let lines = lines.into_iter().chain(sides);
    if json {
        let object: serde_json::Map<String, Value> =
            lines.map(|(name, value)| (camel_case(name), Value::from(value))).collect();
        say!("{}", json!({"profile": settings.name, "settings": object}));
        return Ok(());
    }
    say!("codeq Profile: {}", settings.name);
    for (name, value) in lines {
        say!("• {name}: {value}");
    }
    Ok(())
}

/// `Exchange Token Path` as `exchangeTokenPath`.
fn camel_case(name: &str) -> String {
    let mut words = name.split(' ');
    let first = words.next().unwrap_or_default().to_ascii_lowercase();
    words.fold(first, |text, word| text + &word[..1] + &word[1..].to_ascii_lowercase())
}

fn plain(text: &str) -> String {
    if text.is_empty() { "<unset>".into() } else { text.into() }
}

/// Enough to tell one from another, and no more.
fn secret(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let part = |letters: &[char]| letters.iter().collect::<String>();
    match letters.len() {
        0 => "<unset>".into(),
        1..=8 => "****".into(),
        count => format!("{}...{}", part(&letters[..4]), part(&letters[count - 4..])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_keys() {
        assert_eq!(
            ["Token", "IAM URL", "Exchange Token Path"].map(camel_case),
            ["token", "iamUrl", "exchangeTokenPath"]
        );
    }

    #[test]
    fn secrets_show_their_ends_only() {
        assert_eq!(["", "12345678", "123456789"].map(secret), ["<unset>", "****", "1234...6789"]);
    }
}
