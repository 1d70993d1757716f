//! Registering, and why a call failed.

use bytes::Bytes;
use ed25519_dalek::{Signer, SigningKey};
use sotto_wire::proto;
use sotto_wire::status::REASON;
use tonic::Status;

use crate::child::Client;

/// Opens a session for the account with this number.
pub(crate) async fn session(client: &mut Client, key: &[u8; 32], number: usize) -> Result<Bytes, Status> {
    let mut seed = [0x4c; 32];
    seed[..8].copy_from_slice(&(number as u64).to_le_bytes());
    let signing = SigningKey::from_bytes(&seed);
    let account = signing.verifying_key().to_bytes();
    let challenge = proto::ChallengeRequest { account: Bytes::copy_from_slice(&account) };
    let nonce = client.challenge(challenge).await?.into_inner().nonce;
    let signed = nonce[..].try_into().map_err(|_| Status::internal("a nonce of another length"))?;
    let signature = signing.sign(&sotto_wire::register::message(key, &account, &signed));
    let request = proto::RegisterRequest {
        account: Bytes::copy_from_slice(&account),
        nonce,
        signature: Bytes::copy_from_slice(&signature.to_bytes()),
        token: Bytes::new(),
    };
    Ok(client.register(request).await?.into_inner().session)
}

/// The reason word of a refusal; for want of one, the code.
pub(crate) fn word(status: &Status) -> String {
    let reason = status.metadata().get(REASON).and_then(|reason| reason.to_str().ok());
    reason.map_or_else(|| format!("{:?}", status.code()), str::to_owned)
}
