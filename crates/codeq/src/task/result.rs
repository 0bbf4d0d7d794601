//! `codeq task result`.

use crate::client::{Api, path};
use crate::say;
use std::time::{Duration, Instant};

/// Longest wait of one request; longer waits ask again.
const POLL_SECONDS: u64 = 30;

/// Show the result of a task as JSON.
///
/// Without --wait a task that has not ended yet is an error.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq task result 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11\n  \
    codeq task result 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11 --wait 60")]
pub struct Result {
    /// Id of the task.
    id: String,
    /// Seconds to wait for the result.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, default_missing_value = "30", num_args = 0..=1)]
    wait: u64,
    /// Accepted for symmetry: a result is always shown as JSON.
    #[arg(long, hide = true)]
    json: bool,
}

impl Result {
    pub async fn run(self, api: &Api) -> anyhow::Result<()> {
        let end = Instant::now() + Duration::from_secs(self.wait);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let seconds = (left.as_secs_f64().ceil() as u64).min(POLL_SECONDS);
            let query = if seconds > 0 { format!("?waitSeconds={seconds}") } else { String::new() };
            let path = format!("{}{query}", path(&["tasks", &self.id, "result"]));
            match api.get_waiting(&path, Duration::from_secs(seconds)).await {
                Ok(result) => {
                    say!("{result}");
                    return Ok(());
                }
                // A task that does not exist will not get a result either.
                Err(error) if left.as_secs() > POLL_SECONDS && is_pending(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_pending(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref::<crate::client::Refused>();
    refused.is_some_and(|refused| refused.status == 404 && refused.body.contains("result not found"))
}
