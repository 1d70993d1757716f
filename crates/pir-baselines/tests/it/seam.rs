//! A round of an engine with a hint, as servers and clients see it.

use mpir::{Contents, Engine, EngineClient, Form, PreparedRound, Profile, PublicKeys, Query, RoundSpec};
use pir_core::Error;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

pub(crate) struct World<'a> {
    engine: &'a dyn Engine,
    pub(crate) spec: RoundSpec,
    pub(crate) contents: Vec<Vec<u8>>,
    pub(crate) prepared: Box<dyn PreparedRound>,
    pub(crate) client: Box<dyn EngineClient>,
    keys: PublicKeys,
    rng: ChaCha20Rng,
}

impl<'a> World<'a> {
    /// A round of random elements, `copies` buckets of each content, under the engine's own profile if no other is given.
    pub(crate) fn new(engine: &'a dyn Engine, form: Form, copies: usize, profile: Option<Profile>) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(form.elements as u64);
        let profile = profile.unwrap_or_else(|| engine.profile(form).unwrap());
        let spec = RoundSpec { seed: [3; 32], whitening: [3; 32], round: 7, form, profile };
        let content = |rng: &mut ChaCha20Rng| {
            let mut content = vec![0; form.elements * form.element_bytes];
            rng.fill_bytes(&mut content);
            content
        };
        let contents: Vec<_> = (0..form.buckets / copies).map(|_| content(&mut rng)).collect();
        let prepared = engine.prepare(&spec, Contents { different: &contents, copies }).unwrap();
        let client = engine.client(&[5; 32]);
        let keys = engine.public_keys(&client.public_keys()).unwrap();
        Self { engine, spec, contents, prepared, client, keys, rng }
    }

    fn element(&self, bucket: usize, index: usize) -> &[u8] {
        let Form { buckets, element_bytes, .. } = self.spec.form;
        let copies = buckets / self.contents.len();
        &self.contents[bucket / copies][index * element_bytes..][..element_bytes]
    }

    /// Retrieves an element from every bucket, alone and in a tile, and compares sizes and elements.
    pub(crate) fn retrieve(&mut self, targets: &[usize]) {
        let sizes = self.engine.sizes(&self.spec).unwrap();
        assert_eq!(sizes, self.prepared.sizes());
        assert_eq!(self.prepared.hint().len(), sizes.hint.bytes());
        assert_eq!(self.client.public_keys().len(), sizes.keys);
        let wanted: Vec<_> = targets.iter().copied().map(Some).collect();
        let request = self.client.ask(self.spec.clone(), &wanted, &mut self.rng).unwrap();
        let other = self.client.cover(self.spec.clone(), &mut self.rng).unwrap();
        assert_eq!([request.bytes.len(), other.bytes.len()], [sizes.request.bytes(); 2]);
        assert_ne!(request.bytes, other.bytes);
        let short = &request.bytes[1..];
        let mut answer = Vec::new();
        for unit in 0..sizes.units.count() {
            let query = |request| Query { keys: &self.keys, request };
            let tile = [&other.bytes, short, &request.bytes].map(query);
            let mut answers = self.prepared.answer(unit, &tile);
            let alone = self.prepared.answer(unit, &tile[2..]).remove(0).unwrap();
            assert!(answers.pop().unwrap().as_ref() == Ok(&alone), "alone and in a tile");
            assert!(answers.pop().unwrap().is_err() && answers.pop().unwrap().unwrap().len() == alone.len());
            answer.extend(alone);
        }
        assert_eq!(answer.len(), sizes.answer.bytes());
        let read = request.pending.read(self.prepared.hint(), &answer);
        assert_eq!(read.len(), targets.len());
        for (bucket, (element, target)) in read.into_iter().zip(targets).enumerate() {
            assert!(element.unwrap() == self.element(bucket, *target), "{:?} at {target}", self.spec.form);
        }
    }

    fn answer(&self, unit: usize, request: &[u8]) -> Result<Vec<u8>, mpir::Error> {
        self.prepared.answer(unit, &[Query { keys: &self.keys, request }]).remove(0)
    }

