//! Work on every bucket at once.

use std::sync::OnceLock;

use rayon::prelude::{IntoParallelIterator, ParallelIterator};

/// What `of` gives for every number below `count`, on the threads of the pool that it is called on.
///
/// As `of` is a trait object, the machinery of threads is compiled once, and not for every engine.
pub fn each<T: Send + Sync>(count: usize, of: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    let results: Vec<OnceLock<T>> = (0..count).map(|_| OnceLock::new()).collect();
    run(count, &|number| drop(results[number].set(of(number))));
    results.into_iter().map(|result| result.into_inner().expect("each number was run")).collect()
}

fn run(count: usize, job: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().for_each(job);
}

#[cfg(test)]
mod tests {
    use super::each;

    #[test]
    fn results_stand_in_the_order_of_their_numbers() {
        for count in [0, 1, 2, 1000] {
            // Those that are begun first take longest.
            let of = |number: usize| (0..(count - number) * 100).fold(number, |sum, term| sum ^ term ^ term);
            assert_eq!(each(count, &of), (0..count).collect::<Vec<_>>());
        }
        let failing = |number: usize| if number % 3 == 1 { Err(number) } else { Ok(number) };
        assert_eq!(each(10, &failing).into_iter().collect::<Result<Vec<_>, _>>(), Err(1));
    }
}
