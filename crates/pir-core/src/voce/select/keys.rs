//! A client's keys: what it uploads for some rounds, and what the server reads.

use zeroize::Zeroize;

use super::common::{Common, KEYS, Key};
use super::{GADGET, SQUARE_DROPPED_BITS};
use crate::Error;
use crate::ring::bits::{BitWriter, packed_bytes, unpack};
use crate::ring::{Coefficient, Evaluation, Polynomial, sampling};
use crate::voce::format::Keys;
use crate::voce::ring::{DEGREE, DROPPED_BITS, MODULUS_BITS, ORBIT, Ring};
use crate::voce::shape::Shape;

/// Bytes of a key.
const EACH: usize = packed_bytes(DEGREE, MODULUS_BITS);

/// A client's keys as the server holds them: a megabyte.
pub struct PublicKeys {
    pub(super) packing: Keys,
    /// Key after key, in slots; those of packing are left out.
    others: Vec<Vec<u64>>,
}

/// Keys that come before those in slots.
const BY_PLACE: usize = 2;

impl PublicKeys {
    /// Bytes that a client uploads.
    pub const BYTES: usize = KEYS * EACH;

    /// Reads them.
    ///
    /// # Errors
    /// [`Error::Malformed`] if they are not [`PublicKeys::BYTES`], or what stands there is no residue.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() != Self::BYTES {
            return Err(Error::Malformed("size of keys"));
        }
        let (packing, others) = bytes.split_at(Shape::keys_bytes());
        let q = Ring::get().modulus().value();
        let read = |bytes: &[u8]| {
            let mut values = vec![0; DEGREE];
            unpack(MODULUS_BITS, bytes, &mut values);
            if values.iter().all(|value| *value < q) { Ok(values) } else { Err(Error::Malformed("keys")) }
        };
        let others = others.chunks_exact(EACH).map(read).collect::<Result<_, _>>()?;
        Ok(Self { packing: Keys::read(packing)?, others })
    }

    /// The private half of a key that is in slots.
    pub(super) fn half(&self, key: Key) -> &[u64] {
        &self.others[key.number() - BY_PLACE]
    }
}

/// The keys of a secret in slots: `e - a s + w image(s)` for every key, its weight w and what it is for.
pub(super) fn write(secret: &Polynomial<Evaluation>, own: &[u8; 32], first_stream: u64) -> Vec<u8> {
    let (ring, common) = (Ring::get(), Common::get());
    let modulus = ring.modulus();
    let s = secret.residues();
    let mut out = Vec::with_capacity(PublicKeys::BYTES);
    let mut image = vec![0; DEGREE];
    for key in Key::all() {
        let stream = first_stream + key.number() as u64;
        let errors = sampling::errors(DEGREE, own, stream);
        let mut errors = Polynomial::<Coefficient>::from_signed(modulus, &errors).into_evaluation(&ring.ntt);
        let weight = match key {
            Key::Step => {
                by_place(ring, &mut image, s, |place| place & ORBIT | ((place + 1) % ORBIT));
                1 << DROPPED_BITS
            }
            Key::Conjugation => {
                by_place(ring, &mut image, s, |place| place ^ ORBIT);
                1 << DROPPED_BITS
            }
            Key::Square => {
                image.iter_mut().zip(s).for_each(|(image, s)| *image = modulus.mul(*s, *s));
                1 << SQUARE_DROPPED_BITS
            }
            Key::Separation(level) => {
                common.substitution(level).slots_into(s, &mut image);
                1 << DROPPED_BITS
            }
            Key::Tree(level, digit) => {
                common.substitution(level).slots_into(s, &mut image);
                GADGET.weight(modulus, digit)
            }
        };
        let (a, errors_slots) = (common.half(key), errors.residues_mut());
        for (((value, a), s), image) in errors_slots.iter_mut().zip(a).zip(s).zip(&image) {
            let masked = modulus.sub(*value, modulus.mul(*a, *s));
            *value = modulus.add(masked, modulus.mul(*image, weight));
        }
        let mut writer = BitWriter::new(&mut out);
        for at in 0..DEGREE {
            let slot = if key.number() < BY_PLACE { ring.other[at] } else { at };
            writer.write(errors.residues()[slot], MODULUS_BITS);
        }
        writer.finish();
        errors.zeroize();
    }
    image.zeroize();
    out
}

/// In slots what has at a place what s has at `from(place)`.
fn by_place(ring: &Ring, image: &mut [u64], s: &[u64], from: impl Fn(usize) -> usize) {
    for (place, slot) in ring.other.iter().enumerate() {
        image[*slot] = s[ring.other[from(place)]];
    }
}
