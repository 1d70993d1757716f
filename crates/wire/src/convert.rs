//! Conversions between wire messages and protocol types. Whatever comes from the wire is checked here, once.

use bytes::Bytes;
use sotto_protocol::deposit::DEPOSIT_BYTES;
use sotto_protocol::manifest::MANIFEST_BYTES;
use sotto_protocol::table::stored;
use sotto_protocol::{
    CodeKind, Deposit, KeyEpoch, OwnSlot, Round, RoundMode, SealedBox, SeedCommitment, SegmentEnd,
    ServerParameters, SignedDirectory, SignedManifest,
};

use crate::limits::ENGINE_NAME_MAX;
use crate::proto;
use crate::status::Refused;

/// A root's signature under an announcement, 64 bytes.
pub type Endorsement = [u8; 64];

/// A message of the schema whose fields are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {0}")]
pub struct Malformed(pub &'static str);

impl From<Malformed> for Refused {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl From<Malformed> for tonic::Status {
    fn from(malformed: Malformed) -> Self {
        Refused::from(malformed).into()
    }
}

/// A field of exactly `N` bytes.
///
/// # Errors
/// [`Malformed`] with `what` for any other size.
pub fn fixed<const N: usize>(bytes: &[u8], what: &'static str) -> Result<[u8; N], Malformed> {
    bytes.try_into().map_err(|_| Malformed(what))
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its parameters; not yet judged, see [`ServerParameters::check`].
    pub parameters: ServerParameters,
    /// The round open for deposits.
    pub open: Round,
    /// The root key's signature under the parameters; not yet checked, see [`RootKey::check`](crate::RootKey::check).
    pub endorsement: Endorsement,
    /// Whether a new account needs a token.
    pub token_required: bool,
}

impl From<Info> for proto::InfoResponse {
    fn from(info: Info) -> Self {
        let parameters = info.parameters;
        Self {
            protocol_version: parameters.protocol_version.into(),
            manifest_key: Bytes::copy_from_slice(&parameters.manifest_key),
            engine: parameters.engine,
            security_bits: parameters.security_bits,
            code: parameters.code.byte().into(),
            retrieve: parameters.retrieve.into(),
            buckets: parameters.buckets.into(),
            choices: parameters.choices.into(),
            retained: parameters.retained.into(),
            closed_loop: parameters.mode == RoundMode::ClosedLoop,
            round_ms: parameters.round_ms,
            deposit_ms: parameters.deposit_ms,
            lookup_ms: parameters.lookup_ms,
            query_ms: parameters.query_ms,
            deposit_spread_ms: parameters.deposit_spread_ms,
            query_spread_ms: parameters.query_spread_ms,
            open_round: info.open.0,
            endorsement: Bytes::copy_from_slice(&info.endorsement),
            token_required: info.token_required,
            serial: parameters.serial,
            seed_first: parameters.seeds.first.0,
            seed_segments: parameters.seeds.segments,
            seed_root: Bytes::copy_from_slice(&parameters.seeds.root),
            key_epoch: parameters.key_epoch.number,
            key_first: parameters.key_epoch.first.0,
            key_end: parameters.key_epoch.end.0,
            former_key: Bytes::copy_from_slice(&parameters.key_epoch.former),
        }
    }
}

impl TryFrom<proto::InfoResponse> for Info {
    type Error = Malformed;

    fn try_from(info: proto::InfoResponse) -> Result<Self, Malformed> {
        if info.engine.len() > ENGINE_NAME_MAX || !info.engine.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Malformed("engine name"));
        }
        let parameters = ServerParameters {
            protocol_version: info.protocol_version.try_into().map_err(|_| Malformed("protocol version"))?,
            serial: info.serial,
            manifest_key: fixed(&info.manifest_key, "manifest key")?,
            seeds: SeedCommitment {
                first: Round(info.seed_first),
                segments: info.seed_segments,
                root: fixed(&info.seed_root, "root of the seeds")?,
            },
            engine: info.engine,
            security_bits: info.security_bits,
            code: u8::try_from(info.code).ok().and_then(CodeKind::of_byte).ok_or(Malformed("batch code"))?,
            retrieve: info.retrieve.try_into().map_err(|_| Malformed("messages per round"))?,
            buckets: info.buckets.try_into().map_err(|_| Malformed("number of buckets"))?,
            choices: info.choices.try_into().map_err(|_| Malformed("number of candidate buckets"))?,
            retained: info.retained.try_into().map_err(|_| Malformed("number of retained rounds"))?,
            mode: if info.closed_loop { RoundMode::ClosedLoop } else { RoundMode::Deadline },
            round_ms: info.round_ms,
            deposit_ms: info.deposit_ms,
            lookup_ms: info.lookup_ms,
            query_ms: info.query_ms,
            deposit_spread_ms: info.deposit_spread_ms,
            query_spread_ms: info.query_spread_ms,
            key_epoch: KeyEpoch {
                number: info.key_epoch,
                first: Round(info.key_first),
                end: Round(info.key_end),
                former: fixed(&info.former_key, "former key")?,
            },
        };
        Ok(Self {
            parameters,
            open: Round(info.open_round),
            endorsement: fixed(&info.endorsement, "signature of the parameters")?,
            token_required: info.token_required,
        })
    }
}

