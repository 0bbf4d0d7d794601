//! A tenant's share of something that all tenants use: places that are taken and given back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Calls of a tenant that wait for work or for a result, and event streams. Each holds a connection, so a tenant
/// gets three quarters of the seats at most.
pub const TENANT_POLLS: usize = 100_000;
/// Readys of a tenant that wait for work.
pub const TENANT_READYS: usize = 100_000;
/// Streams of a tenant. Each may hold a connection, so that it is three quarters of the seats at most.
pub const TENANT_STREAMS: usize = 10_000;

/// One kind of place, with the same number for each tenant.
pub struct Shares {
    most: usize,
    taken: Mutex<HashMap<Arc<str>, usize>>,
}

/// Given back when dropped.
pub struct Place {
    shares: Arc<Shares>,
    tenant: Arc<str>,
    count: usize,
}

impl Shares {
    pub fn new(most: usize) -> Arc<Shares> {
        Arc::new(Shares { most, taken: Mutex::default() })
    }

    /// As many as `most`, and never more than three quarters of the seats.
    pub fn of_seats(most: usize, seats: usize) -> Arc<Shares> {
        Shares::new(most.min(seats / 4 * 3).max(1))
    }

    pub fn most(&self) -> usize {
        self.most
    }

    /// None if the tenant has all of its places.
    pub fn take(self: &Arc<Self>, tenant: &Arc<str>) -> Option<Place> {
        self.take_some(tenant, 1)
    }

    /// So many places at once; none if the tenant has not so many left.
    pub fn take_some(self: &Arc<Self>, tenant: &Arc<str>, count: usize) -> Option<Place> {
        let mut taken = self.taken();
        let before = taken.get(tenant).copied().unwrap_or(0);
        if before.saturating_add(count) > self.most {
            return None;
        }
        if count > 0 {
            taken.insert(tenant.clone(), before + count);
        }
        Some(Place { shares: self.clone(), tenant: tenant.clone(), count })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.shares.taken();
        let Some(count) = taken.get_mut(&self.tenant) else { return };
        *count -= self.count;
        if *count == 0 {
            taken.remove(&self.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_that_has_all_of_its_places_takes_none_of_the_others() {
        let shares = Shares::of_seats(100, 4);
        let (noisy, quiet): (Arc<str>, Arc<str>) = ("noisy".into(), "quiet".into());
        let mut places: Vec<Place> = (0..3).filter_map(|_| shares.take(&noisy)).collect();
        assert_eq!((places.len(), shares.take(&noisy).is_some()), (3, false));
        assert!(shares.take(&quiet).is_some());
        places.pop();
        assert!(shares.take(&noisy).is_some());
        places.clear();
        assert!(shares.taken().is_empty());
    }

    #[test]
    fn several_places_are_taken_and_given_back_together() {
        let shares = Shares::new(10);
        let noisy: Arc<str> = "noisy".into();
        let six = shares.take_some(&noisy, 6);
        assert!(six.is_some() && shares.take_some(&noisy, 5).is_none());
        let four = shares.take_some(&noisy, 4);
        assert!(four.is_some() && shares.take(&noisy).is_none());
        assert!(shares.take_some(&noisy, 0).is_some());
        drop((six, four));
        assert!(shares.taken().is_empty());
    }
}
