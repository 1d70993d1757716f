//! What is inside a box: 272 bytes, all integers little-endian, unused bytes zero and checked.
//!
//! ```text
//! header, 16 bytes
//!     0   kind, u8              1 hello, 2 text, 3 acknowledgement only, 4 rekey, 5 leave
//!     1   flags, u8             2 MORE (text), 4 REST (text), 8 FIRST (text, rekey, leave)
//!     2   length, u16           of the content
//!     4   sequence, u32         from 1 for text, rekey and leave; 0 for the others
//!     8   acknowledgement, u32  all up to this sequence number have arrived in order; 0 in groups
//!    12   check, u32            of the messages acknowledged ([`crate::stream`]), 0 with none and in groups
//! body, 256 bytes
//!    16   round, u32            the lower half of the number of this deposit's round
//!    20   check before, u32     of the messages of the sender before this one, 0 without a number
//!    24   head round, u64       of the newest manifest the sender has verified
//!    32   head prefix, 8 bytes  first bytes of that manifest's digest; both 0 before the first manifest
//!    40   in a conversation of two: content, up to 232 bytes
//!    40   in a group: signature, 64 bytes
//!   104               checks, 8 x u32, by member: of what has arrived in order; its own: of what it has sent
//!   136               content, up to 136 bytes
//! ```

use zeroize::Zeroizing;

use crate::error::Malformed;
use crate::seal::{PLAINTEXT_BYTES, Plaintext};
use crate::{Error, Round};

/// Most members of a group.
pub(crate) const MEMBERS_MAX: usize = 8;
/// Bytes of content in a conversation of two.
pub(crate) const PAIR_CONTENT: usize = PLAINTEXT_BYTES - PAIR_CONTENT_AT;
/// Bytes of content in a group.
pub(crate) const GROUP_CONTENT: usize = PLAINTEXT_BYTES - GROUP_CONTENT_AT;

/// Bytes by which a member of a group shows which new keys it was given: their epoch, u32, and their mark.
pub(crate) const ECHO_BYTES: usize = 4 + 32;
/// Bytes of the signature with which a member leaves a group.
pub(crate) const FAREWELL_BYTES: usize = 64;
/// The same as one member hands it to another: group id, member, signature.
pub(crate) const FORWARDED_FAREWELL_BYTES: usize = 16 + 1 + FAREWELL_BYTES;

const PAIR_CONTENT_AT: usize = 40;
const SIGNATURE_AT: usize = 40;
const CHECKS_AT: usize = 104;
const GROUP_CONTENT_AT: usize = 136;

/// The text goes on in the next sequence number.
pub(crate) const MORE: u8 = 2;
/// The text began in the sequence number before.
pub(crate) const REST: u8 = 4;
/// The sender keeps no message with a lower number: all before have been acknowledged to it.
pub(crate) const FIRST: u8 = 8;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Kind {
    Hello,
    Text,
    Acknowledgement,
    Rekey,
    Leave,
    Renewal,
}

impl Kind {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::Text => 2,
            Self::Acknowledgement => 3,
            Self::Rekey => 4,
            Self::Leave => 5,
            Self::Renewal => 6,
        }
    }

    const fn of_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Hello),
            2 => Some(Self::Text),
            3 => Some(Self::Acknowledgement),
            4 => Some(Self::Rekey),
            5 => Some(Self::Leave),
            6 => Some(Self::Renewal),
            _ => None,
        }
    }

    /// Whether there may be so much content in it: in a group or, with another farewell, in a conversation of two.
    fn allows(self, content: usize, group: bool) -> bool {
        match (self, group) {
            (Self::Hello | Self::Text | Self::Rekey, _) => true,
            (Self::Acknowledgement, false) => content == 0,
            (Self::Acknowledgement, true) => content == 0 || content == ECHO_BYTES,
            (Self::Leave, false) => content == FORWARDED_FAREWELL_BYTES,
            (Self::Leave, true) => content == FAREWELL_BYTES,
            (Self::Renewal, group) => !group && content > 0,
        }
    }

    /// Whether it is numbered, repeated until acknowledged, and delivered in order.
    pub(crate) const fn is_numbered(self) -> bool {
        matches!(self, Self::Text | Self::Rekey | Self::Leave | Self::Renewal)
    }

    const fn flags(self) -> u8 {
        match self {
            Self::Text | Self::Renewal => MORE | REST | FIRST,
            Self::Rekey | Self::Leave => FIRST,
            Self::Hello | Self::Acknowledgement => 0,
        }
    }
}

