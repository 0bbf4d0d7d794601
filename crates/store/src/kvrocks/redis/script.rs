//! The scripts, one per operation, and their names in the server.

use crate::kvrocks::redis::connection::{Command, Connection, ExchangeError, Reply};
use crate::kvrocks::redis::reply::{int, list};
use codeq_queue::audit::Note;
use std::sync::{Arc, OnceLock};

/// Around every script: the record of an operator's deed, whose key comes last, is stored if the deed was done; what is
/// left for a carrier is told at the end of the reply.
macro_rules! begin {
    () => {
        concat!(include_str!("../scripts/begin.lua"), "local function run()\n")
    };
}
macro_rules! end {
    () => {
        concat!("end\n", include_str!("../scripts/end.lua"))
    };
}

/// The last value of a reply of a script that has left something to carry.
pub const NOTED: &[u8] = b"NOTED";
/// Stands before that in a reply of a script that has stored the record of an operator's deed.
pub const AUDITED: &[u8] = b"AUDITED";

macro_rules! scripts {
    ($($name:ident = [$($file:literal),+];)+) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Script { $($name,)+ }

        impl Script {
            const ALL: &[(Script, &str)] =
                &[$((
                    Script::$name,
                    concat!(begin!(), $(include_str!(concat!("../scripts/", $file, ".lua")), "\n",)+ end!()),
                ),)+];
        }
    };
}

scripts! {
    Create = ["base", "record", "policy", "lanes", "slots", "links", "turn", "stop", "joining", "intake", "create"];
    Import = ["base", "record", "policy", "lanes", "slots", "import"];
    Claim = ["base", "record", "policy", "lanes", "slots", "links", "turn", "stop", "due", "flow", "claim"];
    Sweep = ["base", "record", "policy", "lanes", "slots", "links", "turn", "stop", "due", "sweep"];
    Walk = ["base", "record", "policy", "lanes", "slots", "links", "turn", "stop", "due", "walk"];
    Glance = ["base", "glance"];
    Heartbeat = ["base", "record", "policy", "lanes", "slots", "links", "turn", "guard", "heartbeat"];
    Nack = ["base", "record", "policy", "lanes", "slots", "links", "turn", "stop", "guard", "stopped", "nack"];
    Abandon = ["base", "record", "policy", "lanes", "slots", "links", "turn", "stop", "guard", "stopped", "abandon"];
    Submit = ["base", "record", "policy", "lanes", "slots", "links", "turn", "guard", "submit"];
    Cancel = ["base", "record", "policy", "lanes", "slots", "links", "turn", "stop", "cancel"];
    Requeue = ["base", "record", "policy", "lanes", "slots", "links", "turn", "requeue"];
    RunNow = ["base", "record", "policy", "lanes", "slots", "links", "turn", "run_now"];
    Remove = ["base", "record", "remove"];
    Adopt = ["base", "record", "policy", "lanes", "slots", "links", "turn", "adopt"];
    SchedulePut = ["base", "schedule_put"];
    SchedulePlace = ["schedule_place"];
    Tick = ["base", "record", "policy", "lanes", "slots", "links", "turn", "stop", "joining", "intake", "tick"];
    PolicyPut = ["base", "record", "policy", "lanes", "slots", "policy_put"];
    LanesArrange = ["base", "record", "policy", "lanes", "slots", "lanes_arrange"];
    QueueDrop = ["base", "queue_drop"];
    Pause = ["pause"];
    OutboxTake = ["outbox_take"];
    OutboxDone = ["outbox_done"];
    OutboxMove = ["outbox_move"];
    OutboxForget = ["outbox_forget"];
    TopicPut = ["topic_put"];
    SubscriptionPut = ["subscription_put"];
    SubscriptionRemove = ["subscription_remove"];
    Notify = ["notify"];
    OperationPut = ["operation_put"];
    Rewrite = ["rewrite"];
    Depart = ["base", "record", "policy", "lanes", "slots", "depart"];
    Arrive = ["base", "record", "policy", "lanes", "slots", "links", "arrive"];
    Leave = ["base", "record", "links", "leave"];
    Shift = ["base", "record", "policy", "lanes", "slots", "shift"];
    Release = ["base", "record", "policy", "lanes", "slots", "links", "turn", "stop", "release"];
    Watch = ["base", "record", "links", "watch"];
    Told = ["base", "told"];
    BatchPut = ["base", "record", "links", "batch_put"];
    Share = ["base", "record", "links", "share"];
}

