//! What operators did.

use super::{Broker, Error};
use codeq_queue::{AuditEntry, AuditPage, Audited};

impl Broker {
    /// Keeps a record of a verb that was done, and tells the log.
    pub async fn note_audit(&self, entry: AuditEntry) -> Result<(), Error> {
        tracing::info!(
            verb = &*entry.verb,
            who = &*entry.who,
            tenantId = &*entry.tenant,
            target = &*entry.target,
            count = entry.count,
            requestId = &*entry.request_id,
            "audit"
        );
        Ok(self.store.put_audit(entry).await?)
    }

    /// The newest first.
    pub async fn audit(&self, page: AuditPage) -> Result<Audited, Error> {
        Ok(self.store.audit(page).await?)
    }
}
