//! The bare stages of one round, without a server around them: what the system adds is judged by these.

use mpir::{MultiClient, MultiDatabase};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rayon::prelude::{IntoParallelIterator, ParallelIterator};
use sotto_protocol::deposit::{BOX_BYTES, arrange};
use sotto_protocol::manifest::deposits_digest;
use sotto_protocol::{BloomMapping, CodeShape, Label, Round};
use sottod::Population;

use super::lines::{Bench, Orders};
use super::observed::{METER, Observed};
use crate::cpu::process_milliseconds;
use crate::engine::Engine;

/// Different clients; when there are more, each stands for several, whose keys are then no better cached than here.
const CLIENTS: u32 = 32;

/// The prepared buckets of a round.
pub(super) type Prepared<E> = MultiDatabase<Observed<E>>;

/// What runs the bare stages: a pool like the server's, which lives as long, so that as many cores are busy, and memory is
/// as well known to it.
pub(super) fn pool(orders: &Orders) -> anyhow::Result<rayon::ThreadPool> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(orders.threads).build()?)
}

fn timed<T>(time: &mut f64, work: impl FnOnce() -> T) -> T {
    let start = process_milliseconds();
    let result = work();
    *time += process_milliseconds() - start;
    result
}

/// Sets one round up and answers one multi-query of each client, on the pool that it is called from. Nothing else shall run
/// in this process, so that all its CPU time belongs to the stages.
///
/// As on a server, the prepared round before this one, `kept`, makes room when this one is there: how long ago memory was
/// given back decides what it costs to get some.
pub(super) fn stages<E: Engine>(
    orders: &Orders,
    shape: CodeShape,
    kept: &mut Option<Prepared<E>>,
) -> anyhow::Result<Bench> {
    let mut bench = Bench::default();
    let mut rng = StdRng::seed_from_u64(orders.seed);
    let seed: [u8; 32] = rng.random();
    // As many tuples as in a round, the clients' included.
    let users = orders.users + orders.clients;
    let mut deposits = Population { users, seed: orders.seed }.deposits(Round(u64::MAX));

    timed(&mut bench.arrange_ms, || {
        arrange(&mut deposits, &seed);
        std::hint::black_box(deposits_digest(&deposits));
    });
    let code = shape.code(seed)?;
    let labels: Vec<Label> = deposits.iter().map(|deposit| deposit.label).collect();
    let (encoding, padded, contents) = timed(&mut bench.encode_ms, || -> anyhow::Result<_> {
        let keys: Vec<&[u8]> = labels.iter().map(|label| label.0.as_slice()).collect();
        let encoding = code.encode(&keys);
        let padded = encoding.largest().max(1);
        let boxes: Vec<u8> = deposits.iter().flat_map(|deposit| deposit.sealed.0).collect();
        let mut contents = Vec::new();
        encoding.materialise_contents(BOX_BYTES, &boxes, padded, &mut contents)?;
        Ok((encoding, padded, contents))
    })?;
    drop(deposits);
    let database = timed(&mut bench.prepare_ms, || {
        Prepared::<E>::setup_copies(BOX_BYTES, padded, &contents, encoding.copies())
    })?;
    drop(contents);
    timed(&mut bench.mapping_ms, || {
        BloomMapping::build(&seed, &*code, &encoding, &labels, u32::try_from(padded).unwrap_or(u32::MAX))
    })?;
    drop((encoding, labels));

    let database = kept.insert(database);
    let parameters = mpir::parameters::<E>(database.bucket_count(), padded, BOX_BYTES)?;
    let clients = orders.clients.clamp(1, CLIENTS);
    let asked: Vec<(E::PublicKeys, Vec<Vec<u8>>)> = (0..clients)
        .map(|_| {
            let client = MultiClient::<E>::new(&rng.random());
            let keys = E::decode_public_keys(&client.public_keys())?;
            let targets = vec![None; database.bucket_count()];
            let query = client.multi_query(&parameters, &targets, &mut rng)?;
            anyhow::Ok((keys, query.encoded().to_vec()))
        })
        .collect::<Result<_, _>>()?;
    let before = METER.read();
    let buckets = database.bucket_count();
    let answers = orders.clients as usize * buckets;
    timed(&mut bench.answer_ms, || {
        (0..answers).into_par_iter().try_for_each(|answer| -> anyhow::Result<()> {
            let (keys, queries) = &asked[answer / buckets % asked.len()];
            let bucket = answer % buckets;
            std::hint::black_box(database.answer_one(bucket, keys, &queries[bucket])?);
            Ok(())
        })
    })?;
    let after = METER.read();
    bench.expand_ms = after.expand_ms - before.expand_ms;
    bench.first_dimension_ms = after.first_dimension_ms - before.first_dimension_ms;
    bench.rest_ms = after.rest_ms - before.rest_ms;
    bench.answers = after.answers - before.answers;
    Ok(bench)
}
