//! Claims that look at their commands in an order that is drawn for each of them.

use super::Broker;
use codeq_queue::order::{self, ReadyQuestion, Weights};
use codeq_queue::store::{Claim, Wait};
use codeq_queue::{Commands, Failure, Task, limits};

/// What became of a fair claim at first sight.
pub enum Drawn {
    /// The answer.
    Taken(Vec<Task>),
    /// Nothing was decided yet: to be served, or held, as it now stands.
    Open(Claim),
}

impl Broker {
    /// Draws the order of named commands, which a held claim keeps: it is served by whichever queue is fed
    /// first. A claim of any command first looks at queues with ready work, in an order drawn of them; the store
    /// draws the ones that are looked at, so that it costs the same however many there are.
    pub(super) async fn take_drawn(&self, claim: Claim, weights: &Weights) -> Result<Drawn, Failure> {
        let ready = match &claim.commands {
            Commands::These(commands) => {
                let commands = Commands::These(drawn(commands.to_vec(), weights).into());
                return Ok(Drawn::Open(Claim { commands, ..claim }));
            }
            Commands::Any => {
                let (tenant, named) = (claim.tenant.clone(), weights.commands());
                let asked = ReadyQuestion { tenant, named, most: limits::CLAIM_COMMANDS };
                self.store.ready_commands(asked).await?
            }
        };
        let mut named = order::draw_ready(ready, weights, rand::random::<u64>);
        named.truncate(limits::CLAIM_COMMANDS);
        if !named.is_empty() {
            let now = Claim { commands: Commands::These(named.into()), wait: Wait::No, ..claim.clone() };
            let tasks = self.store.claim(now).await?;
            if !tasks.is_empty() {
                return Ok(Drawn::Taken(tasks));
            }
        }
        // Others were faster, or there is nothing yet.
        Ok(Drawn::Open(claim))
    }
}

fn drawn(commands: Vec<std::sync::Arc<str>>, weights: &Weights) -> Vec<std::sync::Arc<str>> {
    order::draw(commands, weights, rand::random::<u64>)
}
