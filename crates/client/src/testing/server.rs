//! `codeq dev` for the length of a test.

use crate::{Error, http, limits};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// `codeq dev` on a free port. It keeps nothing and ends when this is dropped. The binary is `CODEQ_BIN`, or `codeq` on
/// the PATH.
pub struct DevServer {
    url: String,
    child: Child,
}

impl DevServer {
    /// The token that it takes.
    pub const TOKEN: &'static str = "dev-token";

    /// A server in memory.
    pub fn start() -> Result<DevServer, Error> {
        DevServer::with(&["--memory"])
    }

    /// A server whose time stands still until [`DevServer::advance`] moves it.
    pub fn with_test_clock() -> Result<DevServer, Error> {
        DevServer::with(&["--test-clock"])
    }

    fn with(arguments: &[&str]) -> Result<DevServer, Error> {
        let binary = std::env::var_os("CODEQ_BIN").unwrap_or_else(|| "codeq".into());
        let mut command = Command::new(&binary);
        command.args(["dev", "--port", "0"]).args(arguments).current_dir(std::env::temp_dir());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let failed = |text: String| Error::Settings(format!("{}: {text}", binary.to_string_lossy()));
        let mut child = command.spawn().map_err(|error| failed(format!("{error}; set CODEQ_BIN")))?;
        let mut lines = child.stdout.take().map(|output| BufReader::new(output).lines());
        let said = lines.iter_mut().flatten().map_while(Result::ok);
        let url = said.filter_map(|line| Some(line.split_once("listening on ")?.1.trim().to_owned())).next();
        let Some(url) = url else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed("did not start; run it to see why".into()));
        };
        // Whatever it says later must not fill the pipe.
        std::thread::spawn(move || lines.into_iter().flatten().for_each(drop));
        Ok(DevServer { url, child })
    }

    /// The base URL of its HTTP API.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Moves the clock and returns when everything that fell due has happened.
    pub async fn advance(&self, time: Duration) -> Result<(), Error> {
        let connection = crate::Connection::new(DevServer::TOKEN).http(&self.url);
        let body = format!(r#"{{"advanceSeconds":{}}}"#, crate::time::whole_seconds(time));
        http::Http::new(&connection)?.post("/test/clock", body, limits::RESULT_WAIT).await.map(|_| ())
    }
}

impl Drop for DevServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
