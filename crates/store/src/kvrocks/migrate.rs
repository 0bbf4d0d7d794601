//! Data of the original server.

use super::options::KvrocksOptions;
use super::store::Keeper;

impl Keeper {
    pub async fn migrate(&self, _options: &KvrocksOptions) -> Result<(), String> {
        Ok(())
    }
}
