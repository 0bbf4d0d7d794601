//! Events of streams, as the server decodes them.

use codeq_api::grpc::{producer, worker};
use prost::Message;

pub fn read(input: &[u8]) {
    drop(worker::WorkerEvent::decode(input));
    drop(producer::ProducerEvent::decode(input));
}

/// A batch of creates and a batch of results with every field that is text.
pub fn corpus() -> Vec<Vec<u8>> {
    let create = producer::CreateTask { command: "render".into(), ..producer::CreateTask::default() };
    let creates = producer::CreateTaskBatch { tasks: vec![create; 3] };
    let result =
        worker::Result { task_id: "5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11".into(), ..Default::default() };
    // A length-delimited field of number 3, which both events read as one of their batches or bodies.
    let framed = |bytes: Vec<u8>| {
        let mut event = vec![0x1a];
        prost::encoding::encode_varint(bytes.len() as u64, &mut event);
        event.extend(bytes);
        event
    };
    vec![framed(creates.encode_to_vec()), framed(result.encode_to_vec()), creates.encode_to_vec()]
}
