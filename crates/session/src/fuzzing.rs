//! What this crate reads from outside, with any bytes. The tests here and the crate `fuzz/` call it.

use bytes::Bytes;
use sotto_protocol::manifest::{MANIFEST_BYTES, SIGNATURE_BYTES};
use sotto_wire::proto::{self, round_event::Event};

use crate::session::round_news;

/// What a server says about a round: three bytes that choose how it is cut into a manifest and a signature, and these.
pub fn fuzz_round_event(bytes: &[u8]) {
    let Some(([kind, low, high], rest)) = bytes.split_first_chunk::<3>() else { return };
    let cut = u16::from_le_bytes([*low, *high]);
    let (manifest, signature) = rest.split_at(usize::from(cut).min(rest.len()));
    let signed = proto::SignedManifest {
        manifest: Bytes::copy_from_slice(manifest),
        signature: Bytes::copy_from_slice(signature),
        segment: Bytes::new(),
    };
    let elapsed_ms = u32::from_le_bytes(core::array::from_fn(|i| rest.get(i).copied().unwrap_or(0xff)));
    let ready = proto::RoundReady { manifest: (kind % 3 > 0).then_some(signed), elapsed_ms };
    let event = (*kind < 250).then_some(Event::Ready(ready));
    let sizes = (manifest.len(), signature.len()) == (MANIFEST_BYTES, SIGNATURE_BYTES);
    assert_eq!(round_news(proto::RoundEvent { event }).is_ok(), *kind < 250 && kind % 3 > 0 && sizes);
}

#[cfg(test)]
mod tests;