/// One run of a script.
#[derive(Clone, Debug)]
pub struct Call {
    pub script: Script,
    pub keys: Vec<String>,
    pub args: Vec<Vec<u8>>,
    /// The record that it stores if what it says is done.
    pub note: Option<Arc<Note>>,
}

impl Call {
    pub fn new(script: Script, keys: Vec<String>) -> Call {
        Call { script, keys, args: Vec::new(), note: None }
    }

    pub fn arg(mut self, arg: impl Into<Vec<u8>>) -> Call {
        self.args.push(arg.into());
        self
    }

    pub fn number(self, number: impl ToString) -> Call {
        self.arg(number.to_string())
    }

    /// The command with the text of the script in it, for a server that does not know it.
    pub fn in_full(&self) -> Command {
        Command::new("EVAL")
            .arg(Script::ALL[self.script as usize].1)
            .arg(self.keys.len().to_string())
            .args(self.keys.iter().map(String::as_str))
            .args(self.args.iter().cloned())
    }

    pub fn bytes(&self) -> usize {
        self.keys.iter().map(String::len).sum::<usize>() + self.args.iter().map(Vec::len).sum::<usize>()
    }
}

/// The names under which the server knows the scripts.
#[derive(Clone, Debug)]
pub struct Names(Vec<Vec<u8>>);

/// Once any server has told them.
static NAMES: OnceLock<Names> = OnceLock::new();

impl Names {
    /// Names of nothing: a server answers that it does not know them, and is told the scripts then.
    pub fn unknown() -> Names {
        Names(Script::ALL.iter().map(|_| vec![b'0'; 40]).collect())
    }

    /// Loads every script; they stay loaded until the server forgets them. Their names are the same everywhere, so a server is
    /// only told what it does not know: in a cluster many connections lead to the same one.
    pub async fn load(connection: &Connection) -> Result<Names, ExchangeError> {
        if let Some(names) = NAMES.get() {
            let ask = Command::new("SCRIPT").arg("EXISTS").args(names.0.iter().cloned());
            let known = connection.exchange(&[ask]).await?.pop().map(list).unwrap_or_default();
            if known.len() == names.0.len() && known.iter().all(|known| int(known) == 1) {
                return Ok(names.clone());
            }
        }
        let loads: Vec<Command> =
            Script::ALL.iter().map(|(_, source)| Command::new("SCRIPT").arg("LOAD").arg(*source)).collect();
        let replies = connection.exchange(&loads).await?;
        let names = replies.into_iter().map(|reply| match reply {
            Reply::Text(name) => Ok(name),
            other => Err(ExchangeError::Unsent(format!("SCRIPT LOAD: {other:?}"))),
        });
        let names = Names(names.collect::<Result<_, _>>()?);
        let _ = NAMES.set(names.clone());
        Ok(names)
    }

    pub fn command(&self, call: &Call) -> Command {
        let name = self.0[call.script as usize].clone();
        Command::new("EVALSHA")
            .arg(name)
            .arg(call.keys.len().to_string())
            .args(call.keys.iter().map(String::as_str))
            .args(call.args.iter().cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bulk cancel of 20,000 ready tasks stopped every tenant for minutes, because each searched its list.
    #[test]
    fn no_script_searches_a_list() {
        for (script, source) in Script::ALL {
            for search in ["LREM", "LPOS", "LINSERT", "KEYS", "SCAN", "HSCAN", "ZSCAN", "SSCAN"] {
                assert!(!source.contains(&format!("'{search}'")), "{script:?} has {search}");
            }
        }
    }

    #[test]
    fn scripts_are_listed_in_the_order_of_their_numbers() {
        for (at, (script, _)) in Script::ALL.iter().enumerate() {
            assert_eq!(*script as usize, at);
        }
    }
}
