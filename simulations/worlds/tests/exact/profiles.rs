//! A server chooses the arrangement of its databases: 16 bytes, and any size of the buckets. Whatever it chooses, a client
//! does not panic, asks the same way whatever is wanted, and reads what stands there, or nothing.

use std::time::{Duration, Instant};

use mpir::{Contents, Engine, Query, sealpir};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};
use sotto_protocol::deposit::BOX_BYTES;
use sotto_protocol::manifest::MAPPING_BLOOM;
use sotto_protocol::{CodeKind, MANIFEST_VERSION, Manifest, Round};
use sotto_session::round_spec;
use sotto_wire::{RootKey, limits};

fn manifest(engine: &dyn Engine, [buckets, elements]: [usize; 2], profile: [u8; 16]) -> Manifest {
    Manifest {
        version: MANIFEST_VERSION,
        round: Round(7),
        entries: elements as u64,
        engine: engine.name().into(),
        code: CodeKind::Cuckoo,
        retrieve: 4,
        buckets: buckets as u16,
        choices: 3,
        mapping_kind: MAPPING_BLOOM,
        bucket_size: elements as u32,
        round_seed: [1; 32],
        mapping_digest: [2; 32],
        deposits_digest: [3; 32],
        buckets_digest: [4; 32],
        profile,
        hint_digest: [5; 32],
        previous: [6; 32],
    }
}

fn profiles(rng: &mut ChaCha20Rng) -> Vec<[u8; 16]> {
    let mut all = Vec::new();
    let numbers =
        [0_u16, 1, 2, 3, 4, 7, 8, 31, 32, 63, 64, 100, 255, 256, 1000, 2047, 2048, 2049, 32768, 65535];
    for columns in numbers {
        for parts in numbers {
            for levels in [0_u8, 1, 5, 8, 9, 10, 11, 12, 64, 255] {
                for bits in [0_u8, 9, 16, 17, 18, 19, 20, 21, 22, 64, 255] {
                    let mut profile = [0; 16];
                    profile[..2].copy_from_slice(&columns.to_le_bytes());
                    profile[2..4].copy_from_slice(&parts.to_le_bytes());
                    (profile[4], profile[5]) = (levels, bits);
                    all.push(profile);
                }
            }
        }
    }
    // With more seeds, all of them and more.
    let many = std::env::var_os("SOTTO_SEEDS").is_some();
    if !many {
        all = all.into_iter().step_by(7).collect();
    }
    for _ in 0..if many { 20_000 } else { 1_000 } {
        let mut profile = [0; 16];
        rng.fill_bytes(&mut profile[..6]);
        (profile[4], profile[5]) = (profile[4] % 13, profile[5] % 24);
        profile[1] &= 7;
        profile[3] &= 7;
        if rng.next_u32().is_multiple_of(50) {
            rng.fill_bytes(&mut profile);
        }
        all.push(profile);
    }
    all
}