/// A verified manifest as a message names it.
pub(crate) type Head = (Round, [u8; 8]);

/// A message in the clear.
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    /// Of the messages acknowledged.
    pub(crate) check: u32,
    /// Of the sender's messages before this one, if it is numbered.
    pub(crate) before: u32,
    pub(crate) round: Round,
    pub(crate) head: Option<Head>,
    pub(crate) content: Zeroizing<Vec<u8>>,
}

impl Frame {
    /// The bytes to seal in a conversation of two.
    ///
    /// # Errors
    /// [`Error::Malformed`] if there are more than 232 bytes of content.
    pub(crate) fn encode(&self) -> Result<Plaintext, Error> {
        self.encode_at(PAIR_CONTENT_AT)
    }

    /// The message of a conversation of two, deposited in this round.
    ///
    /// # Errors
    /// [`Error::Malformed`] on any byte that [`Frame::encode`] would not have written.
    pub(crate) fn decode(plaintext: &Plaintext, round: Round) -> Result<Self, Error> {
        Self::decode_at(plaintext, round, PAIR_CONTENT_AT)
    }

    fn encode_at(&self, content_at: usize) -> Result<Plaintext, Error> {
        let length = u16::try_from(self.content.len()).map_err(|_| MALFORMED)?;
        let head = self.head.unwrap_or((Round(0), [0; 8]));
        let mut plaintext = Plaintext::new([0; PLAINTEXT_BYTES]);
        plaintext[0] = self.kind.code();
        plaintext[1] = self.flags;
        plaintext[2..4].copy_from_slice(&length.to_le_bytes());
        plaintext[4..8].copy_from_slice(&self.sequence.to_le_bytes());
        plaintext[8..12].copy_from_slice(&self.acknowledgement.to_le_bytes());
        plaintext[12..16].copy_from_slice(&self.check.to_le_bytes());
        plaintext[16..20].copy_from_slice(&lower_half(self.round));
        plaintext[20..24].copy_from_slice(&self.before.to_le_bytes());
        plaintext[24..32].copy_from_slice(&head.0.0.to_le_bytes());
        plaintext[32..40].copy_from_slice(&head.1);
        let content = plaintext[content_at..].get_mut(..self.content.len()).ok_or(MALFORMED)?;
        content.copy_from_slice(&self.content);
        Ok(plaintext)
    }

    fn decode_at(plaintext: &Plaintext, round: Round, content_at: usize) -> Result<Self, Error> {
        let kind = Kind::of_code(plaintext[0]).ok_or(MALFORMED)?;
        let (content, unused) = plaintext[content_at..]
            .split_at_checked(u16::from_le_bytes(field(plaintext, 2)).into())
            .ok_or(MALFORMED)?;
        let head = (Round(u64::from_le_bytes(field(plaintext, 24))), field(plaintext, 32));
        let frame = Self {
            kind,
            flags: plaintext[1],
            sequence: u32::from_le_bytes(field(plaintext, 4)),
            acknowledgement: u32::from_le_bytes(field(plaintext, 8)),
            check: u32::from_le_bytes(field(plaintext, 12)),
            before: u32::from_le_bytes(field(plaintext, 20)),
            round,
            head: (head != (Round(0), [0; 8])).then_some(head),
            content: Zeroizing::new(content.to_vec()),
        };
        let group = content_at == GROUP_CONTENT_AT;
        let zeros = unused.iter().all(|byte| *byte == 0)
            && (frame.acknowledgement != 0 || frame.check == 0)
            && (kind.is_numbered() || frame.before == 0);
        let numbered = (frame.sequence != 0) == kind.is_numbered();
        let sayable = match kind {
            Kind::Hello => frame.acknowledgement == 0,
            kind => kind.allows(frame.content.len(), group),
        };
        if !zeros
            || !numbered
            || !sayable
            || frame.flags & !kind.flags() != 0
            || field(plaintext, 16) != lower_half(round)
        {
            return Err(MALFORMED);
        }
        Ok(frame)
    }
}

