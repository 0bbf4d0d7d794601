//! The gate before the routes: one function per route group.

use super::bearer;
use super::caller::{Access, Admin, Caller, Operator, Producer, Reader, Worker};
use super::denied::Denied;
use super::known::{Group, Standing, TokenCache};
use super::provider::{MAX_TOKEN_BYTES, Provider, ProviderConfig, Setting, Verified};
use super::scope::Scope;
use codeq_store::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A producer stands in for a worker only so long while the worker provider cannot be asked.
const STAND_IN: Duration = Duration::from_secs(10);

/// What a gate is made of.
pub struct GateOptions {
    pub producer: Option<ProviderConfig>,
    pub worker: Option<ProviderConfig>,
    /// A producer token may do what a worker may.
    pub allow_producer_as_worker: bool,
    /// Admins may use what concerns every tenant: a development server has one person and one tenant.
    pub admins_operate: bool,
    /// Leeway of providers that name no `clockSkew`.
    pub clock_skew: Duration,
    pub clock: Arc<dyn Clock>,
}

/// Says who calls and what they may do.
///
/// Must be used on a Tokio runtime: keys are fetched by tasks of their own.
pub struct Gate {
    producer: Option<Provider>,
    worker: Option<Provider>,
    allow_producer_as_worker: bool,
    admins_operate: bool,
    known: TokenCache,
    verifications: AtomicU64,
    clock: Arc<dyn Clock>,
}

/// An accepted caller, and for how long it may be remembered.
type Accepted = (Arc<Caller>, Standing);

impl Gate {
    /// The error is the text of `init app`. Nothing is fetched yet.
    pub fn new(options: GateOptions) -> Result<Gate, String> {
        let setting = Setting { clock_skew: options.clock_skew, clock: options.clock.clone() };
        let provider = |config: Option<ProviderConfig>| {
            config.map(|config| Provider::new(&config, &setting)).transpose()
        };
        Ok(Gate {
            producer: provider(options.producer)?,
            worker: provider(options.worker)?,
            allow_producer_as_worker: options.allow_producer_as_worker,
            admins_operate: options.admins_operate,
            known: TokenCache::new(),
            verifications: AtomicU64::new(0),
            clock: options.clock,
        })
    }

    /// For producer routes; takes the raw value of `Authorization`.
    pub async fn producer(&self, authorization: Option<&[u8]>, access: Access) -> Result<Producer, Denied> {
        self.producer_token(bearer::token(authorization)?, access).await
    }

    /// For routes that concern every tenant.
    pub async fn operator(&self, authorization: Option<&[u8]>) -> Result<Operator, Denied> {
        let Admin(caller) = self.admin(authorization, Access::Change).await?;
        if self.operates(&caller) { Ok(Operator(caller)) } else { Err(Denied::AdminOnly) }
    }

    /// Whether what concerns every tenant may be told to this administrator.
    pub fn operates(&self, admin: &Caller) -> bool {
        admin.is_operator || (self.admins_operate && !admin.is_observer)
    }

    /// For admin routes: a producer who is an administrator of its tenant, or an operator.
    /// Who only observes may read.
    pub async fn admin(&self, authorization: Option<&[u8]>, access: Access) -> Result<Admin, Denied> {
        let Producer(caller) = self.producer(authorization, access).await?;
        if caller.is_admin || caller.is_operator || caller.is_observer {
            Ok(Admin(caller))
        } else {
            Err(Denied::AdminOnly)
        }
    }

    /// For worker routes; `scope` is the scope of the route.
    pub async fn worker(&self, authorization: Option<&[u8]>, scope: Scope) -> Result<Worker, Denied> {
        let Worker(caller) = self.worker_token(bearer::token(authorization)?).await?;
        if caller.scopes.contains(scope) { Ok(Worker(caller)) } else { Err(Denied::ScopeNotGranted) }
    }

    /// For routes open to workers and producers. Says `invalid token` whatever was wrong with it.
    pub async fn any(&self, authorization: Option<&[u8]>) -> Result<Reader, Denied> {
        let caller = match bearer::token(authorization) {
            Ok(token) => self.reader(token).await,
            Err(denied) => Err(denied),
        };
        caller
            .map(Reader)
            .map_err(|denied| if denied.status() == 401 { Denied::invalid_token() } else { denied })
    }

    /// A producer by its token alone.
    pub async fn producer_token(&self, token: &str, access: Access) -> Result<Producer, Denied> {
        let caller = match self.recall(Group::Producer, token)? {
            Some(caller) => caller,
            // Boxed, here and below: a held request must not keep the room that asking a provider takes.
            None => Box::pin(self.verify_producer(token)).await?.0,
        };
        observed(&caller, access)?;
        Ok(Producer(caller))
    }

    /// A worker by its token alone. Which of its scopes are needed is not checked.
    pub async fn worker_token(&self, token: &str) -> Result<Worker, Denied> {
        if let Some(caller) = self.recall(Group::Worker, token)? {
            observed(&caller, Access::Change)?;
            return Ok(Worker(caller));
        }
        let (caller, standing) = match Box::pin(self.verify_worker(token)).await {
            Err(denied) if self.falls_back_from(&denied) => Box::pin(self.stand_in(token, denied)).await?,
            other => other?,
        };
        self.remember(Group::Worker, token, &caller, standing);
        observed(&caller, Access::Change)?;
        Ok(Worker(caller))
    }