#[test]
fn no_arrangement_that_a_server_announces_hurts_its_clients() {
    let engine = sealpir();
    let mut rng = ChaCha20Rng::from_seed([3; 32]);
    let profiles = profiles(&mut rng);
    let (mut admitted, mut asked, mut answered, mut empty_columns) = (0_u64, 0_u64, 0_u64, 0_u64);
    let (mut slowest, mut largest, mut slow_ask) = (Duration::ZERO, 0, Duration::ZERO);
    let mut slow_read = Duration::ZERO;
    let mut wrong = Vec::new();
    for elements in [1_usize, 2, 15, 16, 17, 33, 100, 1000, 5000, 20_000, 1 << 18, 1 << 24, u32::MAX as usize]
    {
        for buckets in [1_usize, 8, 1024, 65535] {
            let mut tried = 0;
            for (number, profile) in profiles.iter().enumerate() {
                let announced = manifest(&*engine, [buckets, elements], *profile);
                let began = Instant::now();
                let found = round_spec(&*engine, &RootKey([9; 32]), &announced);
                slowest = slowest.max(began.elapsed());
                let Ok((spec, sizes)) = found else { continue };
                admitted += 1;
                largest = largest.max(sizes.answer.bytes() + sizes.request.bytes());
                assert!(
                    sizes.request.bytes() <= limits::QUERY_MAX && sizes.answer.bytes() <= limits::ANSWER_MAX
                );
                let all = usize::from(u16::from_le_bytes([profile[0], profile[1]]))
                    * usize::from(u16::from_le_bytes([profile[2], profile[3]]));
                let plaintexts = elements.div_ceil((2048 * 9 / 8) / BOX_BYTES);
                if plaintexts.div_ceil(plaintexts.div_ceil(all)) != all {
                    empty_columns += 1;
                }
                // A few of each shape all the way.
                if tried >= 6
                    || buckets > 8
                    || sizes.answer.bytes() > 64 << 20
                    || number % 7 != 0 && elements > 33
                {
                    continue;
                }
                tried += 1;
                let mut client = engine.client(&[8; 32]);
                let mut targets = vec![None; buckets];
                targets[0] = Some(elements - 1);
                if buckets > 2 {
                    targets[1] = Some(0);
                    targets[2] = Some(elements / 2);
                }
                let began = Instant::now();
                let request = client.ask(spec.clone(), &targets, &mut rng).unwrap();
                slow_ask = slow_ask.max(began.elapsed());
                let cover = client.cover(spec.clone(), &mut rng).unwrap();
                asked += 1;
                assert_eq!(request.bytes.len(), sizes.request.bytes());
                assert_eq!(cover.bytes.len(), sizes.request.bytes());
                assert!(cover.pending.serves(&spec) && request.pending.serves(&spec));
                for bytes in [0, 1, sizes.answer.bytes() - 1, sizes.answer.bytes(), sizes.answer.bytes() + 1]
                {
                    let cover = client.cover(spec.clone(), &mut rng).unwrap();
                    let mut noise = vec![0x5a; bytes];
                    // With the headers that are expected.
                    for unit in 0..buckets {
                        let range = sizes.answer.range(unit);
                        if let Some(part) = noise.get_mut(range) {
                            let d = if profile[..2] == [1, 0] { 1 } else { 2 };
                            part[..4].copy_from_slice(&[3, 3, d, profile[5]]);
                        }
                    }
                    let began = Instant::now();
                    let read = cover.pending.read(&[], &noise);
                    slow_read = slow_read.max(began.elapsed());
                    assert_eq!(read.len(), buckets);
                    assert_eq!(read.iter().all(Result::is_ok), bytes == sizes.answer.bytes());
                }
                if elements > 1000 || buckets > 8 || sizes.answer.bytes() > 8 << 20 || tried > 4 {
                    continue;
                }
                let content = |bucket: usize| -> Vec<u8> {
                    (0..elements * BOX_BYTES)
                        .map(|at| (at / BOX_BYTES * 7 + at + bucket * 31) as u8)
                        .collect()
                };
                let contents: Vec<Vec<u8>> = (0..buckets).map(content).collect();
                let prepared = engine.prepare(&spec, Contents { different: &contents, copies: 1 }).unwrap();
                let keys = engine.public_keys(&client.public_keys()).unwrap();
                let tile = [Query { keys: &keys, request: &request.bytes }];
                let answer: Vec<u8> = (0..buckets)
                    .flat_map(|unit| {
                        let part = prepared.answer(unit, &tile).remove(0).unwrap();
                        let range = sizes.request.range(unit);
                        if unit == 0 {
                            let again = engine.recompute(
                                &spec,
                                unit,
                                &contents[unit],
                                &client.public_keys(),
                                &request.bytes[range],
                            );
                            assert_eq!(again.unwrap().answer, part, "{profile:?}");
                        }
                        part
                    })
                    .collect();
                answered += 1;
                for (bucket, read) in request.pending.read(&[], &answer).into_iter().enumerate() {
                    let Some(target) = targets[bucket] else { continue };
                    let expected = &contents[bucket][target * BOX_BYTES..(target + 1) * BOX_BYTES];
                    if read.as_deref() != Ok(expected) {
                        wrong.push((elements, buckets, *profile, bucket));
                    }
                }
            }
        }
    }
    println!(
        "admitted {admitted} (with empty columns {empty_columns}), asked {asked}, answered {answered}, slowest look {slowest:?}, \
         ask {slow_ask:?}, read {slow_read:?}, largest {largest}"
    );
    assert!(answered > 20 && asked > 40);
    assert_eq!(wrong, [], "read wrongly");
}