impl From<&SignedDirectory> for proto::Directory {
    fn from(signed: &SignedDirectory) -> Self {
        Self {
            directory: Bytes::copy_from_slice(&signed.bytes[..]),
            signature: Bytes::copy_from_slice(&signed.signature),
        }
    }
}

impl TryFrom<&proto::Directory> for SignedDirectory {
    type Error = Malformed;

    fn try_from(message: &proto::Directory) -> Result<Self, Malformed> {
        let malformed = |_| Malformed("directory of nodes");
        Self::from_parts(&message.directory, &message.signature).map_err(malformed)
    }
}

impl From<&SignedManifest> for proto::SignedManifest {
    fn from(signed: &SignedManifest) -> Self {
        Self {
            manifest: Bytes::copy_from_slice(&signed.bytes),
            signature: Bytes::copy_from_slice(&signed.signature),
            segment: signed.segment.as_ref().map_or_else(Bytes::new, |segment| segment.encode().into()),
        }
    }
}

fn segment(bytes: &[u8]) -> Result<Option<SegmentEnd>, Malformed> {
    if bytes.is_empty() {
        return Ok(None);
    }
    SegmentEnd::decode(bytes).map(Some).map_err(|_| Malformed("end of a segment of seeds"))
}

impl TryFrom<&proto::SignedManifest> for SignedManifest {
    type Error = Malformed;

    fn try_from(signed: &proto::SignedManifest) -> Result<Self, Malformed> {
        Ok(Self {
            bytes: fixed::<MANIFEST_BYTES>(&signed.manifest, "manifest")?,
            signature: fixed(&signed.signature, "signature of a manifest")?,
            segment: segment(&signed.segment)?,
        })
    }
}

/// Number and credential of a slot, one behind the other.
#[must_use]
pub fn encode_slot(slot: &OwnSlot) -> Bytes {
    [slot.number.to_le_bytes().as_slice(), &slot.credential].concat().into()
}

/// The slot in a registration, or in the answer to one; none in no bytes.
///
/// # Errors
/// [`Malformed`] for any other number of bytes than none and 20.
pub fn slot(bytes: &[u8]) -> Result<Option<OwnSlot>, Malformed> {
    let Some((number, credential)) = bytes.split_first_chunk() else {
        return if bytes.is_empty() { Ok(None) } else { Err(Malformed("slot")) };
    };
    Ok(Some(OwnSlot { number: u32::from_le_bytes(*number), credential: fixed(credential, "slot")? }))
}

/// The deposit in a request of the account with this slot, under what a server stores it.
///
/// # Errors
/// [`Malformed`] unless there are exactly 300 bytes.
pub fn deposit_in_table(bytes: &[u8], slot: u32) -> Result<Deposit, Malformed> {
    let (knock, sealed) = bytes.split_first_chunk().ok_or(Malformed("deposit"))?;
    Ok(Deposit { label: stored(slot, knock), sealed: SealedBox(fixed(sealed, "deposit")?) })
}