    /// A request for elements drawn at random.
    pub(crate) fn request(&mut self) -> Vec<u8> {
        self.client.cover(self.spec.clone(), &mut self.rng).unwrap().bytes
    }

    /// Digests of what is sent, and an answer that is computed again.
    pub(crate) fn digests(&mut self, targets: &[usize]) -> [String; 3] {
        let wanted: Vec<_> = targets.iter().copied().map(Some).collect();
        let mut rng = ChaCha20Rng::from_seed([43; 32]);
        let request = self.client.ask(self.spec.clone(), &wanted, &mut rng).unwrap().bytes;
        let query = Query { keys: &self.keys, request: &request };
        let answers: Vec<_> =
            (0..wanted.len()).map(|unit| self.prepared.answer(unit, &[query]).remove(0).unwrap()).collect();
        let keys = self.client.public_keys();
        let sizes = self.prepared.sizes();
        for (unit, answer) in answers.iter().enumerate() {
            let copies = wanted.len() / self.contents.len();
            let part = &request[sizes.request.range(unit)];
            let contents = &self.contents[unit / copies];
            let again = self.engine.recompute(&self.spec, unit, contents, &keys, part).unwrap();
            assert!(again.answer == *answer);
            assert!(sizes.hint.part("hint", self.prepared.hint(), unit) == Ok(&again.hint[..]));
            let shorter = &contents[1..];
            assert!(self.engine.recompute(&self.spec, unit, shorter, &keys, part).is_err());
        }
        let digest = |bytes: &[u8]| -> String {
            Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
        };
        [&request, &answers.concat(), self.prepared.hint()].map(digest)
    }

    /// Nothing of another size is taken, and anything of the right size gives an element of the right size.
    pub(crate) fn refuses_other_sizes(&mut self) {
        let sizes = self.prepared.sizes();
        let buckets = sizes.units.count();
        let lengths = |bytes: &[u8]| {
            let (longer, twice) = ([bytes, &[0]].concat(), [bytes, bytes].concat());
            let shorter = [0, 1, 3, 4, bytes.len() / 2, bytes.len() - 1];
            shorter.map(|size| bytes[..size].to_vec()).into_iter().chain([longer, twice]).collect::<Vec<_>>()
        };
        let cover = |world: &mut Self| world.client.cover(world.spec.clone(), &mut world.rng).unwrap();
        let request = cover(self).bytes;
        for wrong in lengths(&request) {
            assert!(self.answer(0, &wrong).is_err(), "{}", wrong.len());
        }
        assert!(self.answer(buckets, &request).is_err());
        assert!(self.answer(usize::MAX, &request).is_err());
        let answer = vec![0x5A; sizes.answer.bytes()];
        let hint = self.prepared.hint().to_vec();
        for wrong in lengths(&answer) {
            assert!(cover(self).pending.read(&hint, &wrong).iter().all(Result::is_err), "{}", wrong.len());
        }
        for wrong in lengths(&hint) {
            assert!(cover(self).pending.read(&wrong, &answer).iter().all(Result::is_err), "{}", wrong.len());
        }
        let size = self.spec.form.element_bytes;
        for hint in [hint, vec![0xFF; sizes.hint.bytes()]] {
            let read = cover(self).pending.read(&hint, &answer);
            assert!(read.iter().all(|element| element.as_ref().is_ok_and(|element| element.len() == size)));
        }
        for keys in lengths(&self.client.public_keys()) {
            assert!(self.engine.public_keys(&keys).is_err());
        }
        let beyond = vec![Some(self.spec.form.elements); buckets];
        let refused = self.client.ask(self.spec.clone(), &beyond, &mut self.rng).err();
        assert_eq!(refused, Some(mpir::Error::Engine(Error::Index)));
        let again = self.client.ask(self.spec.clone(), &beyond, &mut self.rng).err();
        assert_eq!(again, Some(mpir::Error::Asked));
        let few = RoundSpec { round: 8, ..self.spec.clone() };
        assert!(self.client.ask(few, &beyond[1..], &mut self.rng).is_err());
    }
}
