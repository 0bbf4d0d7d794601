//! What a keyspace has of a batch: counts of its members, changed in the script that changes the member.
//!
//! A share is prepared first, under a token; then the home registers it; then it is opened, by whoever has the token.
//! So a share that was dropped because the batch is over is not opened by somebody who was slow.

use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::{Answered, string};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use codeq_queue::batch::Counts;
use codeq_queue::{Failure, Refusal, TaskId, Time};
use futures_util::future::join_all;
use std::sync::Arc;

use crate::kvrocks::timers::homes::HomeRecord;

/// How often a share is prepared anew that was dropped before it was opened.
const JOIN_TRIES: usize = 4;
const SHUT: u64 = 1;
const STOPPED: u64 = 2;
const PREPARED: u64 = 4;

/// A share as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareLine {
    pub text: String,
    pub counts: Counts,
    pub is_prepared: bool,
    token: String,
    /// What its home calls the keyspace.
    pub name: String,
    pub tenant: String,
}

impl ShareLine {
    pub fn parse(text: &str) -> Option<ShareLine> {
        let fields: Vec<&str> = text.splitn(9, ' ').collect();
        let [live, completed, failed, joined, flags, version, token, name, tenant] = fields.as_slice() else {
            return None;
        };
        let flags: u64 = flags.parse().ok()?;
        let counts = Counts {
            live: live.parse().ok()?,
            completed: completed.parse().ok()?,
            failed: failed.parse().ok()?,
            joined_at: Time::from_millis(joined.parse().ok()?),
            is_closed: flags & SHUT != 0,
            is_cancelled: flags & STOPPED != 0,
            version: version.parse().ok()?,
        };
        Some(ShareLine {
            text: text.into(),
            counts,
            is_prepared: flags & PREPARED != 0,
            token: (*token).into(),
            name: (*name).into(),
            tenant: (*tenant).into(),
        })
    }
}

/// What is done to a share.
pub enum ShareVerb<'a> {
    Prepare {
        name: &'a str,
        tenant: &'a str,
        token: &'a str,
    },
    Open {
        token: &'a str,
    },
    /// `make`: name and tenant of the share, if it is to be made where it is not.
    Shut {
        cancels: bool,
        make: Option<(&'a str, &'a str)>,
    },
    Heard {
        version: u64,
    },
    Drop {
        read: &'a str,
    },
    Calm,
}

impl ShareVerb<'_> {
    fn words(&self) -> (&'static str, Vec<String>) {
        match self {
            ShareVerb::Prepare { name, tenant, token } => {
                ("prepare", vec![(*name).into(), (*tenant).into(), (*token).into()])
            }
            ShareVerb::Open { token } => ("open", vec![(*token).into()]),
            ShareVerb::Shut { cancels, make } => {
                let (name, tenant) = make.unwrap_or_default();
                ("shut", vec![if *cancels { "1" } else { "" }.into(), name.into(), tenant.into()])
            }
            ShareVerb::Heard { version } => ("heard", vec![version.to_string()]),
            ShareVerb::Drop { read } => ("drop", vec![(*read).into()]),
            ShareVerb::Calm => ("calm", Vec::new()),
        }
    }
}

impl StoreContext {
    /// What homes call a keyspace.
    pub fn partition_name(&self, keyspace: usize) -> &str {
        &self.shards[self.keyspaces[keyspace][0]].name
    }

    /// The keyspace of a name.
    pub fn partition(&self, name: &str) -> Result<usize, Failure> {
        let shard = self.shards.iter().position(|shard| *shard.name == *name);
        let shard = shard.ok_or_else(|| Failure::unavailable(format!("shard {name} is not configured")))?;
        Ok(self.keyspace_of(shard))
    }

    pub async fn share_on(&self, keyspace: usize, id: TaskId) -> Result<Option<ShareLine>, Failure> {
        let at = &self.shards[self.keyspaces[keyspace][0]];
        let get = Command::new("HGET").arg(at.keys.of("shares")).arg(id.to_string());
        Ok(ShareLine::parse(&string(at.read_one(get).await?)))
    }

    /// Does something to a share. Gives the word of the answer, and the share where there is one.
    pub async fn change_share(
        &self,
        keyspace: usize,
        id: TaskId,
        now: Time,
        verb: ShareVerb<'_>,
    ) -> Result<(String, Option<ShareLine>), Failure> {
        let at = &self.shards[self.keyspaces[keyspace][0]];
        let (word, args) = verb.words();
        let call = Call::new(Script::Share, vec![at.keys.of("tasks")]);
        let call = call.arg(word).arg(id.to_string()).number(now.millis());
        let call = args.into_iter().fold(call, Call::arg);
        let settle = |replies: Vec<Reply>| {
            let mut answer = Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?;
            let share = ShareLine::parse(&string(answer.next()));
            Ok(((answer.word, share), Vec::new()))
        };
        at.writer.run(vec![call], settle).await
    }

