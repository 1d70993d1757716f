//! The bare stages of one round, without a server around them: what the system adds is judged by these.

use anyhow::Context as _;
use mpir::{Contents, Engine, Form, PreparedRound, Query, RoundSpec};
use pbc::{BatchCode as _, Encoding, HashedCode, PartitionedCode};
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt, SeedableRng};
use rayon::prelude::{IndexedParallelIterator as _, IntoParallelIterator, ParallelIterator};
use sotto_measuring::cpu::process_timed;
use sotto_measuring::engine::Client;
use sotto_protocol::deposit::{BOX_BYTES, arrange};
use sotto_protocol::manifest::deposits_digest;
use sotto_protocol::table::LOT_SLOTS;
use sotto_protocol::{BloomMapping, CodeShape, Deposit, Label, Round, Table};
use sottod::Population;

use crate::lines::{Bench, Orders};
use crate::observed::Meter;

/// Different clients; when there are more, each stands for several, whose keys are then no better cached than here.
const CLIENTS: u32 = 32;

/// Sets one round up and answers one multi-query of each client, on the pool that it is called from; says how many buckets
/// it answered. Nothing else shall run in this process, so that all its CPU time belongs to the stages.
///
/// As on a server, the prepared round before this one, `kept`, makes room when this one is there: how long ago memory was
/// given back decides what it costs to get some.
pub(crate) fn stages(
    orders: &Orders,
    engine: &dyn Engine,
    shape: CodeShape,
    kept: &mut Option<Box<dyn PreparedRound>>,
) -> anyhow::Result<(Bench, u64)> {
    let mut rng = StdRng::seed_from_u64(orders.seed);
    let seed: [u8; 32] = rng.random();
    // As many tuples as in a round, the clients' included.
    let users = orders.users + orders.clients;
    let slots = shape.kind.has_slots();
    let mut deposits = Population { users, ..orders.population() }.deposits(Round(u64::MAX), slots);

    let mut contents = Vec::new();
    let (encoding, built) = if slots {
        build_table(shape, users, &seed, &deposits, &mut contents)?
    } else {
        build(&*shape.code(seed)?, &seed, &mut deposits, &mut contents)?
    };
    drop(deposits);
    let form =
        Form { buckets: shape.buckets.into(), elements: encoding.largest().max(1), element_bytes: BOX_BYTES };
    let round = RoundSpec { seed, whitening: seed, round: 0, form, profile: engine.profile(form)? };
    let copies = encoding.copies();
    drop(encoding);
    let (prepared, prepare) =
        process_timed(|| engine.prepare(&round, Contents { different: &contents, copies }));
    let prepared = prepared?;
    drop(contents);

    let prepared = kept.insert(prepared);
    let asked: Vec<_> = (0..orders.clients.clamp(1, CLIENTS))
        .map(|_| {
            let client = Client::new(engine, &rng.random())?;
            Ok((client.half.cover(round.clone(), &mut rng)?.bytes, client.keys))
        })
        .collect::<Result<_, mpir::Error>>()?;
    let before = Meter::read();
    let units = prepared.sizes().units.count();
    let (answered, answer) = process_timed(|| {
        (0..orders.clients as usize * units).into_par_iter().try_for_each(|answer| {
            let (request, keys) = &asked[answer / units % asked.len()];
            for answer in prepared.answer(answer % units, &[Query { keys, request }]) {
                std::hint::black_box(answer?);
            }
            Ok::<_, mpir::Error>(())
        })
    });
    answered?;
    let after = Meter::read();
    let stages = after.stages - before.stages;
    Ok((Bench { prepare, answer, stages, ..built }, after.answers - before.answers))
}

/// What a server does with the deposits of a sealed round before the engine prepares it, step by step. The contents of the
/// buckets come to lie in `contents`, in the memory that it has.
///
/// # Errors
/// If the code or the mapping cannot hold them.
pub fn build(
    code: &dyn HashedCode,
    seed: &[u8; 32],
    deposits: &mut Vec<Deposit>,
    contents: &mut Vec<Vec<u8>>,
) -> anyhow::Result<(Encoding, Bench)> {
    let (digest, arrange) = process_timed(|| {
        arrange(deposits, seed);
        deposits_digest(deposits)
    });
    std::hint::black_box(digest);
    let labels: Vec<Label> = deposits.iter().map(|deposit| deposit.label).collect();
    let (encoding, encode) = process_timed(|| -> anyhow::Result<_> {
        let keys: Vec<&[u8]> = labels.iter().map(|label| label.0.as_slice()).collect();
        let encoding = code.encode(&keys);
        let boxes: Vec<u8> = deposits.iter().flat_map(|deposit| deposit.sealed.0).collect();
        encoding.materialise_contents(BOX_BYTES, &boxes, encoding.largest().max(1), contents)?;
        Ok(encoding)
    });
    let encoding = encoding?;
    let padded = encoding.largest().max(1) as u32;
    let (mapped, mapping) = process_timed(|| BloomMapping::build(seed, code, &encoding, &labels, padded));
    std::hint::black_box(mapped?);
    Ok((encoding, Bench { arrange, encode, mapping, ..Bench::default() }))
}

/// The same on a server with slots, with so many users: no mapping, and something in the places where nobody has laid a box.
fn build_table(
    shape: CodeShape,
    users: u32,
    seed: &[u8; 32],
    deposits: &[Deposit],
    contents: &mut Vec<Vec<u8>>,
) -> anyhow::Result<(Encoding, Bench)> {
    let table = Table::holding(users.div_ceil(LOT_SLOTS)).context("so many users have no table")?;
    let places = table.places() as usize;
    let (boxes, arrange) = process_timed(|| {
        let laid = table.lay(deposits, seed);
        let mut boxes = vec![0; places * BOX_BYTES];
        let (filled, _) = boxes.as_chunks_mut::<BOX_BYTES>();
        (0..table.places()).into_par_iter().zip(filled).with_min_len(256).for_each(|(place, bytes)| {
            laid.fill(place, bytes, |bytes| StdRng::seed_from_u64(place.into()).fill_bytes(bytes));
        });
        boxes
    });
    let (encoding, encode) = process_timed(|| -> anyhow::Result<_> {
        let keys: Vec<[u8; 8]> = (0..places as u64).map(PartitionedCode::key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
        let encoding = shape.slot_code(*seed, places)?.encode(&keys);
        encoding.materialise_contents(BOX_BYTES, &boxes, encoding.largest().max(1), contents)?;
        Ok(encoding)
    });
    Ok((encoding?, Bench { arrange, encode, ..Bench::default() }))
}
