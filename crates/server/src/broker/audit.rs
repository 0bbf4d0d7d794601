//! What operators did.

use super::{Broker, Error};
use codeq_queue::{AuditEntry, AuditPage, Audited};

impl Broker {
    /// Tells the log of a verb that was done, and keeps its record unless the verb has stored it (`is_stored`).
    pub async fn note_audit(&self, entry: AuditEntry, is_stored: bool) -> Result<(), Error> {
        tracing::info!(
            verb = &*entry.verb,
            who = &*entry.who,
            tenantId = &*entry.tenant,
            target = &*entry.target,
            count = entry.count,
            requestId = &*entry.request_id,
            "audit"
        );
        match is_stored {
            true => Ok(()),
            false => Ok(self.store.put_audit(entry).await?),
        }
    }

    /// The newest first.
    pub async fn audit(&self, page: AuditPage) -> Result<Audited, Error> {
        Ok(self.store.audit(page).await?)
    }
}
