//! Creates without the store around them: what a bench compares the store with.

use crate::Clock;
use crate::kvrocks::format::keys::Keys;
use crate::kvrocks::format::record::RecordExtras;
use crate::kvrocks::redis::connection::{Command, Connection, Reply, Target};
use crate::kvrocks::redis::script::{Call, Names, Script};
use crate::kvrocks::store::options::KvrocksOptions;
use crate::kvrocks::verbs::create::new_task;
use crate::kvrocks::verbs::intake::{Intake, without_endings};
use codeq_queue::{NewTask, QueueKey};
use std::sync::Arc;
use std::time::Duration;

/// One connection that sends one MULTI, EVALSHA, EXEC per task and awaits its reply. Nothing is gathered.
pub struct Bare {
    connection: Connection,
    names: Names,
    keys: Keys,
    retention: Duration,
    clock: Arc<dyn Clock>,
}

impl Bare {
    pub async fn connect(options: &KvrocksOptions) -> Result<Bare, String> {
        let target = Target {
            backend: options.backend.clone(),
            slot: None,
            timeout: options.timeout,
            silence: options.silence,
            expected: None,
        };
        let connection = Connection::new(target, Arc::default());
        let names = Names::load(&connection).await.map_err(|trouble| trouble.text().to_owned())?;
        let keys = Keys::new(&options.sharding.default_shard, false);
        Ok(Bare { connection, names, keys, retention: options.rules.retention, clock: options.clock.clone() })
    }

    pub async fn create(&self, new: NewTask) -> Result<(), String> {
        let task = new_task(new, self.clock.now(), 0, None);
        let queue = QueueKey::new(&task.body.tenant, &task.body.command);
        let beside = RecordExtras { number: 0, shard: "", unknown: "" };
        let intake = Intake {
            keys: &self.keys,
            queue: &queue,
            retention: self.retention,
            home: self.keys.suffix(),
            only: false,
        };
        let call = without_endings(Call::new(Script::Create, self.keys.with_queue(&queue)));
        let call = intake.append(call, [(&task, beside)].into_iter());
        let commands = [Command::new("MULTI"), self.names.command(&call), Command::new("EXEC")];
        let replies = self.connection.exchange(&commands).await;
        match replies.map_err(|trouble| trouble.text().to_owned())?.pop() {
            Some(Reply::List(done)) if matches!(done.as_slice(), [Reply::List(_)]) => Ok(()),
            other => Err(format!("EXEC answered {other:?}")),
        }
    }
}
