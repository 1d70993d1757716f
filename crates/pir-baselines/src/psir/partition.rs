//! A division of all records into p parts, by a polynomial for each group of records.

use core::ops::Range;

use pir_core::Error;
use pir_core::ring::bits::{BitReader, BitWriter};
use rand_core::Rng;

use super::shape::Shape;

/// A division, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    shape: Shape,
    /// Group by group, the constant term first.
    coefficients: Vec<u32>,
}

impl Partition {
    /// One drawn at random of those that have exactly the given records, in ascending order, in the given part. None is drawn
    /// if a group has more of them than there are coefficients, or as many and not all of its records: see [`super`] for how rarely
    /// that is.
    pub(super) fn draw(shape: &Shape, members: &[usize], part: u32, rng: &mut impl Rng) -> Option<Self> {
        let mut coefficients = Vec::with_capacity(shape.groups() * shape.coefficients());
        let mut rest = members;
        for group in 0..shape.groups() {
            let records = records(shape, group);
            let (members, others) = rest.split_at(rest.partition_point(|member| *member < records.end));
            rest = others;
            let points: Vec<u32> = members.iter().map(|member| (member - records.start) as u32).collect();
            draw_polynomial(shape, records.len(), &points, part, rng, &mut coefficients)?;
        }
        Some(Self { shape: *shape, coefficients })
    }

    /// Appends [`Shape::partition_bytes`] bytes.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        let mut writer = BitWriter::new(bytes);
        self.coefficients.iter().for_each(|value| writer.write(u64::from(*value), self.shape.field().bits()));
        writer.finish();
    }

    /// Parses what [`Partition::encode`] wrote.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a wrong size or range.
    pub(super) fn decode(shape: &Shape, bytes: &[u8]) -> Result<Self, Error> {
        const MALFORMED: Error = Error::Malformed("partition");
        if bytes.len() != shape.partition_bytes() {
            return Err(MALFORMED);
        }
        let field = shape.field();
        let mut reader = BitReader::new(bytes);
        let count = shape.groups() * shape.coefficients();
        let coefficients: Vec<u32> = (0..count).map(|_| reader.read(field.bits()) as u32).collect();
        let valid = reader.is_finished() && coefficients.iter().all(|value| *value < field.p());
        if valid { Ok(Self { shape: *shape, coefficients }) } else { Err(MALFORMED) }
    }

    /// The part of every record.
    pub(super) fn parts(&self) -> Vec<u32> {
        let mut parts = vec![0; self.shape.elements()];
        let groups = self.coefficients.chunks_exact(self.shape.coefficients());
        for (coefficients, parts) in groups.zip(parts.chunks_mut(self.shape.parts())) {
            self.shape.field().evaluate(coefficients, parts);
        }
        parts
    }

    /// The sums of all parts, one behind the other.
    ///
    /// # Panics
    /// If the records are not as many bytes as the shape says.
    pub(super) fn sums(&self, records: &[u8]) -> Vec<u8> {
        let size = self.shape.element_bytes();
        assert_eq!(records.len(), self.shape.elements() * size, "all records");
        let mut sums = vec![0; self.shape.parts() * size];
        for (record, part) in records.chunks_exact(size).zip(self.parts()) {
            add(&mut sums[part as usize * size..][..size], record);
        }
        sums
    }
}

/// Adds a record to a sum.
pub(super) fn add(sum: &mut [u8], record: &[u8]) {
    sum.iter_mut().zip(record).for_each(|(sum, byte)| *sum ^= byte);
}

/// The records of a group.
fn records(shape: &Shape, group: usize) -> Range<usize> {
    let first = group * shape.parts();
    first..shape.elements().min(first + shape.parts())
}

