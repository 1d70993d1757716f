//! Which elements are wanted, on the way through a multi-query.

use mpir::MultiClient;
use pir_core::{NoOp, Scheme};

use super::heap::left_behind;
use super::rng;

const ELEMENT_BYTES: usize = 288;

pub(super) fn are_not_left_behind() {
    let parameters = NoOp::parameters(1 << 20, ELEMENT_BYTES).unwrap();
    let wanted: [usize; 4] = [0x7_1234, 0x3_4567, 0xA_89AB, 0x5_CDEF];
    let targets = wanted.map(Some);
    let indices: Vec<u64> = wanted.iter().map(|index| *index as u64).collect();
    let address = &raw const parameters as u64;
    let items = vec![indices[0], address, indices[1], address, indices[2]];
    let left = left_behind(&[("indices", indices), ("items", items)], || {
        let client = MultiClient::<NoOp>::new(&[3; 32]);
        drop(client.multi_query(&parameters, &targets, &mut rng(2)).unwrap());
    });
    assert!(left.is_empty(), "{left:?}");
}
