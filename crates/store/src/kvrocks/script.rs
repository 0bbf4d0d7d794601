//! The scripts, one per operation, and their names in the server.

use super::connection::{Command, Connection, Reply, Trouble};

macro_rules! scripts {
    ($($name:ident = [$($file:literal),+];)+) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Script { $($name,)+ }

        impl Script {
            const ALL: &[(Script, &str)] =
                &[$((Script::$name, concat!($(include_str!(concat!("scripts/", $file, ".lua")), "\n"),+)),)+];
        }
    };
}

scripts! {
    Enqueue = ["base", "record", "turn", "stop", "intake", "enqueue"];
    Import = ["base", "import"];
    Claim = ["base", "record", "turn", "stop", "due", "claim"];
    Sweep = ["base", "record", "turn", "stop", "due", "sweep"];
    Walk = ["base", "record", "turn", "stop", "due", "walk"];
    Glance = ["base", "glance"];
    Heartbeat = ["base", "record", "turn", "guard", "heartbeat"];
    Nack = ["base", "record", "turn", "stop", "guard", "stopped", "nack"];
    Abandon = ["base", "record", "turn", "stop", "guard", "stopped", "abandon"];
    Submit = ["base", "record", "turn", "guard", "submit"];
    Cancel = ["base", "record", "turn", "stop", "cancel"];
    Requeue = ["base", "record", "turn", "requeue"];
    Remove = ["base", "record", "remove"];
    Adopt = ["base", "record", "turn", "adopt"];
    SchedulePut = ["base", "schedule_put"];
    SchedulePlace = ["schedule_place"];
    Tick = ["base", "record", "turn", "stop", "intake", "tick"];
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
    Depart = ["base", "record", "depart"];
    Arrive = ["base", "arrive"];
    Leave = ["base", "record", "leave"];
    Shift = ["base", "record", "shift"];
}

/// One run of a script.
#[derive(Clone, Debug)]
pub struct Call {
    pub script: Script,
    pub keys: Vec<String>,
    pub args: Vec<Vec<u8>>,
}

impl Call {
    pub fn new(script: Script, keys: Vec<String>) -> Call {
        Call { script, keys, args: Vec::new() }
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

impl Names {
    /// Names of nothing: a server answers that it does not know them, and is told the scripts then.
    pub fn unknown() -> Names {
        Names(Script::ALL.iter().map(|_| vec![b'0'; 40]).collect())
    }

    /// Loads every script; they stay loaded until the server forgets them.
    pub async fn load(connection: &Connection) -> Result<Names, Trouble> {
        let loads: Vec<Command> =
            Script::ALL.iter().map(|(_, source)| Command::new("SCRIPT").arg("LOAD").arg(*source)).collect();
        let replies = connection.exchange(&loads).await?;
        let names = replies.into_iter().map(|reply| match reply {
            Reply::Text(name) => Ok(name),
            other => Err(Trouble::Unsent(format!("SCRIPT LOAD: {other:?}"))),
        });
        Ok(Names(names.collect::<Result<_, _>>()?))
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
            for search in ["LREM", "LPOS", "LINSERT"] {
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
