//! Messages on the wire: events in, answers out.

use bytes::Buf;
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Items in a batch beyond which it is not even refused item by item. An item of two bytes takes hundreds
/// in memory.
const BATCH_ITEMS: usize = 100_000;
/// Fields of all items together, or of an event without items: names in a Ready, tags of a task. One of two bytes takes
/// fifty in memory. A batch of a thousand tasks with everything that a task may have has less than half of it.
const FIELDS: usize = 400_000;

/// Something a stream answers with. It is written when the transport takes it.
pub trait Answer: Send + 'static {
    fn write(self, buffer: &mut EncodeBuf<'_>);
}

impl Answer for codeq_api::grpc::producer::ServerEvent {
    fn write(self, buffer: &mut EncodeBuf<'_>) {
        self.encode(buffer).expect("the buffer grows");
    }
}

/// An event that may carry a batch.
pub trait Event: Message + Default + 'static {
    /// The field of the batch; the items are its field 1.
    const BATCH: u32;
}

impl Event for codeq_api::grpc::producer::ProducerEvent {
    const BATCH: u32 = 3;
}

impl Event for codeq_api::grpc::worker::WorkerEvent {
    const BATCH: u32 = 7;
}

/// The codec of one stream.
pub struct Wire<E, A> {
    messages: PhantomData<fn() -> (E, A)>,
}

impl<E, A> Wire<E, A> {
    pub fn new() -> Wire<E, A> {
        Wire { messages: PhantomData }
    }
}

impl<E: Event, A: Answer> Codec for Wire<E, A> {
    type Encode = A;
    type Decode = E;
    type Encoder = Wire<E, A>;
    type Decoder = Wire<E, A>;

    fn encoder(&mut self) -> Wire<E, A> {
        Wire::new()
    }

    fn decoder(&mut self) -> Wire<E, A> {
        Wire::new()
    }
}

impl<E, A: Answer> Encoder for Wire<E, A> {
    type Item = A;
    type Error = Status;

    fn encode(&mut self, answer: A, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        answer.write(buffer);
        Ok(())
    }
}

impl<E: Event, A> Decoder for Wire<E, A> {
    type Item = E;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<E>, Status> {
        // Every item takes two bytes at least, and so does every field.
        if buffer.remaining() > 2 * BATCH_ITEMS {
            let Counted { items, fields } = Counted::of(buffer.chunk(), E::BATCH);
            if items > BATCH_ITEMS {
                return Err(Status::resource_exhausted("too many items in a batch"));
            }
            if fields > FIELDS {
                return Err(Status::resource_exhausted("too many fields in a message"));
            }
        }
        E::decode(buffer).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

/// What a message would become, counted without reading it.
#[derive(PartialEq, Eq, Default, Debug)]
struct Counted {
    /// Of its batches.
    items: usize,
    /// Of those items, and of events that are no batches.
    fields: usize,
}

impl Counted {
    fn of(mut message: &[u8], batch: u32) -> Counted {
        let mut counted = Counted::default();
        while let Some((field, bytes)) = next_field(&mut message) {
            let mut event = bytes.unwrap_or_default();
            while let Some((_, item)) = next_field(&mut event) {
                match field == batch {
                    true => {
                        counted.items += 1;
                        counted.fields += fields(item.unwrap_or_default());
                    }
                    false => counted.fields += 1,
                }
            }
        }
        counted
    }
}

fn fields(mut message: &[u8]) -> usize {
    std::iter::from_fn(|| next_field(&mut message)).count()
}

/// The number of the next field, and its bytes if it has a length; none at the end, or where the message
/// is broken.
fn next_field<'a>(message: &mut &'a [u8]) -> Option<(u32, Option<&'a [u8]>)> {
    let (field, wire) = decode_key(message).ok()?;
    if wire != WireType::LengthDelimited {
        skip_field(wire, field, message, DecodeContext::default()).ok()?;
        return Some((field, None));
    }
    let length = usize::try_from(decode_varint(message).ok()?).ok()?;
    let (bytes, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some((field, Some(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use codeq_api::grpc::producer::{CreateTask, CreateTaskBatch, ProducerEvent, producer_event};

    #[test]
    fn items_are_counted_without_reading_them() {
        let tasks = vec![CreateTask { seq: 7, command: "c".into(), ..CreateTask::default() }; 300];
        let batch = producer_event::Event::CreateBatch(CreateTaskBatch { tasks: tasks.clone() });
        let bytes = ProducerEvent { event: Some(batch) }.encode_to_vec();
        let count = |bytes: &[u8]| Counted::of(bytes, ProducerEvent::BATCH);
        assert_eq!(count(&bytes), Counted { items: 300, fields: 600 });
        assert_eq!(count(&[bytes.clone(), bytes.clone()].concat()), Counted { items: 600, fields: 1200 });
        let tagged = CreateTask { tags: vec![String::new(); 500], ..tasks[0].clone() };
        let single = producer_event::Event::Create(tagged);
        let single = ProducerEvent { event: Some(single) }.encode_to_vec();
        assert_eq!(count(&single), Counted { items: 0, fields: 502 });
        for end in 0..bytes.len() {
            assert!(count(&bytes[..end]).items <= 300);
        }
    }
}
