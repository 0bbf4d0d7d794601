//! The SDK against a real server process.

mod create;
mod events;
mod flow;
mod lease;
mod ledger;
mod proxy;
mod restart;
mod rights;
mod server;
mod shutdown;
mod tls;
mod transport;
mod work;
