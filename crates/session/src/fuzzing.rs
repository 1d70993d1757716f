//! What this crate reads from outside, with any bytes. The tests here and the crate `fuzz/` call it.

use bytes::Bytes;
use sotto_protocol::directory::DIRECTORY_BYTES;
use sotto_protocol::manifest::{MANIFEST_BYTES, SIGNATURE_BYTES};
use sotto_wire::proto::{self, round_event::Event};

use crate::session::round_news;

/// What a server says about a round or about its nodes: three bytes that choose which and how it is cut into contents and a
/// signature, and these.
pub fn fuzz_round_event(bytes: &[u8]) {
    let Some(([kind, low, high], rest)) = bytes.split_first_chunk::<3>() else { return };
    let cut = u16::from_le_bytes([*low, *high]);
    let (contents, signature) = rest.split_at(usize::from(cut).min(rest.len()));
    let [manifest, directory] = [contents, contents].map(Bytes::copy_from_slice);
    let [sealed, listed] = [signature, signature].map(Bytes::copy_from_slice);
    let signed = proto::SignedManifest { manifest, signature: sealed, segment: Bytes::new() };
    let elapsed_ms = u32::from_le_bytes(core::array::from_fn(|i| rest.get(i).copied().unwrap_or(0xff)));
    let (event, size) = match kind {
        250.. => (None, None),
        200.. => {
            let directory = proto::Directory { directory, signature: listed };
            (Some(Event::Directory(directory)), Some(DIRECTORY_BYTES))
        }
        _ => {
            let manifest = (kind % 3 > 0).then_some(signed);
            let size = manifest.as_ref().map(|_| MANIFEST_BYTES);
            (Some(Event::Ready(proto::RoundReady { manifest, elapsed_ms })), size)
        }
    };
    let sizes = size.is_some_and(|size| (contents.len(), signature.len()) == (size, SIGNATURE_BYTES));
    assert_eq!(round_news(proto::RoundEvent { event }).is_ok(), sizes);
}

#[cfg(test)]
mod tests;
