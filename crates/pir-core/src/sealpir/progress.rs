//! One client's query on its way to an answer.

use super::shape::Parameters;
use crate::bfv::{Ciphertext, GaloisKeys, Workspace};
use crate::dimensions::{FurtherDimension, Products};
use crate::expand::expand_in_place;
#[cfg(test)]
use crate::ring::Polynomial;
use crate::ring::{Coefficient, Evaluation};
use crate::{Error, bfv};

/// The memory in which a query becomes an answer. It is kept for the next query, since fresh memory costs more to get than
/// many a stage takes.
#[derive(Default)]
pub(super) struct Progress {
    workspace: Option<Workspace>,
    leaves: Vec<Ciphertext<Evaluation>>,
    products: Products,
    second: FurtherDimension,
}

impl Progress {
    /// EXPAND. The first `switched` leaves, those of the rows, go to q with the database; those of the columns stay at Q,
    /// where the second dimension meets them.
    pub(super) fn expand(
        &mut self,
        parameters: &Parameters,
        keys: &GaloisKeys,
        mut query: Ciphertext<Coefficient>,
        switched: usize,
    ) -> Result<(), Error> {
        let bfv = bfv::Parameters::s2048();
        self.leaves.resize_with(parameters.selectors(), || Ciphertext::zero(bfv.degree()));
        query.divide_by_power_of_two(bfv.large().modulus(), parameters.levels());
        let root = self.leaves.first_mut().ok_or(Error::Shape("no selector"))?;
        *root = query.into_evaluation(bfv.large());
        let workspace = self.workspace.get_or_insert_with(|| Workspace::new(bfv));
        expand_in_place(bfv, keys, &mut self.leaves, parameters.levels(), switched, workspace);
        Ok(())
    }

    /// What the first dimension reads, and where its results go.
    pub(super) fn of_first_dimension(&mut self) -> (&[Ciphertext<Evaluation>], &mut Products) {
        (&self.leaves, &mut self.products)
    }

    /// The leaves of EXPAND.
    #[cfg(test)]
    pub(super) fn leaves(&self) -> &[Ciphertext<Evaluation>] {
        &self.leaves
    }

    /// The result of the first dimension for a column.
    #[cfg(test)]
    pub(super) fn product(&self, column: usize) -> Ciphertext<Evaluation> {
        let [c0, c1] = self.products.column(column).map(Polynomial::from_residues);
        Ciphertext { c0, c1 }
    }

    /// From the first dimension's results of one group to the answer.
    pub(super) fn finish_group(&mut self, parameters: &Parameters, answer: &mut Vec<u8>) {
        let (bfv, columns) = (bfv::Parameters::s2048(), &self.leaves[parameters.rows()..]);
        let form = parameters.answer_form();
        for part in 0..parameters.parts() {
            if parameters.dimensions() == 1 {
                form.write(bfv.small(), self.second.skip(&self.products, part), answer);
                continue;
            }
            let first = part * parameters.columns();
            for ciphertext in self.second.run(bfv.large(), &self.products, first, columns) {
                form.write(bfv.large(), ciphertext, answer);
            }
        }
    }

    /// The second dimension's results for the group whose first dimension is done.
    #[cfg(test)]
    pub(super) fn second(&mut self, parameters: &Parameters) -> Vec<Ciphertext<Evaluation>> {
        let polynomial = |half: &mut [u64]| Polynomial::from_residues(half.to_vec());
        let results = self.second.run(
            bfv::Parameters::s2048().large(),
            &self.products,
            0,
            &self.leaves[parameters.rows()..],
        );
        results.map(|[c0, c1]| Ciphertext { c0: polynomial(c0), c1: polynomial(c1) }).collect()
    }
}
