//! The constants, and the laws that they stand in.

use serde::{Deserialize, Serialize};
use sotto_measuring::cpu::Stages;

use super::fit;
use super::sizes::{BucketSize, RoundSize};

/// CPU time of one thread on the machine that was measured, microseconds. With Voce those of answers and set-up mean what is said
/// at each, and the others are 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constants {
    /// Parsing one query, with all of EXPAND that does not depend on the number of selectors. Voce: a bucket's answer, whatever it
    /// is, for each client of a tile, as are all of the answer.
    pub query: f64,
    /// A transform of EXPAND, with the products that go with it. Voce: a pack.
    pub transform: f64,
    /// A selector of the first dimension, brought in order or its result put in its place. Voce: a KiB of the query.
    pub arranged: f64,
    /// A KiB of the prepared database, read and multiplied.
    pub scanned_kib: f64,
    /// A column of the second dimension.
    pub column: f64,
    /// A ciphertext of the answer.
    pub answer: f64,
    /// Set-up of a bucket, whatever it holds. Voce: of a pack.
    pub setup_bucket: f64,
    /// Set-up of one plaintext's place in a bucket. Voce: of one element's.
    pub setup_plaintext: f64,
    /// Encode, for each codeword, with its bytes.
    pub encode_codeword: f64,
    /// A box of a sealed round, put in its place and digested.
    pub(crate) sealed_box: f64,
    /// The mapping, for each codeword.
    pub(crate) mapped_codeword: f64,
    /// The calls of one client in one round, without the bytes they carry.
    pub(crate) calls: f64,
    /// A KiB of those bytes.
    pub(crate) sent_kib: f64,
    /// A client's public keys, read once.
    pub(crate) keys: f64,
}

impl Constants {
    /// The answer of one bucket, milliseconds.
    pub(crate) fn answer(&self, bucket: &BucketSize) -> Stages {
        if let Some(voce) = &bucket.voce {
            let [bucket, packs, query, scanned] = voce.answer_features();
            return Stages {
                expand: (bucket * self.query + packs * self.transform) / 1e3,
                first_dimension: (query * self.arranged + scanned * self.scanned_kib) / 1e3,
                rest: 0.0,
            };
        }
        let of = |features, constants| fit::predict(features, constants) / 1e3;
        Stages {
            expand: of(bucket.expand_features(), [self.query, self.transform]),
            first_dimension: of(bucket.first_features(), [self.arranged, self.scanned_kib]),
            rest: of(bucket.rest_features(), [self.answer, self.column]),
        }
    }

    /// What a client's whole multi-query costs.
    pub fn client_round(&self, round: &RoundSize) -> Stages {
        self.answer(&round.bucket) * round.buckets as f64
    }

    /// Set-up of one bucket, milliseconds.
    pub(crate) fn setup_bucket(&self, bucket: &BucketSize) -> f64 {
        let features = bucket.voce.map_or(bucket.setup_features(), |voce| voce.setup_features());
        fit::predict(features, [self.setup_bucket, self.setup_plaintext]) / 1e3
    }

    /// Encode and set-up of all buckets, once for all clients, milliseconds.
    pub fn setup_round(&self, round: &RoundSize) -> f64 {
        self.encode_codeword * round.codewords() / 1e3
            + self.setup_bucket(&round.bucket) * round.buckets as f64
    }

    /// Everything that is done once in a round for all clients, milliseconds.
    pub(crate) fn build_round(&self, round: &RoundSize) -> f64 {
        let mapped = if round.mapping_bytes() == 0 { 0.0 } else { self.mapped_codeword * round.codewords() };
        let indexed = self.sealed_box * round.boxes as f64 + mapped;
        self.setup_round(round) + indexed / 1e3
    }

    /// Of one client's calls in a round, without the answers, milliseconds.
    pub(crate) fn transport(&self, bytes: f64) -> f64 {
        (self.calls + self.sent_kib * bytes / 1024.0) / 1e3
    }

    /// Of taking a client's public keys, milliseconds.
    pub(crate) fn take_keys(&self, bytes: f64) -> f64 {
        (self.keys + self.sent_kib * bytes / 1024.0) / 1e3
    }

    /// Of making one bucket again and giving it out, to be checked, milliseconds.
    pub(crate) fn give_bucket(&self, round: &RoundSize, bytes: f64) -> f64 {
        (self.encode_codeword * round.bucket.elements as f64 + self.sent_kib * bytes / 1024.0) / 1e3
    }

    /// The size of a bucket, in elements, from which on more than half of an answer is the scan, whose cost is linear in
    /// the size; below, most of it is what grows with the square root or not at all. None if no bucket that the engine
    /// can arrange is as large.
    pub fn crossover(&self) -> Option<usize> {
        let scan_wins = |elements: usize| -> Option<bool> {
            let bucket = BucketSize::of(elements).ok()?;
            let scan = self.scanned_kib * bucket.scanned_kib() / 1e3;
            Some(2.0 * scan >= self.answer(&bucket).total())
        };
        let (mut low, mut high) = (1, 2);
        while !scan_wins(high)? {
            (low, high) = (high, 2 * high);
        }
        while high - low > 1 + low / 256 {
            let middle = low.midpoint(high);
            if scan_wins(middle)? { high = middle } else { low = middle }
        }
        Some(high)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "inside tests, failing loudly is the point")]
pub(crate) mod tests {
    use sotto_measuring::engine::EngineName;
    use sottod::Addressing;

    use super::{BucketSize, Constants, RoundSize};

