//! kill -9 under load: what was acknowledged is there, nothing is lent twice, nothing is stuck.

mod embedded;
