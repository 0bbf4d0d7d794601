//! `codeq auth show`.

use crate::client::Connection;
use crate::say;

pub fn run(connection: Connection) -> anyhow::Result<()> {
    let settings = connection.settings()?;
    let profile = settings.profile();
    let given = &settings.given;
    let or = |given: &Option<String>, kept: &String| given.clone().unwrap_or_else(|| kept.clone());
    let tokens = [&profile.token, &profile.producer_token, &profile.worker_token];
    let token = tokens.into_iter().find(|token| !token.is_empty()).cloned().unwrap_or_default();
    say!("codeq Profile: {}", settings.name);
    let (login, exchange) = (&profile.auth.login, &profile.auth.exchange);
    for (name, value) in [
        ("Base URL", plain(&settings.base_url())),
        ("IAM URL", plain(&or(&given.iam_base_url, &profile.iam_base_url))),
        ("API Key", secret(&or(&given.iam_api_key, &profile.iam_api_key))),
        ("Login URL", plain(&login.url_template)),
        ("Token Path", plain(&login.token_path)),
        ("Exchange URL", plain(&exchange.url_template)),
        ("Exchange Token Path", plain(&exchange.token_path)),
        ("Audience", plain(&exchange.audience)),
        ("Token", secret(&token)),
        ("Admin", (profile.admin || given.admin).to_string()),
    ] {
        say!("• {name}: {value}");
    }
    Ok(())
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
    fn secrets_show_their_ends_only() {
        assert_eq!(["", "12345678", "123456789"].map(secret), ["<unset>", "****", "1234...6789"]);
    }
}