    /// Round numbers, to calculate with by hand.
    pub(crate) const BY_HAND: Constants = Constants {
        query: 500.0,
        transform: 10.0,
        arranged: 10.0,
        scanned_kib: 0.2,
        column: 40.0,
        answer: 50.0,
        setup_bucket: 100.0,
        setup_plaintext: 16.0,
        encode_codeword: 0.5,
        sealed_box: 1.0,
        mapped_codeword: 0.25,
        calls: 1000.0,
        sent_kib: 2.0,
        keys: 5000.0,
    };

    /// Against a calculation by hand from docs/PARAMETERS.md: 8192 elements are 38 rows and 27 columns, 478 transforms.
    #[test]
    fn an_answer_costs_the_sum_of_its_parts() {
        let bucket = BucketSize::of(8192).unwrap();
        let time = BY_HAND.answer(&bucket);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(time.expand, 0.5 + 478.0 * 0.010);
        // 9 KiB for each of 1026 places: 2048 residues of 36 bits.
        close(time.first_dimension, 65.0 * 0.010 + 1026.0 * 9.0 * 0.0002);
        close(time.rest, 4.0 * 0.05 + 27.0 * 0.040);
        close(time.total(), 5.28 + (0.65 + 1.8468) + 1.28);
        close(BY_HAND.setup_bucket(&bucket), 0.1 + 1026.0 * 0.016);
    }

    /// On both sides of the crossover the other part must be the larger one.
    #[test]
    fn the_crossover_is_where_the_scan_is_half_of_an_answer() {
        let at = BY_HAND.crossover().unwrap();
        let share = |elements| {
            let bucket = BucketSize::of(elements).unwrap();
            BY_HAND.scanned_kib * bucket.scanned_kib() / 1e3 / BY_HAND.answer(&bucket).total()
        };
        assert!((0.48..0.52).contains(&share(at)), "{at}: {}", share(at));
        assert!(share(at / 2) < 0.45 && share(2 * at) > 0.55);
        // A scan that costs nothing never wins.
        assert_eq!(Constants { scanned_kib: 0.0, ..BY_HAND }.crossover(), None);
    }

    /// The bucket of the largest load is what all are padded to; 24,947 was measured (docs/PARAMETERS.md).
    #[test]
    fn rounds_have_the_sizes_of_the_documents() {
        let round = RoundSize::new(1 << 18, 16, Addressing::Labels, EngineName::Sealpir).unwrap();
        assert_eq!((round.buckets, round.choices), (32, 3));
        assert!((24_800..25_100).contains(&round.bucket.elements), "{}", round.bucket.elements);
        assert_eq!(round.download_bytes(), 32 * 34_820);
        assert!((452..=468).contains(&(round.upload_bytes() / 32)), "{}", round.upload_bytes());
        let mapping = round.mapping_bytes() as f64 / 2_396_300.0;
        assert!((0.99..1.01).contains(&mapping));
        let alone = RoundSize::new(1 << 14, 1, Addressing::Labels, EngineName::Sealpir).unwrap();
        assert_eq!((alone.buckets, alone.choices, alone.bucket.elements), (1, 1, 1 << 14));
        assert!([Addressing::Labels, Addressing::Slots, Addressing::Standing].into_iter().all(|way| {
            RoundSize::new(0, 16, way, EngineName::Sealpir).is_err()
                && RoundSize::new(1 << 14, 0, way, EngineName::Sealpir).is_err()
                && RoundSize::new(1 << 40, 16, way, EngineName::Sealpir).is_err()
        }));
    }

    /// 36 buckets of 22,528, which Voce has in its own arrangement: what a pack and what a KiB costs, and the sizes of the engine.
    #[test]
    fn a_round_with_voce_costs_its_packs_and_its_scan() {
        let engines = [
            (EngineName::Voce, 0, 0.5),
            (EngineName::VoceHint, 25_600, 0.5),
            (EngineName::VoceApart, 36 * 25_600, 1.0),
        ];
        for (engine, keys, room) in engines {
            let round = RoundSize::new(1 << 18, 16, Addressing::Slots, engine).unwrap();
            let voce = round.bucket.voce.unwrap();
            let spec =
                engine.round(mpir::Form { buckets: 36, elements: 22_528, element_bytes: 288 }, None).unwrap();
            let columns = f64::from(u16::from_le_bytes([spec.profile.0[1], spec.profile.0[2]]));
            let places = columns * 2.0 * (22_528.0 / columns / 2.0).ceil();
            assert!((voce.places - places).abs() < 1e-9 && (voce.scanned_kib - places / 2.0).abs() < 1e-9);
            // 256 outputs for each column, 2,048 to a pack; units may be left with room.
            assert!((columns / 8.0..columns / 8.0 + room).contains(&voce.packs), "{columns} {}", voce.packs);
            let time = BY_HAND.client_round(&round).total();
            let bucket = 0.5 + voce.packs * 0.010 + voce.query_kib * 0.010 + voce.scanned_kib * 0.0002;
            assert!((time - 36.0 * bucket).abs() < 1e-9);
            let setup = BY_HAND.setup_round(&round);
            let by_hand = 36.0 * (voce.packs * 0.1 + places * 0.016 + 22_528.0 * 0.0005);
            assert!((setup / by_hand - 1.0).abs() < 1e-9);
            // A query has 39 bits for every two rows.
            let queries = 36 * (39 * (places / columns / 2.0) as usize).div_ceil(8);
            assert!(round.upload_bytes() >= keys + queries && round.upload_bytes() < keys + 600_000);
        }
    }
}
