//! `codeq bench`: figures of this machine, with ratios taken in one run.

mod drive;
mod grpc;
mod hostile;
mod http;
mod journal;
mod meter;
mod on;
mod overload;
mod process;
mod queues;
mod replicas;
mod report;
mod restart;
mod schedules;
mod soak;
mod store;
mod trend;

pub use process::end_with_parent;

#[derive(clap::Subcommand)]
pub enum Bench {
    /// Measure the store alone: full cycles against the bare journal.
    #[command(
        after_help = "Examples:\n  codeq bench store\n  codeq bench store --seconds 20 --in-flight 64 --json"
    )]
    Store(store::StoreBench),
    /// Measure the HTTP API over real sockets, against an echo on the same stack.
    #[command(
        after_help = "Examples:\n  codeq bench http\n  codeq bench http --seconds 20 --connections 64 --json"
    )]
    Http(http::HttpBench),
    /// Measure the gRPC streams over real sockets, against an echo stream without a store.
    #[command(
        after_help = "Examples:\n  codeq bench grpc\n  codeq bench grpc --seconds 20 --streams 8 --json"
    )]
    Grpc(grpc::GrpcBench),
    /// Run hours of mixed load: do memory, file handles or disk use grow?
    #[command(after_help = "Examples:\n  codeq bench soak\n  codeq bench soak --minutes 60 --svg soak.svg")]
    Soak(soak::SoakBench),
    /// Send ten times more than the server can take, and measure how soon it recovers.
    #[command(after_help = "Examples:\n  codeq bench overload\n  codeq bench overload --seconds 20 --json")]
    Overload(overload::OverloadBench),
    /// Attack a server as one tenant and as strangers, and measure what an honest tenant notices.
    #[command(
        after_help = "Examples:\n  codeq bench hostile --json\n  codeq bench hostile --seconds 60 --connections 10000"
    )]
    Hostile(hostile::HostileBench),
    /// Measure what very many queues cost.
    #[command(
        after_help = "Examples:\n  codeq bench queues\n  codeq bench queues --queues 100000 --tenants 10 --json"
    )]
    Queues(queues::QueuesBench),
    /// Measure how late schedules tick: spread over a minute, and all in one second.
    #[command(
        after_help = "Examples:\n  codeq bench schedules\n  codeq bench schedules --schedules 10000 --seconds 20 --json"
    )]
    Schedules(schedules::SchedulesBench),
    /// Measure 1 to n processes over 1 to n servers: cycles, processor time of both, and what they cost while idle.
    #[command(
        after_help = "Examples:\n  codeq bench replicas\n  codeq bench replicas --processes 4 --servers 2 --json\n  codeq bench replicas --redis-url redis://kvrocks-1:6666 --redis-url redis://kvrocks-2:6666"
    )]
    Replicas(replicas::ReplicasBench),
    /// The echo stream; used by `bench grpc`.
    #[command(hide = true)]
    EchoStream(grpc::EchoStream),
    /// The echo server; used by `bench http`.
    #[command(hide = true)]
    Echo(http::Echo),
    /// Fills a store and waits to be killed; used by `bench store --restart`.
    #[command(hide = true)]
    Fill(restart::Fill),
    /// Fills a store with queues and waits to be killed; used by `bench queues`.
    #[command(hide = true)]
    FillQueues(queues::FillQueues),
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
            Bench::Hostile(bench) => bench.run(),
            Bench::Queues(bench) => bench.run(),
            Bench::Schedules(bench) => bench.run(),
            Bench::Replicas(bench) => bench.run(),
            Bench::EchoStream(echo) => echo.run(),
            Bench::Echo(echo) => echo.run(),
            Bench::Fill(fill) => fill.run(),
            Bench::FillQueues(fill) => fill.run(),
            Bench::Open(open) => open.run(),
        }
    }
}
