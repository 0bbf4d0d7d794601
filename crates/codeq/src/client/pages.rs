//! Lists that come in pages.

use super::{Api, encoded};
use crate::tag;
use serde::Deserialize;
use serde_json::Value;

/// Items of one page at most.
const PAGE: usize = 500;

#[derive(Deserialize)]
pub struct Page {
    pub items: Vec<Value>,
    pub next: Option<String>,
    /// Shards whose servers do not answer.
    #[serde(default)]
    pub partial: Vec<String>,
}

/// `?a=b&c=d`, or nothing.
pub fn query(pairs: &[(String, String)]) -> String {
    let pairs = pairs.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    let pairs: Vec<String> = pairs.collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

impl Api {
    /// Hands over what a list holds, page by page, `limit` items at most; whether there is more.
    ///
    /// A page may be empty though there are more: the server examines a bounded number of records at a time.
    pub async fn list(
        &self,
        path: &str,
        filter: &[(String, String)],
        limit: usize,
        mut take: impl FnMut(Vec<Value>),
    ) -> anyhow::Result<bool> {
        if limit == 0 {
            return Ok(false);
        }
        let mut left = limit;
        let mut cursor: Option<String> = None;
        loop {
            let mut pairs = filter.to_vec();
            pairs.push(("limit".into(), left.min(PAGE).to_string()));
            pairs.extend(cursor.clone().map(|cursor| ("cursor".into(), cursor)));
            let Page { mut items, next, partial } = self.get(&format!("{path}{}", query(&pairs))).await?;
            items.truncate(left);
            // The same place again: there is only what a server holds that does not answer.
            if !partial.is_empty() && next == cursor {
                let names = partial.join(",");
                eprintln!("{} not all is shown, these shards do not answer: {names}", tag::warn_aside());
                return Ok(true);
            }
            left -= items.len();
            if !items.is_empty() {
                take(items);
            }
            match next {
                Some(next) if left > 0 => cursor = Some(next),
                next => return Ok(next.is_some()),
            }
        }
    }
}
