//! `codeq bench`: figures of this machine, with ratios taken in one run.

mod drive;
mod grpc;
mod http;
mod journal;
mod meter;
mod on;
mod overload;
mod process;
mod report;
mod restart;
mod soak;
mod store;
mod trend;

pub use process::end_with_parent;

#[derive(clap::Subcommand)]
pub enum Bench {
    /// The store alone: full cycles against the bare journal.
    Store(store::StoreBench),
    /// The HTTP API over real sockets, against an echo on the same stack.
    Http(http::HttpBench),
    /// The gRPC streams over real sockets, against an echo stream without a store.
    Grpc(grpc::GrpcBench),
    /// Hours of mixed load: does memory, the number of handles or the disk grow?
    Soak(soak::SoakBench),
    /// Ten times more than the server can take, and how soon it is well again.
    Overload(overload::OverloadBench),
    /// The echo stream; used by `bench grpc`.
    #[command(hide = true)]
    EchoStream(grpc::EchoStream),
    /// The echo server; used by `bench http`.
    #[command(hide = true)]
    Echo(http::Echo),
    /// Fills a store and waits to be killed; used by `bench store --restart`.
    #[command(hide = true)]
    Fill(restart::Fill),
    /// Opens a store and tells how long it took; used by `bench store --restart`.
    #[command(hide = true)]
    Open(restart::Open),
}

impl Bench {
    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Bench::Store(bench) => bench.run(),
            Bench::Http(bench) => bench.run(),
            Bench::Grpc(bench) => bench.run(),
            Bench::Soak(bench) => bench.run(),
            Bench::Overload(bench) => bench.run(),
            Bench::EchoStream(echo) => echo.run(),
            Bench::Echo(echo) => echo.run(),
            Bench::Fill(fill) => fill.run(),
            Bench::Open(open) => open.run(),
        }
    }
}
