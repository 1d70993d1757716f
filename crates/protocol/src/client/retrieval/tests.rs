//! What a client makes of mappings and answers that do not fit together.

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::{Assigned, Lookups};
use crate::client::world::{Fate, World};
use crate::mapping::{BloomMapping, Lookup, Outcome};
use crate::{Label, deposit};

/// A label that the mapping of a round shows, and one that it does not.
fn looked_up(labels: [Label; 2]) -> Lookup {
    let mut world = World::new(1, &["alice", "bob", "carol", "dave"], 1, 4);
    let mut deposits = world.deposits(&[Fate::default(); 4]);
    deposits[0].label = labels[0];
    let seed = [9; 32];
    deposit::arrange(&mut deposits, &seed);
    let (manifest, mapping, _) = world.sealed(&deposits, seed);
    let mapping = BloomMapping::decode(&mapping, &manifest).unwrap();
    Lookup::new(&*manifest.code().unwrap(), &mapping, &labels, &mut ChaCha20Rng::seed_from_u64(1))
}

/// A box that is read though the mapping hides it tells on the server; one that must be there, and does not open, on whoever wrote it.
/// With slots there is no mapping that could do either.
#[test]
fn a_mapping_is_believed_where_there_is_one() {
    let labels = [Label([1; 16]), Label([2; 16])];
    let lookup = looked_up(labels);
    let outcomes: Vec<Outcome> = lookup.readings().iter().map(super::Reading::outcome).collect();
    assert_eq!(outcomes, [Outcome::Found, Outcome::Absent]);
    let assigned = |number: usize, is_mapped| {
        let reading = lookup.readings()[number].clone();
        let assigned = Assigned { label: labels[number], reading, cell: None, is_mapped };
        [assigned.is_certain(), assigned.is_hidden()]
    };
    assert_eq!([0, 1].map(|number| assigned(number, true)), [[true, false], [false, true]]);
    assert_eq!([0, 1].map(|number| assigned(number, false)), [[false; 2]; 2]);
    let counts = Lookups::of(|outcome| lookup.count(outcome));
    assert_eq!(counts, Lookups { found: 1, absent: 1, ..Lookups::default() });
}
