//! The operations that create, lend, read and operate, each done to the store and to the model.

use super::choice::TENANTS;
use super::compare::{same_history, same_stats};
use super::driver::{Compared, Driver, same, unnumbered, unnumbered_result};
use codeq_queue::store::{Cancel, Created, ResultLookup, TaskRef, Wait};
use codeq_queue::{Refusal, State, Task, TaskId, Time};
use rand::Rng;
use std::time::Duration;

impl Driver {
    pub(super) async fn operate(&mut self) -> Compared {
        match self.rng.random_range(0..100) {
            0..24 => self.create().await,
            24..44 => self.claim().await,
            44..54 => self.submit().await,
            54..61 => self.nack().await,
            61..67 => self.abandon().await,
            67..72 => self.heartbeat().await,
            72..75 => self.cancel().await,
            75..78 => self.requeue().await,
            78 if self.one_in(2) => self.remove().await,
            78 => self.run_now().await,
            79 => self.cleanup().await,
            80..82 => self.pause_or_resume().await,
            82..84 => self.get().await,
            84..86 => self.result().await,
            86..88 => self.stats().await,
            88 => self.attempts().await,
            89 => self.reopen().await,
            90 => self.put_policy().await,
            _ => self.move_clock().await,
        }
    }

    async fn create(&mut self) -> Compared {
        let count = if self.one_in(4) { self.rng.random_range(2..6) } else { 1 };
        let asked: Vec<_> = (0..count).map(|_| self.request()).collect();
        self.doing = format!("create {asked:?}");
        let answers = self.ask("create", self.store().create(asked.clone())).await?;
        same("the number of answers", &answers.len(), &asked.len())?;
        for (new, answer) in asked.iter().zip(answers) {
            let made = answer.map_err(|refusal| format!("refused: {refusal}"))?;
            if !made.is_replay {
                let named = TaskRef { tenant: new.body.tenant.clone(), id: made.task.id };
                same("an id is new", &self.known.contains(&named), &false)?;
                self.known.push(named);
            }
            let expected = self.model.create(new, made.task.id);
            let plain = |c: Created| Created { task: unnumbered(c.task), ..c };
            same("create", &plain(made), &plain(expected))?;
        }
        Ok(())
    }

    async fn claim(&mut self) -> Compared {
        let wish = self.wish();
        self.doing = format!("{wish:?}");
        let tasks = self.ask("claim", self.store().claim(wish.clone())).await?;
        for task in &tasks {
            let allowed = self.model.candidates(&wish);
            if !allowed.contains(&task.id) {
                return Err(format!("{} was lent, it was the turn of {allowed:?}", task.id));
            }
            same("claim", &unnumbered(task.clone()), &unnumbered(self.model.lend(task.id, &wish)))?;
        }
        if tasks.len() > wish.count {
            return Err(format!("{} tasks were lent", tasks.len()));
        }
        let left = self.model.candidates(&wish);
        match tasks.len() < wish.count && !left.is_empty() {
            true => Err(format!("only {} tasks were lent, there were {left:?}", tasks.len())),
            false => Ok(()),
        }
    }

    async fn cancel(&mut self) -> Compared {
        let named = self.target(|entry| entry.record.is_none());
        self.doing = format!("cancel {named:?}");
        let found = self.ask("cancel", self.store().cancel(vec![Cancel::now(named.clone())])).await?;
        let found: Vec<_> = found.into_iter().map(|item| item.map(unnumbered)).collect();
        same("cancel", &found, &vec![self.model.cancel(&named).map(unnumbered)])
    }

    async fn requeue(&mut self) -> Compared {
        let named = self.target(|entry| entry.task.state == State::Dead);
        let max_attempts = if self.one_in(2) { Some(self.rng.random_range(1..4)) } else { None };
        self.doing = format!("requeue {named:?} with {max_attempts:?}");
        let found = self.ask("requeue", self.store().requeue(vec![named.clone()], max_attempts)).await?;
        let found: Vec<_> = found.into_iter().map(|item| item.map(unnumbered)).collect();
        same("requeue", &found, &vec![self.model.requeue(&named, max_attempts).map(unnumbered)])
    }

    async fn run_now(&mut self) -> Compared {
        let named = self.target(|entry| matches!(entry.task.state, State::Delayed { .. }));
        self.doing = format!("run now {named:?}");
        let found = self.ask("run now", self.store().run_now(vec![named.clone()])).await?;
        let found: Vec<_> = found.into_iter().map(|item| item.map(unnumbered)).collect();
        same("run now", &found, &vec![self.model.run_now(&named).map(unnumbered)])
    }

