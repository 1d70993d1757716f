//! The answer to one client, from the room to the wire.

use core::time::Duration;

use bytes::{Bytes, BytesMut};
use sotto_protocol::audit::Receipt;
use sotto_wire::limits::CHUNK_BYTES;
use sotto_wire::{Refused, proto};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::outgoing::{Gone, Sender};

/// What becomes ready of an answer.
pub(super) enum Part {
    /// The next unit's.
    Answer(Vec<u8>),
    /// Behind the last unit.
    Receipt(Receipt),
    /// Nothing more comes.
    Refused(Refused),
}

/// An answer that is being made. Dropping it takes the request back.
pub(crate) struct Reply(UnboundedReceiver<Part>);

impl Reply {
    pub(super) fn new(parts: UnboundedReceiver<Part>) -> Self {
        Self(parts)
    }

    /// Sends what is ready as it becomes ready, within `limit`; whether all of it was handed over.
    pub(crate) async fn send(self, sender: &mut Sender<proto::AnswerChunk>, limit: Duration) -> bool {
        let result = tokio::time::timeout(limit, self.send_all(sender)).await;
        match result {
            Ok(Ok(())) => true,
            Ok(Err(Stop::Gone)) => false,
            Ok(Err(Stop::Refused(refused))) => {
                sender.refuse(refused).await;
                false
            }
            Err(_) => {
                sender.refuse(Refused::Busy).await;
                false
            }
        }
    }

    async fn send_all(mut self, sender: &mut Sender<proto::AnswerChunk>) -> Result<(), Stop> {
        let mut pending = BytesMut::new();
        loop {
            let part = tokio::select! {
                biased;
                () = sender.gone() => return Err(Stop::Gone),
                part = self.0.recv() => part,
            };
            match part {
                Some(Part::Answer(answer)) => pending.extend_from_slice(&answer),
                Some(Part::Receipt(receipt)) => return Ok(send(sender, pending, Some(receipt)).await?),
                Some(Part::Refused(refused)) => return Err(Stop::Refused(refused)),
                // The server ends.
                None => return Err(Stop::Refused(Refused::Busy)),
            }
            // The last chunk waits for the receipt.
            while pending.len() > CHUNK_BYTES {
                send(sender, pending.split_to(CHUNK_BYTES), None).await?;
            }
        }
    }
}

async fn send(
    sender: &mut Sender<proto::AnswerChunk>,
    data: BytesMut,
    receipt: Option<Receipt>,
) -> Result<(), Gone> {
    let receipt = receipt.map_or_else(Bytes::new, |receipt| Bytes::copy_from_slice(&receipt));
    let bytes = data.len() + receipt.len();
    sender.send(proto::AnswerChunk { data: data.freeze(), receipt }, bytes).await
}

enum Stop {
    Gone,
    Refused(Refused),
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}
