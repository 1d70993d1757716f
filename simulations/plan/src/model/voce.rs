//! What Voce's constants are measured from: units of several sizes, prepared and answered as a server does.

use anyhow::Context;
use mpir::{Contents, Form, PreparedRound, Query, RoundSpec};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rayon::ThreadPool;
use sotto_measuring::cpu::{process_timed, timed};
use sotto_measuring::engine::{Client, EngineName};
use sotto_protocol::deposit::BOX_BYTES;
use sottod::Preference;

use super::fit::{fit, predict, residual};
use super::sizes::{VoceSize, voce_shape};
use super::uncertainty::{Uncertainty, mean, spread};

/// Clients that are answered together, as a server does it.
const TILE: u64 = 16;

/// Buckets of a round: of the arrangements only those of one bucket, and of few, are others.
const BUCKETS: usize = 64;

/// Sizes of buckets, in elements; every other one, from the second on, is kept out of the fit.
pub(super) fn sizes(quick: bool) -> &'static [usize] {
    if quick { &[200, 400, 1_000] } else { &[700, 2_048, 6_000, 12_000, 24_576, 60_000, 130_000] }
}

/// A unit of buckets of one size, and the times that it took, milliseconds for each of its buckets.
pub(super) struct Measured {
    pub(super) size: VoceSize,
    /// For each client of a tile.
    pub(super) answers: Vec<f64>,
    pub(super) setups: Vec<f64>,
}

/// What a bucket takes in one of its parts, and what that follows from.
pub(super) struct Part<const N: usize> {
    pub(super) features: fn(&VoceSize) -> [f64; N],
    pub(super) times: fn(&Measured) -> &[f64],
}

impl<const N: usize> Part<N> {
    /// The constants, microseconds.
    pub(super) fn fit(&self, measured: &[Measured]) -> [f64; N] {
        let of_one = |one: &Measured| {
            let features = (self.features)(&one.size);
            (self.times)(one).iter().map(|time| (features, 1e3 * time)).collect::<Vec<_>>()
        };
        fit(&measured.iter().flat_map(of_one).collect::<Vec<_>>())
    }

    /// Of the constants: the spread of all, and the residual of those that they were not fitted to, which come second.
    pub(super) fn uncertainty(&self, measured: [&[Measured]; 2], constants: [f64; N]) -> Uncertainty {
        let predicted = |one: &Measured| predict((self.features)(&one.size), constants) / 1e3;
        let all = measured.into_iter().flatten();
        let kept_out = measured[1].iter();
        Uncertainty {
            spread: spread(all.map(|one| (self.times)(one).to_vec())),
            residual: residual(kept_out.map(|one| (predicted(one), mean((self.times)(one))))),
        }
    }
}

impl Measured {
    /// With all threads of a pool at work: the set-up of one unit for each of them, and each answers one.
    pub(super) fn new(
        name: EngineName,
        (elements, preference): (usize, Preference),
        repeats: usize,
        round: u64,
        pool: &ThreadPool,
    ) -> anyhow::Result<Self> {
        let engine = name.engine();
        let of_round = Form { buckets: BUCKETS, elements, element_bytes: BOX_BYTES };
        let shape = voce_shape(name, of_round, preference)?.context("an engine that has packs")?;
        let (buckets, threads) = (shape.unit_buckets(), pool.current_num_threads());
        let form = Form { buckets: buckets * threads, ..of_round };
        let spec = RoundSpec { round, ..name.round(form, Some(name.profile(of_round, preference)?))? };
        let mut rng = StdRng::seed_from_u64(elements as u64);
        let mut bytes = vec![0; elements * BOX_BYTES];
        rng.fill_bytes(&mut bytes);
        let contents = Contents { different: &[bytes], copies: form.buckets };
        let (mut prepared, mut setups): (Option<Box<dyn PreparedRound>>, Vec<f64>) = (None, Vec::new());
        // The first one gets its memory from the system.
        for number in 0..=repeats {
            drop(prepared.take());
            let (made, time) = process_timed(|| pool.install(|| engine.prepare(&spec, contents)));
            if number > 0 {
                setups.push(time / form.buckets as f64);
            }
            prepared = Some(made?);
        }
        let prepared = prepared.context("at least one was prepared")?;
        let mut clients = Vec::new();
        for client in 0..TILE {
            let mut client = Client::new(&*engine, &[client as u8 + 1; 32])?;
            let targets = vec![Some(elements / 2); form.buckets];
            let request = client.half.ask(spec.clone(), &targets, &mut rng)?.bytes;
            clients.push((client.keys, request));
        }
        let tile: Vec<Query<'_>> = clients.iter().map(|(keys, request)| Query { keys, request }).collect();
        let mut answers = Vec::new();
        for number in 0..=repeats {
            let times = pool.broadcast(|context| {
                let unit = (context.index() + number) % threads;
                let (answers, time) = timed(|| prepared.answer(unit, &tile));
                answers.into_iter().collect::<Result<Vec<_>, _>>().map(|_| time)
            });
            let all = times.into_iter().sum::<Result<f64, mpir::Error>>()?;
            if number > 0 {
                answers.push(all / (threads * buckets) as f64 / TILE as f64);
            }
        }
        Ok(Self { size: VoceSize::of(&shape, form.buckets), answers, setups })
    }
}