/// The deposit in a request.
///
/// # Errors
/// [`Malformed`] unless there are exactly 304 bytes.
pub fn deposit(bytes: &[u8]) -> Result<Deposit, Malformed> {
    Deposit::decode(&fixed::<DEPOSIT_BYTES>(bytes, "deposit")?).map_err(|_| Malformed("deposit"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
    use prost::Message;
    use sotto_protocol::manifest::MANIFEST_BYTES;
    use sotto_protocol::{
        CodeKind, KeyEpoch, Round, RoundMode, SeedCommitment, SegmentEnd, ServerParameters, SignedManifest,
    };

    use super::{Info, Malformed, deposit, fixed};
    use crate::proto;

    fn info() -> impl Strategy<Value = Info> {
        (
            any::<[u16; 3]>(),
            any::<[u8; 3]>(),
            any::<[u32; 7]>(),
            any::<[u8; 32]>(),
            any::<(bool, u64)>(),
            "[!-~]{0,31}",
        )
            .prop_map(|(words, small, long, manifest_key, (closed, open), engine)| Info {
                parameters: ServerParameters {
                    protocol_version: words[0],
                    serial: open ^ 5,
                    manifest_key,
                    seeds: SeedCommitment {
                        first: Round(open / 2),
                        segments: long[0] ^ long[1],
                        root: manifest_key.map(|byte| byte ^ 9),
                    },
                    engine,
                    security_bits: long[0],
                    code: CodeKind::of_byte(small[2] % 4).unwrap(),
                    retrieve: words[1],
                    buckets: words[2],
                    choices: small[0],
                    retained: small[1],
                    mode: if closed { RoundMode::ClosedLoop } else { RoundMode::Deadline },
                    round_ms: long[1],
                    deposit_ms: long[2],
                    lookup_ms: long[3],
                    query_ms: long[4],
                    deposit_spread_ms: long[5],
                    query_spread_ms: long[6],
                    key_epoch: KeyEpoch {
                        number: long[2],
                        first: Round(open / 3),
                        end: Round(open ^ 7),
                        former: manifest_key.map(|byte| byte ^ 6),
                    },
                },
                open: Round(open),
                endorsement: core::array::from_fn(|at| manifest_key[at % 32]),
                token_required: closed,
            })
    }

    proptest! {
        #[test]
        fn parameters_survive_the_wire(info in info()) {
            let bytes = proto::InfoResponse::from(info.clone()).encode_to_vec();
            let message = proto::InfoResponse::decode(&*bytes).unwrap();
            prop_assert_eq!(Info::try_from(message).unwrap(), info);
        }

        #[test]
        fn a_truncated_message_never_panics_and_never_passes_for_the_whole(info in info(), cut in any::<u16>()) {
            let bytes = proto::InfoResponse::from(info.clone()).encode_to_vec();
            let cut = usize::from(cut) % bytes.len().max(1);
            if let Ok(message) = proto::InfoResponse::decode(&bytes[..cut])
                && let Ok(read) = Info::try_from(message)
            {
                prop_assert!(read != info);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in any::<Vec<u8>>()) {
            if let Ok(message) = proto::InfoResponse::decode(&*bytes) {
                let _ = Info::try_from(message);
            }
            let _ = deposit(&bytes);
        }

        #[test]
        fn a_signed_manifest_survives_the_wire(bytes in any::<[u8; MANIFEST_BYTES]>(), signature in any::<[u8; 64]>()) {
            let signed = SignedManifest { bytes, signature, segment: None };
            let encoded = proto::SignedManifest::from(&signed).encode_to_vec();
            let mut message = proto::SignedManifest::decode(&*encoded).unwrap();
            prop_assert!(SignedManifest::try_from(&message).unwrap() == signed);
            message.signature.truncate(63);
            prop_assert!(SignedManifest::try_from(&message).is_err());
        }

        #[test]
        fn what_proves_a_seed_survives_the_wire(end in any::<[u8; 32]>(), path in 0..30_usize) {
            let proof = SegmentEnd { end, path: vec![end; path] };
            let segment = Some(proof);
            let signed = SignedManifest { bytes: [1; MANIFEST_BYTES], signature: [2; 64], segment };
            let read = SignedManifest::try_from(&proto::SignedManifest::from(&signed));
            prop_assert_eq!(read, if path <= 20 { Ok(signed) } else { Err(Malformed("end of a segment of seeds")) });
        }

        #[test]
        fn only_the_exact_size_is_taken(bytes in any::<Vec<u8>>()) {
            prop_assert_eq!(fixed::<32>(&bytes, "key").is_ok(), bytes.len() == 32);
        }
    }

    #[test]
    fn numbers_beyond_their_type_are_refused() {
        let good = proto::InfoResponse {
            manifest_key: vec![0; 32].into(),
            endorsement: vec![0; 64].into(),
            seed_root: vec![0; 32].into(),
            former_key: vec![0; 32].into(),
            ..Default::default()
        };
        assert!(Info::try_from(good.clone()).is_ok());
        type Spoil = fn(&mut proto::InfoResponse);
        let spoils: [(Spoil, &str); 12] = [
            (|info| info.code = 5, "batch code"),
            (|info| info.code = 256, "batch code"),
            (|info| info.protocol_version = 1 << 16, "protocol version"),
            (|info| info.manifest_key = vec![0; 31].into(), "manifest key"),
            (|info| info.endorsement = vec![0; 63].into(), "signature of the parameters"),
            (|info| info.seed_root = vec![0; 33].into(), "root of the seeds"),
            (|info| info.former_key = vec![0; 31].into(), "former key"),
            (|info| info.engine = "x".repeat(32), "engine name"),
            (|info| info.engine = "tab\there".into(), "engine name"),
            (|info| info.retrieve = 1 << 16, "messages per round"),
            (|info| info.buckets = 1 << 16, "number of buckets"),
            (|info| info.choices = 256, "number of candidate buckets"),
        ];
        for (spoil, what) in spoils {
            let mut bad = good.clone();
            spoil(&mut bad);
            assert_eq!(Info::try_from(bad), Err(Malformed(what)));
        }
    }
}