/// A message of a group in the clear, under its sender's signature.
pub(crate) struct GroupFrame {
    pub(crate) frame: Frame,
    /// By member: of the messages up to which everything has arrived; of the sender itself: of all that it has sent.
    pub(crate) checks: [u32; MEMBERS_MAX],
}

impl GroupFrame {
    /// The bytes to seal; `sign` is given them with the signature's place zero.
    ///
    /// # Errors
    /// [`Error::Malformed`] if there are more than 136 bytes of content.
    pub(crate) fn encode(&self, sign: impl FnOnce(&Plaintext) -> [u8; 64]) -> Result<Plaintext, Error> {
        let mut plaintext = self.frame.encode_at(GROUP_CONTENT_AT)?;
        for (number, check) in self.checks.iter().enumerate() {
            let at = CHECKS_AT + 4 * number;
            plaintext[at..at + 4].copy_from_slice(&check.to_le_bytes());
        }
        let signature = sign(&plaintext);
        plaintext[SIGNATURE_AT..CHECKS_AT].copy_from_slice(&signature);
        Ok(plaintext)
    }

    /// The message, if `verify` accepts the bytes with the signature's place zero, and the signature.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it does not, or on any byte that [`GroupFrame::encode`] would not have written.
    pub(crate) fn decode(
        plaintext: &Plaintext,
        round: Round,
        verify: impl FnOnce(&Plaintext, &[u8; 64]) -> bool,
    ) -> Result<Self, Error> {
        let signature = field::<64>(plaintext, SIGNATURE_AT);
        let mut signed = plaintext.clone();
        signed[SIGNATURE_AT..CHECKS_AT].fill(0);
        if !verify(&signed, &signature) {
            return Err(MALFORMED);
        }
        let frame = Frame::decode_at(plaintext, round, GROUP_CONTENT_AT)?;
        if frame.acknowledgement != 0 || frame.kind == Kind::Hello {
            return Err(MALFORMED);
        }
        let check = |number| u32::from_le_bytes(field(plaintext, CHECKS_AT + 4 * number));
        Ok(Self { frame, checks: core::array::from_fn(check) })
    }
}

const MALFORMED: Error = Error::Malformed(Malformed::Message);

/// Of a round's number, as a message repeats it: that of the deposit is known, and its keys are its round's alone.
fn lower_half(round: Round) -> [u8; 4] {
    round.0.to_le_bytes().first_chunk().copied().unwrap_or_default()
}

