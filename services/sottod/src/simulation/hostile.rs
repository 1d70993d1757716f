//! A client that does what no client should, and never deposits anything.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ed25519_dalek::{Signer, SigningKey};
use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use sotto_protocol::ServerParameters;
use sotto_wire::proto;
use sotto_wire::proto::sotto_client::SottoClient;
use tokio::time::{sleep, timeout};
use tokio_stream::StreamExt;
use tonic::Streaming;

use super::network::Line;
use super::world::{World, rng};

/// Streams that are neither read nor ended.
#[derive(Default)]
struct Held {
    events: Vec<Streaming<proto::RoundEvent>>,
    mappings: Vec<Streaming<proto::MappingChunk>>,
    answers: Vec<Streaming<proto::AnswerChunk>>,
}

/// Torments a server until it ends.
pub(super) async fn torment(seed: u64, line: Line, world: Arc<World>, parameters: ServerParameters) {
    let mut dice = rng(seed, format_args!("hostile in life {}", world.life()));
    let mut client = SottoClient::new(line);
    let (mut held, mut session) = (Held::default(), Bytes::new());
    let round = u64::from(parameters.round_ms);
    loop {
        sleep(Duration::from_millis(dice.random_range(1..=round / 10))).await;
        if session.is_empty() || dice.random_range(0..20) == 0 {
            session = register(&mut client, &mut dice, &parameters).await.unwrap_or_default();
        }
        let outrage = annoy(&mut client, &mut dice, &session, &mut held);
        // Most calls are given up before they are answered.
        let patience = Duration::from_millis(round / 8);
        let _ = timeout(patience, outrage).await;
        if dice.random_range(0..10) == 0 {
            held = Held::default();
        }
    }
}

async fn register(
    client: &mut SottoClient<Line>,
    dice: &mut StdRng,
    parameters: &ServerParameters,
) -> Option<Bytes> {
    let key = SigningKey::from_bytes(&[0xee; 32]);
    let account = Bytes::copy_from_slice(key.verifying_key().as_bytes());
    let challenge = proto::ChallengeRequest { account: account.clone() };
    let nonce = client.challenge(challenge).await.ok()?.into_inner().nonce;
    let signed = nonce[..].try_into().ok()?;
    let message =
        sotto_wire::register::message(&parameters.manifest_key, key.verifying_key().as_bytes(), signed);
    let mut signature = key.sign(&message).to_bytes();
    if dice.random_range(0..3) == 0 {
        signature[7] ^= 1;
    }
    let signature = Bytes::copy_from_slice(&signature);
    let request =
        proto::RegisterRequest { account, nonce, signature, token: Bytes::new(), slot: Bytes::new() };
    Some(client.register(request).await.ok()?.into_inner().session)
}

async fn annoy(client: &mut SottoClient<Line>, dice: &mut StdRng, session: &Bytes, held: &mut Held) {
    let session = session.clone();
    let round = held_round(dice);
    match dice.random_range(0..9) {
        0 => {
            let deposit = garbage(dice, 400);
            // Whatever it is, it is no deposit.
            let deposit = if deposit.len() == 304 { Bytes::new() } else { deposit };
            let _ = client.deposit(proto::DepositRequest { session, round, deposit }).await;
        }
        1 => {
            let (session, deposit) = (garbage(dice, 40), Bytes::from(vec![1; 304]));
            let _ = client.deposit(proto::DepositRequest { session, round, deposit }).await;
        }
        2 => {
            if let Ok(events) = client.watch(proto::WatchRequest { session }).await {
                held.events.push(events.into_inner());
            }
        }
        3 => {
            let endless = tokio_stream::once(proto::KeysChunk { session, data: garbage(dice, 20) });
            let _ = client.upload_keys(endless.chain(tokio_stream::pending())).await;
        }
        4 => {
            let (keys, data) = (garbage(dice, 40), garbage(dice, 400));
            let endless = tokio_stream::once(proto::QueryChunk { session, round, keys, data });
            let _ = client.retrieve(endless.chain(tokio_stream::pending())).await;
        }
        5 => {
            let keys = proto::KeysChunk { session: session.clone(), data: Bytes::from(vec![7; 8]) };
            let Ok(uploaded) = client.upload_keys(tokio_stream::iter([keys])).await else { return };
            let (keys, data) = (uploaded.into_inner().digest, Bytes::from(vec![0xff; 400]));
            let query = proto::QueryChunk { session, round, keys, data };
            if let Ok(answers) = client.retrieve(tokio_stream::iter([query])).await {
                held.answers.push(answers.into_inner());
            }
        }
        6 => {
            let (first, last) = (dice.random(), dice.random());
            let _ = client.manifests(proto::ManifestsRequest { session, first, last }).await;
        }
        7 => {
            if let Ok(mapping) = client.mapping(proto::MappingRequest { session, round }).await {
                held.mappings.push(mapping.into_inner());
            }
        }
        _ => {
            let protocol_version = dice.random();
            let _ = client.info(proto::InfoRequest { protocol_version }).await;
        }
    }
}

/// A round that may be there.
fn held_round(dice: &mut StdRng) -> u64 {
    if dice.random() { dice.random_range(0..20) } else { dice.random() }
}

fn garbage(dice: &mut StdRng, most: usize) -> Bytes {
    let mut bytes = vec![0; dice.random_range(0..most)];
    dice.fill_bytes(&mut bytes);
    Bytes::from(bytes)
}
