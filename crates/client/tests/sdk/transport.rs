//! The same tests over every transport.

use crate::server::{Server, TOKEN};
use codeq_client::{Connection, Error, Producer, Worker};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    Http,
    Stream,
}

pub const BOTH: [Transport; 2] = [Transport::Http, Transport::Stream];

impl Transport {
    pub fn connection(self, server: &Server) -> Connection {
        let connection = Connection::new(TOKEN).http(&server.base);
        match self {
            Transport::Http => connection,
            Transport::Stream => {
                connection.producer_stream(&server.producer_stream).worker_stream(&server.worker_stream)
            }
        }
    }

    pub fn producer(self, server: &Server) -> Producer {
        Producer::new(&self.connection(server))
    }

    pub fn worker(self, server: &Server) -> Worker {
        Worker::new(&self.connection(server))
    }
}

/// A worker that runs until it is told to end.
pub struct Running {
    end: Arc<Notify>,
    task: JoinHandle<Result<(), Error>>,
}

pub fn run(worker: Worker) -> Running {
    let end = Arc::new(Notify::new());
    let signal = end.clone();
    let task = tokio::spawn(async move { worker.run_until(signal.notified()).await });
    Running { end, task }
}

impl Running {
    /// Tells the worker to end, without waiting for it.
    pub fn signal(&self) {
        self.end.notify_one();
    }

    pub async fn end(self) -> Result<(), Error> {
        self.signal();
        self.ended().await
    }

    pub async fn ended(self) -> Result<(), Error> {
        let ended = tokio::time::timeout(crate::server::PATIENCE, self.task).await;
        ended.expect("a worker ends").expect("a worker does not panic")
    }
}