/// Appends a polynomial drawn at random of those whose value at 0, 1, ..., below `count`, is the part exactly at the given
/// points.
fn draw_polynomial(
    shape: &Shape,
    count: usize,
    points: &[u32],
    part: u32,
    rng: &mut impl Rng,
    out: &mut Vec<u32>,
) -> Option<()> {
    let field = shape.field();
    let left = shape.coefficients().checked_sub(points.len())?;
    if left == 0 && points.len() < count {
        return None;
    }
    // (X - x_1) ... (X - x_t).
    let mut product = vec![1];
    for point in points {
        let root = field.negative(*point);
        product.push(0);
        for i in (0..product.len()).rev() {
            let lower = if i == 0 { 0 } else { product[i - 1] };
            product[i] = field.multiply_add(product[i], root, lower);
        }
    }
    let (mut cofactor, mut values) = (vec![0; left], vec![0; count]);
    loop {
        cofactor.iter_mut().for_each(|coefficient| *coefficient = field.random(rng));
        field.evaluate(&cofactor, &mut values);
        let mut points = points.iter().peekable();
        let is_good = (0..).zip(&values).all(|(x, value)| points.next_if_eq(&&x).is_some() || *value != 0);
        if is_good {
            break;
        }
    }
    let first = out.len();
    out.resize(first + shape.coefficients(), 0);
    let polynomial = &mut out[first..];
    for (i, a) in product.iter().enumerate() {
        for (slot, b) in polynomial.iter_mut().skip(i).zip(&cofactor) {
            *slot = field.multiply_add(*a, *b, *slot);
        }
    }
    polynomial[0] = field.multiply_add(1, part, polynomial[0]);
    Some(())
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;
    use std::collections::BTreeSet;

    use rand_chacha::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng, TryRng};

    use super::{Partition, Shape};

    /// A part with a record more or less would give another sum, and one that another part gets would be missing.
    #[test]
    fn exactly_the_given_records_are_in_the_given_part() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        for n in [1, 2, 3, 7, 60, 500, 5000, 1 << 16] {
            let shape = Shape::new(n, 3).unwrap();
            for part in [0, shape.parts() as u32 - 1] {
                let chosen = |rng: &mut ChaCha20Rng| rng.next_u32().is_multiple_of(shape.parts() as u32);
                let members: Vec<usize> = (0..n).filter(|_| chosen(&mut rng)).collect();
                let partition = Partition::draw(&shape, &members, part, &mut rng).unwrap();
                let parts = partition.parts();
                let found: Vec<usize> = (0..n).filter(|record| parts[*record] == part).collect();
                assert_eq!(found, members);
                assert!(parts.iter().all(|part| (*part as usize) < shape.parts()));
                let mut bytes = Vec::new();
                partition.encode(&mut bytes);
                assert_eq!(bytes.len(), shape.partition_bytes());
                assert_eq!(Partition::decode(&shape, &bytes), Ok(partition));
            }
        }
    }

    #[test]
    fn groups_of_which_a_set_holds_all_or_nearly_all_records_have_a_polynomial_where_there_is_one() {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        // Groups of 5 records, whose polynomials are all divisions there are.
        let small = Shape::new(60, 3).unwrap();
        assert_eq!((small.parts(), small.coefficients()), (5, 5));
        for members in [(0..60).collect::<Vec<_>>(), (0..59).collect(), (5..10).collect()] {
            let partition = Partition::draw(&small, &members, 3, &mut rng).unwrap();
            let parts = partition.parts();
            assert!((0..60).all(|record| (parts[record] == 3) == members.contains(&record)));
        }
        // Groups of 131 records, and 32 coefficients.
        let large = Shape::new(1 << 16, 3).unwrap();
        assert_eq!((large.parts(), large.coefficients()), (131, 32));
        for (count, there_is) in [(31, true), (32, false), (33, false), (131, false)] {
            let members: Vec<usize> = (0..count).collect();
            assert_eq!(Partition::draw(&large, &members, 3, &mut rng).is_some(), there_is, "{count}");
        }
    }

    /// The distribution that hides a set, where it can be counted: with uniform polynomials, every record is in every part
    /// equally often, and so it is if a record is added to a set that holds each other one with probability 1/p.
    #[test]
    fn divisions_show_nothing_of_the_record_that_was_added() {
        // Three records, in groups of two and one: 8 divisions into two parts.
        let shape = Shape::new(3, 1).unwrap();
        assert_eq!((shape.parts(), shape.groups()), (2, 2));
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let mut counts = [[0u32; 8]; 3];
        for (wanted, counts) in counts.iter_mut().enumerate() {
            for _ in 0..8000 {
                let members: Vec<usize> =
                    (0..3).filter(|record| *record == wanted || rng.next_u32() % 2 == 0).collect();
                let part = rng.next_u32() % 2;
                let parts = Partition::draw(&shape, &members, part, &mut rng).unwrap().parts();
                counts[parts.iter().fold(0, |number, part| 2 * number + *part as usize)] += 1;
            }
        }
        // 1000 in the mean, of standard deviation 30, under a fixed seed.
        assert!(counts.iter().flatten().all(|count| count.abs_diff(1000) < 150), "{counts:?}");
    }

    /// By how much the number of a group's records in a part, where its polynomial is uniform, is off from that where each is there
    /// by a probability of 1/p: the sum over t below w of `weight |P(t) - B(t)|`, the weight 1, or t for the group of a record that is known to be in
    /// the part. What is left of inclusion and exclusion beyond w points is the difference, so that nothing cancels.
    fn shown(shape: &Shape, is_known: bool) -> f64 {
        let (p, w) = (shape.parts() as f64, shape.coefficients() as i32);
        let choose = |n: f64, k: i32| (0..k).fold(1.0, |all, i| all * (n - f64::from(i)) / f64::from(i + 1));
        let sign = |j: i32| if j % 2 == 0 { 1.0 } else { -1.0 };
        let of = |t: i32| {
            let (rest, points) = (p - f64::from(t), w - t);
            let mut difference = sign(points + 1) * choose(rest - 1.0, points) / p.powi(points);
            let mut term = choose(rest, points + 1) / p.powi(points + 1);
            for j in points + 1..=rest as i32 {
                difference -= sign(j) * term;
                term *= (rest - f64::from(j)) / f64::from(j + 1) / p;
            }
            let weight = if is_known { f64::from(t) } else { 1.0 };
            weight * choose(p, t) / p.powi(t) * difference.abs()
        };
        (0..w).map(of).sum()
    }

    #[test]
    fn all_groups_together_show_no_more_than_the_documents_say() {
        let factorial = |n: i32| (1..=n).fold(1.0, |all, i| all * f64::from(i));
        for n in [1 << 13, 1 << 16, 1 << 20, 1 << 24] {
            let shape = Shape::new(n, 1).unwrap();
            let (w, groups) = (shape.coefficients() as i32, shape.groups() as f64);
            assert_eq!(w, 32);
            let (one, known) = (2f64.powi(w) / factorial(w), 2f64.powi(w - 1) / factorial(w - 1));
            let [one_shown, known_shown] = [false, true].map(|is_known| shown(&shape, is_known));
            assert!(
                0.0 < one_shown && one_shown < one && known_shown < known,
                "{n}: {one_shown} {known_shown}"
            );
            assert!(((groups - 1.0) * one + known).log2() < -72.0, "{n}");
        }
    }

    /// Every cofactor in turn.
    struct Script(std::vec::IntoIter<u32>);

    impl TryRng for Script {
        type Error = Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            Ok(self.0.next().unwrap())
        }

        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            unreachable!("words of 32 bits")
        }

        fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), Infallible> {
            unreachable!("words of 32 bits")
        }
    }

    /// Where there are few, all of them are drawn, each from one cofactor: so each is as probable as the others.
    #[test]
    fn each_polynomial_that_has_these_records_in_the_part_is_drawn_once() {
        let shape = Shape::new(5000, 1).unwrap();
        let p = shape.parts() as u32;
        assert_eq!((p, shape.coefficients()), (37, 32));
        // 30 points, which leave two coefficients, and 7 others.
        let points: Vec<u32> = (0..p).filter(|x| x % 5 != 1 || *x > 31).collect();
        assert_eq!(points.len(), 30);
        // One more in the end, which is never refused.
        let all = (0..p).flat_map(|first| (0..p).flat_map(move |second| [first, second]));
        let mut script = Script(all.chain([1, 0]).collect::<Vec<_>>().into_iter());
        let mut found = Vec::new();
        while script.0.len() > 0 {
            let mut polynomial = Vec::new();
            super::draw_polynomial(&shape, p as usize, &points, 3, &mut script, &mut polynomial).unwrap();
            let mut values = vec![0; p as usize];
            shape.field().evaluate(&polynomial, &mut values);
            assert!((0..p).all(|x| (values[x as usize] == 3) == points.contains(&x)));
            found.push(polynomial);
        }
        found.pop();
        // All pairs but nothing at all, and those that are 0 at one of the 7.
        assert_eq!(found.len() as u32, p * p - 1 - 7 * (p - 1));
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len());
    }

    #[test]
    fn what_is_no_partition_is_refused() {
        let shape = Shape::new(60, 3).unwrap();
        let mut bytes = Vec::new();
        Partition::draw(&shape, &[7], 0, &mut ChaCha20Rng::seed_from_u64(4)).unwrap().encode(&mut bytes);
        assert!(Partition::decode(&shape, &bytes).is_ok());
        for wrong in [&[][..], &bytes[1..], &[&bytes[..], &[0]].concat()] {
            assert!(Partition::decode(&shape, wrong).is_err());
        }
        // 7 is not below 5.
        bytes[0] |= 7;
        assert!(Partition::decode(&shape, &bytes).is_err());
    }
}