    /// How many tokens were not known and had to be given to a provider.
    pub fn verifications(&self) -> u64 {
        self.verifications.load(Ordering::Relaxed)
    }

    /// Waits for fetches under way, so that a test need not guess when they end.
    #[cfg(test)]
    pub async fn settled(&self) {
        for provider in [&self.producer, &self.worker].into_iter().flatten() {
            provider.settled().await;
        }
    }

    async fn reader(&self, token: &str) -> Result<Arc<Caller>, Denied> {
        if let Some(caller) = self.recall(Group::Any, token)? {
            return Ok(caller);
        }
        let (caller, standing) = match Box::pin(self.verify_reading_worker(token)).await {
            Ok(accepted) => accepted,
            Err(Denied::InvalidTenant) => return Err(Denied::InvalidTenant),
            Err(refused) => {
                let producer = Box::pin(self.producer_standing(token)).await;
                self.settle(refused, producer)?
            }
        };
        self.remember(Group::Any, token, &caller, standing);
        Ok(caller)
    }

    /// A tenant that is not in order is final; everything else the producer's provider may outvote.
    fn falls_back_from(&self, denied: &Denied) -> bool {
        self.allow_producer_as_worker && self.producer.is_some() && *denied != Denied::InvalidTenant
    }

    async fn stand_in(&self, token: &str, refused: Denied) -> Result<Accepted, Denied> {
        let producer = self.producer_standing(token).await;
        let (caller, standing) = self.settle(refused, producer)?;
        Ok((Arc::new(caller.as_worker()), standing))
    }

    /// The producer's answer counts if it is a yes; of two refusals the worker's is told, unless one
    /// of them only means that nothing is known.
    fn settle(&self, worker: Denied, producer: Result<Accepted, Denied>) -> Result<Accepted, Denied> {
        match producer {
            Ok((caller, standing)) if worker.is_unavailable() => {
                Ok((caller, standing.until(self.clock.now().plus(STAND_IN))))
            }
            Ok(accepted) => Ok(accepted),
            Err(Denied::InvalidTenant) => Err(Denied::InvalidTenant),
            Err(producer) if producer.is_unavailable() && !worker.is_unavailable() => Err(producer),
            Err(producer) if self.worker.is_none() => Err(producer),
            Err(_) => Err(worker),
        }
    }

    async fn producer_standing(&self, token: &str) -> Result<Accepted, Denied> {
        match self.known.find_standing(Group::Producer, token, self.clock.now()) {
            Some(accepted) => Ok(accepted),
            None => self.verify_producer(token).await,
        }
    }

    async fn verify_producer(&self, token: &str) -> Result<Accepted, Denied> {
        let missing = Denied::NotConfigured("producer validator not configured");
        let verified = self.verify(self.producer.as_ref().ok_or(missing)?, token).await?;
        let (caller, standing) = accept(verified, token)?;
        self.remember(Group::Producer, token, &caller, standing.clone());
        Ok((caller, standing))
    }

    async fn verify_worker(&self, token: &str) -> Result<Accepted, Denied> {
        let verified = self.ask_worker(token).await?;
        if verified.identity.event_types.is_empty() {
            return Err(Denied::MissingEventTypes);
        }
        if verified.identity.scopes.is_empty() {
            return Err(Denied::MissingScope);
        }
        accept(verified, token)
    }

    async fn verify_reading_worker(&self, token: &str) -> Result<Accepted, Denied> {
        let verified = self.ask_worker(token).await?;
        if verified.identity.event_types.is_empty() {
            return Err(Denied::MissingEventTypes);
        }
        accept(verified, token)
    }

    async fn ask_worker(&self, token: &str) -> Result<Verified, Denied> {
        let missing = Denied::NotConfigured("worker validator not configured");
        self.verify(self.worker.as_ref().ok_or(missing)?, token).await
    }

    async fn verify(&self, provider: &Provider, token: &str) -> Result<Verified, Denied> {
        self.verifications.fetch_add(1, Ordering::Relaxed);
        provider.verify(token).await
    }

    /// A token that is too long is not even looked up.
    fn recall(&self, group: Group, token: &str) -> Result<Option<Arc<Caller>>, Denied> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Denied::malformed());
        }
        Ok(self.known.find(group, token, self.clock.now()))
    }

    fn remember(&self, group: Group, token: &str, caller: &Arc<Caller>, standing: Standing) {
        self.known.remember(group, token, caller, standing, self.clock.now());
    }
}

/// Who only observes changes nothing.
fn observed(caller: &Caller, access: Access) -> Result<(), Denied> {
    match caller.is_observer && access == Access::Change {
        true => Err(Denied::ScopeNotGranted),
        false => Ok(()),
    }
}

fn accept(verified: Verified, token: &str) -> Result<Accepted, Denied> {
    Ok((Arc::new(verified.identity.caller(token)?), verified.standing))
}
