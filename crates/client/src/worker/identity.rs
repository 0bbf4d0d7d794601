//! Who a worker is: the name of its leases, and what it tells of itself.

use crate::Error;
use codeq_api::grpc::worker as pb;
use codeq_api::work::WorkerInfo;
use serde_json::value::RawValue;

/// Longest name.
const NAME_BYTES: usize = 128;

#[derive(Clone)]
pub(super) struct Identity {
    pub name: String,
    info: WorkerInfo,
}

impl Identity {
    /// Host and process, unless it has a name.
    pub fn new(name: String, slots: usize) -> Result<Identity, Error> {
        let (host, pid) = (host(), std::process::id());
        let name = match name.trim() {
            "" => short(&format!("{host}-{pid}")),
            name => name.to_owned(),
        };
        if name.len() > NAME_BYTES || !name.bytes().all(|c| c.is_ascii_graphic()) {
            let text = format!("a worker's name has 1 to {NAME_BYTES} visible ASCII characters");
            return Err(Error::Settings(text));
        }
        let info = WorkerInfo {
            host: Some(short(&host)),
            pid: Some(pid.into()),
            sdk: Some("rust".to_owned()),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            slots: i64::try_from(slots).ok(),
        };
        Ok(Identity { name, info })
    }

    /// For the body of a claim.
    pub fn json(&self) -> Option<Box<RawValue>> {
        serde_json::value::to_raw_value(&self.info).ok()
    }

    /// For the first event of a stream.
    pub fn message(&self) -> pb::WorkerInfo {
        let WorkerInfo { host, pid, sdk, version, slots } = self.info.clone();
        let number = |number: Option<i64>| number.and_then(|number| i32::try_from(number).ok()).unwrap_or(0);
        pb::WorkerInfo {
            host: host.unwrap_or_default(),
            pid: number(pid),
            sdk: sdk.unwrap_or_default(),
            version: version.unwrap_or_default(),
            slots: number(slots),
        }
    }
}

fn host() -> String {
    let told = ["/proc/sys/kernel/hostname", "/etc/hostname"]
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok());
    let host = told.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let visible: String = host.trim().chars().map(|c| if c.is_ascii_graphic() { c } else { '-' }).collect();
    if visible.is_empty() { "localhost".to_owned() } else { visible }
}

/// The end says most: it holds the process, and in a cluster what tells hosts apart.
fn short(text: &str) -> String {
    text[text.len().saturating_sub(NAME_BYTES)..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_its_host_and_process_unless_it_has_a_name() {
        let made = Identity::new(String::new(), 8).unwrap();
        assert!(made.name.ends_with(&format!("-{}", std::process::id())), "{}", made.name);
        assert!(made.json().unwrap().get().len() <= 512);
        assert_eq!(made.message().slots, 8);
        assert_eq!(Identity::new(" w-1 ".into(), 1).unwrap().name, "w-1");
        for bad in ["a b", "é", &"x".repeat(129)] {
            assert!(matches!(Identity::new(bad.to_owned(), 1), Err(Error::Settings(_))), "{bad}");
        }
    }
}