/// `N` bytes of a field that lies within the layout above.
fn field<const N: usize>(plaintext: &Plaintext, at: usize) -> [u8; N] {
    core::array::from_fn(|i| plaintext[at + i])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};
    use zeroize::Zeroizing;

    use super::{Frame, GroupFrame, Kind, MEMBERS_MAX, MORE};
    use crate::Round;
    use crate::seal::{PLAINTEXT_BYTES, Plaintext};

    fn frame(content: &[u8]) -> Frame {
        Frame {
            kind: Kind::Text,
            flags: MORE,
            sequence: 0x0403_0201,
            acknowledgement: 5,
            check: 0x0a09_0807,
            before: 0x0e0d_0c0b,
            round: Round(9),
            head: Some((Round(8), [6; 8])),
            content: Zeroizing::new(content.to_vec()),
        }
    }

    #[test]
    fn the_layout_does_not_change_unnoticed() {
        let bytes = frame(b"hi").encode().unwrap();
        let expected =
            "0202020001020304050000000708090a090000000b0c0d0e0800000000000000060606060606060668690000";
        assert_eq!(data_encoding::HEXLOWER.encode(&bytes[..44]), expected);
        let group =
            GroupFrame { frame: Frame { acknowledgement: 0, check: 0, ..frame(b"hi") }, checks: [7; 8] };
        let bytes = group.encode(|_| [0xee; 64]).unwrap();
        assert_eq!(bytes[8..24], [0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 11, 12, 13, 14]);
        assert!(bytes[40..104].iter().all(|byte| *byte == 0xee));
        assert_eq!(bytes[104..140], [[7, 0, 0, 0].repeat(8), b"hi\0\0".to_vec()].concat());
    }

    /// A second meaning of the same bytes would be a covert channel, and a way to tell implementations apart.
    #[test]
    fn every_altered_unused_byte_is_refused() {
        let bytes = frame(b"hi").encode().unwrap();
        let unacknowledging = Frame { acknowledgement: 0, ..frame(b"hi") };
        assert!(Frame::decode(&unacknowledging.encode().unwrap(), Round(9)).is_err());
        for at in 42..PLAINTEXT_BYTES {
            let mut altered = bytes.clone();
            altered[at] ^= 1;
            assert!(Frame::decode(&altered, Round(9)).is_err(), "byte {at}");
        }
        assert!(Frame::decode(&bytes, Round(10)).is_err());
        assert!(Frame::decode(&bytes, Round(9 + (1 << 32))).is_ok());
        let unnumbered =
            Frame { kind: Kind::Acknowledgement, flags: 0, sequence: 0, before: 0, ..frame(b"") };
        assert!(Frame::decode(&unnumbered.encode().unwrap(), Round(9)).is_ok());
        let behind = Frame { before: 7, ..unnumbered };
        assert!(Frame::decode(&behind.encode().unwrap(), Round(9)).is_err());
        assert!(frame(&[0; 233]).encode().is_err());
        let number = Frame { sequence: 0, ..frame(b"hi") };
        assert!(Frame::decode(&number.encode().unwrap(), Round(9)).is_err());
        let bytes = |kind, sequence, acknowledgement, before| {
            let frame = Frame { kind, flags: 0, sequence, acknowledgement, check: 0, before, ..frame(b"") };
            GroupFrame { frame, checks: [0; MEMBERS_MAX] }.encode(|_| [0; 64]).unwrap()
        };
        let reads = |bytes: &Plaintext| GroupFrame::decode(bytes, Round(9), |_, _| true).is_ok();
        assert!(reads(&bytes(Kind::Text, 1, 0, 7)) && reads(&bytes(Kind::Acknowledgement, 0, 0, 0)));
        assert!(!reads(&bytes(Kind::Acknowledgement, 0, 0, 7)) && !reads(&bytes(Kind::Text, 1, 7, 7)));
        // Keys are renewed between two alone.
        let renewal = Frame { kind: Kind::Renewal, flags: 0, acknowledgement: 0, check: 0, ..frame(b"part") };
        assert!(Frame::decode(&renewal.encode().unwrap(), Round(9)).is_ok());
        let empty = Frame { content: Zeroizing::default(), ..renewal };
        assert!(Frame::decode(&empty.encode().unwrap(), Round(9)).is_err(), "a part of nothing");
        let renewal = Frame { content: Zeroizing::new(b"part".to_vec()), ..empty };
        let in_group = GroupFrame { frame: renewal, checks: [0; MEMBERS_MAX] }.encode(|_| [0; 64]).unwrap();
        assert!(!reads(&in_group));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(
            bytes in proptest::collection::vec(any::<u8>(), PLAINTEXT_BYTES), kind in 0_u8..7, short in any::<bool>(),
        ) {
            let mut plaintext = Plaintext::new(bytes.try_into().unwrap());
            plaintext[0] = kind;
            if short {
                plaintext[3] = 0;
            }
            let _ = Frame::decode(&plaintext, Round(0));
            let _ = GroupFrame::decode(&plaintext, Round(0), |_, _| true);
        }

        #[test]
        fn what_was_encoded_is_decoded(content in proptest::collection::vec(any::<u8>(), 0..=232)) {
            let decoded = Frame::decode(&frame(&content).encode().unwrap(), Round(9)).unwrap();
            assert_eq!(*decoded.content, content);
            assert_eq!((decoded.head, decoded.sequence), (Some((Round(8), [6; 8])), 0x0403_0201));
            if content.len() <= 136 {
                let frame = Frame { acknowledgement: 0, check: 0, ..frame(&content) };
                let sent = GroupFrame { frame, checks: [3; MEMBERS_MAX] };
                let decoded = GroupFrame::decode(&sent.encode(|_| [1; 64]).unwrap(), Round(9), |signed, signature| {
                    signed[40..104] == [0; 64] && *signature == [1; 64]
                });
                let decoded = decoded.unwrap();
                assert_eq!((&*decoded.frame.content, decoded.checks), (&content, [3; MEMBERS_MAX]));
                assert_eq!(decoded.frame.before, 0x0e0d_0c0b);
            }
        }
    }
}