    async fn remove(&mut self) -> Compared {
        let named = self.target(|entry| entry.task.state == State::Dead);
        self.doing = format!("remove {named:?}");
        let found = self.ask("remove", self.store().remove(vec![named.clone()])).await?;
        same("remove", &found, &vec![self.model.remove(&named)])
    }

    /// Which of the tasks that may go do go is left to the store; how many is not.
    async fn cleanup(&mut self) -> Compared {
        let (tenant, limit) = (self.tenant(), self.rng.random_range(0..8));
        let ahead = Duration::from_millis(self.rng.random_range(0..150_000));
        let before = if self.one_in(4) { Time::MAX } else { self.model.now.plus(ahead) };
        self.doing = format!("cleanup of {tenant} before {before:?}, at most {limit}");
        let found = self.ask("cleanup", self.store().cleanup(tenant.clone(), before, limit)).await?;
        let may_go = self.model.cleanable(&tenant, before);
        same("how many are cleaned up", &found, &(limit.min(may_go.len()) as u64))?;
        let named: Vec<TaskRef> =
            may_go.iter().map(|id| TaskRef { tenant: tenant.clone(), id: *id }).collect();
        let left = self.ask("get", self.store().get(named)).await?;
        let gone: Vec<TaskId> =
            may_go.iter().zip(left).filter(|(_, task)| task.is_none()).map(|(id, _)| *id).collect();
        same("how many are gone", &(gone.len() as u64), &found)?;
        gone.iter().for_each(|id| self.model.forget(*id));
        Ok(())
    }

    async fn pause_or_resume(&mut self) -> Compared {
        let key = self.queue();
        let is_pause = self.one_in(3);
        self.doing = format!("pause ({is_pause}) {key:?}");
        let (answer, expected) = match is_pause {
            true => (self.store().pause(key.clone()), self.model.pause(&key)),
            false => (self.store().resume(key.clone()), self.model.resume(&key)),
        };
        let found = self.ask("pause or resume", answer).await?;
        same_stats(&self.model, &found, &expected)
    }

    async fn put_policy(&mut self) -> Compared {
        let (queue, (text, limits)) = self.policy();
        self.doing = format!("policy of {queue:?}: {text}");
        let store = self.store();
        let Some(policing) = store.policing() else { return Ok(()) };
        let was_ordered = self.model.limits.get(&queue).is_some_and(|limits| limits.is_ordered);
        let is_busy = !self.model.is_empty(&queue);
        match self.ask("policy", policing.put_policy(queue.clone(), text.into())).await? {
            Ok(_) => drop(self.model.limits.insert(queue, limits)),
            Err(Refusal::QueueNotEmpty) if is_busy && was_ordered != limits.is_ordered => {}
            Err(refusal) => return Err(format!("refused: {refusal}")),
        }
        Ok(())
    }

    async fn get(&mut self) -> Compared {
        let named: Vec<TaskRef> = (0..3).map(|_| self.target(|_| true)).collect();
        self.doing = format!("get {named:?}");
        let found = self.ask("get", self.store().get(named.clone())).await?;
        let plain = |task: Option<Task>| task.map(unnumbered);
        let expected: Vec<_> = named.iter().map(|named| plain(self.model.get(named))).collect();
        same("get", &found.into_iter().map(plain).collect(), &expected)
    }

    async fn result(&mut self) -> Compared {
        let named = self.target(|entry| entry.record.is_some());
        self.doing = format!("result of {named:?}");
        let found: ResultLookup = self.ask("result", self.store().result(named.clone(), Wait::No)).await?;
        same("result", &unnumbered_result(found), &unnumbered_result(self.model.result(&named)))
    }

    async fn stats(&mut self) -> Compared {
        if self.one_in(3) {
            let tenant = self.pick(&TENANTS);
            return self.compare_queues(tenant).await;
        }
        let key = self.queue();
        self.doing = format!("stats of {key:?}");
        let found = self.ask("queue", self.store().queue(key.clone())).await?;
        same_stats(&self.model, &found, &self.model.stats(&key))
    }

    async fn attempts(&mut self) -> Compared {
        let named = self.target(|entry| !entry.history.is_empty());
        self.doing = format!("attempts of {named:?}");
        let found = self.ask("attempts", self.store().attempts(named.clone())).await?;
        same_history(found, self.model.attempts(&named))
    }
}