    /// Lets tasks of a keyspace join a batch, as far as can be known now.
    pub async fn join(
        &self,
        tenant: &Arc<str>,
        id: TaskId,
        keyspace: usize,
        now: Time,
    ) -> Result<Result<(), Refusal>, Failure> {
        for _ in 0..JOIN_TRIES {
            match self.share_on(keyspace, id).await? {
                Some(share) if share.tenant != **tenant => return Ok(Err(Refusal::BatchNotFound)),
                Some(share) if share.counts.is_closed => return self.closed_or_gone(id).await.map(Err),
                Some(share) if !share.is_prepared => return Ok(Ok(())),
                _ => {}
            }
            match self.find_home(id).await?.map(|home| home.record.batch) {
                Some(batch) if batch.tenant != *tenant => return Ok(Err(Refusal::BatchNotFound)),
                Some(batch) if batch.closed_at.is_some() => return Ok(Err(Refusal::BatchClosed)),
                Some(_) => {}
                None => return Ok(Err(Refusal::BatchNotFound)),
            }
            if let Some(joined) = self.open_share(tenant, id, keyspace, now).await? {
                return Ok(joined);
            }
        }
        Err(Failure::unavailable("the batch takes no members at the moment"))
    }

    /// A share that is closed may be left of a batch that is gone.
    async fn closed_or_gone(&self, id: TaskId) -> Result<Refusal, Failure> {
        let is_there = self.find_home(id).await?.is_some();
        Ok(if is_there { Refusal::BatchClosed } else { Refusal::BatchNotFound })
    }

    /// `None` if it was dropped in between.
    pub async fn open_share(
        &self,
        tenant: &str,
        id: TaskId,
        keyspace: usize,
        now: Time,
    ) -> Result<Option<Result<(), Refusal>>, Failure> {
        let fresh = format!("{:016x}", rand::random::<u64>());
        let name = self.partition_name(keyspace);
        let prepare = ShareVerb::Prepare { name, tenant, token: &fresh };
        let (_, prepared) = self.change_share(keyspace, id, now, prepare).await?;
        let Some(prepared) = prepared else { return Ok(None) };
        let registered = self.change_home(id, now, |home| home.register(&prepared.name)).await?;
        if let Err(refusal) = registered {
            let drop = ShareVerb::Drop { read: &prepared.text };
            if prepared.is_prepared {
                self.change_share(keyspace, id, now, drop).await?;
            }
            return Ok(Some(Err(refusal)));
        }
        let open = ShareVerb::Open { token: &prepared.token };
        let (word, _) = self.change_share(keyspace, id, now, open).await?;
        Ok((word == "OK").then_some(Ok(())))
    }

    /// Has a share where members of a batch are about to arrive. They come also if the batch takes no more.
    pub async fn share_for_moved(
        &self,
        tenant: &str,
        id: TaskId,
        keyspace: usize,
        now: Time,
    ) -> Result<(), Failure> {
        if self.share_on(keyspace, id).await?.is_some_and(|share| !share.is_prepared) {
            return Ok(());
        }
        let home = self.find_home(id).await?.map(|home| home.record.batch);
        let Some(batch) = home.filter(|batch| batch.end.is_none() && *batch.tenant == *tenant) else {
            return Ok(());
        };
        let (fresh, name) = (format!("{:016x}", rand::random::<u64>()), self.partition_name(keyspace));
        let prepare = ShareVerb::Prepare { name, tenant, token: &fresh };
        let Some(prepared) = self.change_share(keyspace, id, now, prepare).await?.1 else { return Ok(()) };
        if self.change_home(id, now, |home| Ok(home.add(&prepared.name))).await?.is_err() {
            return Ok(());
        }
        self.change_share(keyspace, id, now, ShareVerb::Open { token: &prepared.token }).await?;
        if batch.closed_at.is_some() {
            let shut = ShareVerb::Shut { cancels: batch.is_cancelled, make: None };
            self.change_share(keyspace, id, now, shut).await?;
        }
        Ok(())
    }

    /// What the keyspaces of a batch have now, and whether all of them answered. With `cancels` they take no more
    /// members from now on, and cancel those that live if it is true.
    pub async fn ask_shares(
        &self,
        home: &HomeRecord,
        cancels: Option<bool>,
        now: Time,
    ) -> (Vec<(String, Counts)>, Option<Failure>) {
        let (id, tenant) = (home.batch.id, &*home.batch.tenant);
        let asked = home.names.iter().map(|name| async move {
            let keyspace = self.partition(name)?;
            let share = match cancels {
                None => self.share_on(keyspace, id).await?,
                Some(cancels) => {
                    let shut = ShareVerb::Shut { cancels, make: Some((name, tenant)) };
                    self.change_share(keyspace, id, now, shut).await?.1
                }
            };
            Ok(share.map(|share| (name.clone(), counts_of(name, &share))))
        });
        let (mut known, mut failure) = (Vec::new(), None);
        for answer in join_all(asked).await {
            match answer {
                Ok(counts) => known.extend(counts),
                Err(away) => failure = Some(away),
            }
        }
        (known, failure)
    }
}

/// A keyspace that has its counts under another of its names has nothing under this one.
fn counts_of(name: &str, share: &ShareLine) -> Counts {
    match share.name == name {
        true => share.counts,
        false => Counts {
            is_closed: share.counts.is_closed,
            is_cancelled: share.counts.is_cancelled,
            version: share.counts.version,
            ..Counts::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_as_scripts_write_it() {
        let share = ShareLine::parse("3 2 1 1700000000000 5 9 00ff p7 acme eu").unwrap();
        assert_eq!((share.counts.live, share.counts.completed, share.counts.failed), (3, 2, 1));
        assert_eq!(
            (share.counts.is_closed, share.counts.is_cancelled, share.is_prepared),
            (true, false, true)
        );
        assert_eq!((share.counts.version, &*share.name, &*share.tenant), (9, "p7", "acme eu"));
        assert_eq!(counts_of("p8", &share).live, 0);
        assert_eq!((ShareLine::parse(""), ShareLine::parse("1 2 3")), (None, None));
    }
}
