//! Secrets that everybody knows: those of examples, and the token of `codeq dev`. A server that takes one has none.

use super::Mode;
use super::derive::DEV_TOKEN;
use super::sections::Sections;
use serde_json::Value;

/// What examples write where a secret belongs.
const WORDS: [&str; 9] = [
    "replace_with",
    "replace-with",
    "replace_me",
    "replace-me",
    "change_me",
    "change-me",
    "changeme",
    "your-secret",
    "your_secret",
];
/// Secrets of the documentation, with which receivers and configurations are tried out.
const PUBLISHED: [&str; 3] = ["s3cr3t-for-docs", "whsec_czNjcjN0LWZvci1kb2Nz", "3J8sVq0b7mXw2fK9tYcE5hRz"];

pub(super) fn check(sections: &Sections, mode: Mode, faults: &mut Vec<String>) {
    if is_placeholder(sections.webhook_hmac_secret.expose()) {
        faults.push(
            "webhookHmacSecret is a placeholder: set a secret of your own, such as whsec_ and the output of \
             `openssl rand -base64 32`"
                .into(),
        );
    }
    let is_public = mode == Mode::Serve && sections.env != "dev";
    for (key, config) in [
        ("producerAuthConfig", &sections.producer_auth_config),
        ("workerAuthConfig", &sections.worker_auth_config),
    ] {
        for (path, token) in tokens(key, config) {
            if is_placeholder(token) {
                faults.push(format!(
                    "{path} is a placeholder: set a token of your own, such as the output of `openssl rand -hex 24`"
                ));
            } else if is_public && token == DEV_TOKEN {
                faults.push(format!(
                    "{path} is the token of `codeq dev`, which everybody knows: set one of your own, such as the \
                     output of `openssl rand -hex 24`"
                ));
            }
        }
    }
}

/// The fixed tokens of a side, each with its path: of a `static` provider, or of those of `multi`.
fn tokens<'a>(key: &str, config: &'a Value) -> Vec<(String, &'a str)> {
    let own = config["token"].as_str().map(|token| (format!("{key}.token"), token));
    let providers = config["providers"].as_array().map_or(&[][..], Vec::as_slice);
    let of_provider = |(index, provider): (usize, &'a Value)| {
        let token = provider["config"]["token"].as_str()?;
        Some((format!("{key}.providers[{index}].config.token"), token))
    };
    own.into_iter().chain(providers.iter().enumerate().filter_map(of_provider)).collect()
}

/// Whether this is the text of an example.
fn is_placeholder(secret: &str) -> bool {
    let secret = secret.trim();
    let lower = secret.to_ascii_lowercase();
    WORDS.iter().any(|word| lower.contains(word))
        || PUBLISHED.contains(&secret)
        || secret.ends_with("...")
        || (secret.starts_with('<') && secret.ends_with('>'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_of_examples_are_no_secrets() {
        for text in [
            "whsec_REPLACE_WITH_BASE64",
            "change-me-producer",
            "ChangeMe",
            "whsec_...",
            "<token>",
            "s3cr3t-for-docs",
        ] {
            assert!(is_placeholder(text), "{text}");
        }
        for text in ["", "s", "whsec_c2VjcmV0IG9mIHRoZSBleGFtcGxl", "a<b>c"] {
            assert!(!is_placeholder(text), "{text}");
        }
    }

    #[test]
    fn tokens_are_found_wherever_a_provider_has_one() {
        let config = json!({"token": "a", "providers": [
            {"type": "jwks", "config": {"issuer": "i"}}, {"type": "static", "config": {"token": "b"}},
        ]});
        let found = [("k.token".to_owned(), "a"), ("k.providers[1].config.token".to_owned(), "b")];
        assert_eq!(tokens("k", &config), found);
        assert!(tokens("k", &Value::Null).is_empty());
    }
}
