//! Moving tasks between servers.

use super::{Broker, Error};
use codeq_queue::store::{Import, Pieces, ResultLookup, TaskRef, Wait};
use codeq_queue::{Failure, Filter, Page, Refusal, ResultRecord, Task};
use std::sync::Arc;

/// Tasks asked of the store at once.
const ASKED_AT_ONCE: usize = 500;

/// A task on its way out, with its result if it has ended.
pub type Moved = (Task, Option<ResultRecord>);

impl Broker {
    /// The next tasks that match, the oldest first, and where to go on.
    pub async fn export(
        &self,
        tenant: Option<Arc<str>>,
        filter: Arc<Filter>,
        cursor: Option<String>,
    ) -> Result<(Vec<Moved>, Option<String>), Error> {
        let page = Page { tenant, filter, is_newest_first: false, cursor, limit: ASKED_AT_ONCE };
        let listed = self.list(page).await?;
        super::search::whole(&listed.missing)?;
        let mut moved = Vec::with_capacity(listed.tasks.len());
        for task in listed.tasks {
            if !task.has_result() {
                moved.push((task, None));
                continue;
            }
            let named = TaskRef { tenant: task.body.tenant.clone(), id: task.id };
            // Whatever is gone by now needs no moving; what lives again goes as it is now.
            match self.store.result(named.clone(), Wait::No).await? {
                ResultLookup::Done { task, record } => moved.push((task, Some(record))),
                ResultLookup::NotFound => {}
                ResultLookup::Pending => {
                    let again = self.store.get(vec![named]).await?.pop().flatten();
                    moved.extend(again.filter(|task| !task.has_result()).map(|task| (task, None)));
                }
            }
        }
        Ok((moved, listed.next))
    }

    /// Everything, as of one instant.
    pub async fn backup(&self) -> Result<Pieces, Error> {
        Ok(self.store.backup().await??)
    }

    /// Whether each was stored; false if its id was there.
    pub async fn import(&self, tasks: Vec<Import>) -> Result<Vec<Result<bool, Refusal>>, Failure> {
        self.store.import(tasks).await
    }
}
