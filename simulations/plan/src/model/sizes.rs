//! What is counted: the same formulas that server and client use.

use anyhow::Context as _;
use mpir::{Form, Sizes};
use pbc::{DEFAULT_CHOICES, Family, choose_buckets, recommended_buckets};
use pir_core::sealpir::Parameters;
use pir_core::voce::{Ending, Shape};
use pir_core::{Scheme, SealPir};
use sotto_measuring::code::CodeName;
use sotto_measuring::engine::EngineName;
use sotto_protocol::deposit::{BOX_BYTES, DEPOSIT_BYTES};
use sotto_protocol::manifest::{ENTRIES_MAX, expected_bucket_size, mapping_bytes};
use sotto_protocol::table::{LOT_SLOTS, SENT_BYTES};
use sotto_protocol::{CodeKind, CodeShape, Table};
use sottod::{Addressing, Preference};

/// SHA-256.
const DIGEST_BYTES: usize = 32;

/// One bucket, as the engine arranges it.
#[derive(Clone, Copy, Debug)]
pub struct BucketSize {
    /// Boxes, padding included.
    pub(crate) elements: usize,
    /// By SealPIR.
    pub parameters: Parameters,
    /// By Voce, where that is the engine.
    pub(crate) voce: Option<VoceSize>,
}

/// A bucket's share of what Voce does with a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct VoceSize {
    /// Polynomials into which 2,048 outputs are packed; with them grows what expands the ciphertexts that select columns.
    pub(crate) packs: f64,
    /// Coefficients of the database, as the first dimension reads them.
    pub(crate) scanned_kib: f64,
    /// A client's query.
    pub(crate) query_kib: f64,
    /// Places of elements, of which all are whitened.
    pub(crate) places: f64,
    /// Held as long as the round can be retrieved.
    pub(crate) bytes: f64,
}

impl VoceSize {
    /// Of one of so many buckets, in units of this shape.
    pub(super) fn of(shape: &Shape, buckets: usize) -> Self {
        let (units, rest) = (buckets / shape.unit_buckets(), buckets % shape.unit_buckets());
        let packs = units * shape.packs() + shape.packs_of(rest);
        let share = buckets.div_ceil(shape.unit_buckets()) as f64 / buckets as f64;
        let places = 2 * shape.positions() * shape.columns();
        Self {
            packs: packs as f64 / buckets as f64,
            // A field of nine bits takes two bytes.
            scanned_kib: (2 * shape.element_outputs() * places) as f64 / 1024.0,
            query_kib: shape.query_bytes() as f64 / 1024.0,
            places: places as f64,
            bytes: share * shape.memory_bytes() as f64,
        }
    }

    /// The bucket, packs, and KiB of query and coefficients.
    pub(super) fn answer_features(&self) -> [f64; 4] {
        [1.0, self.packs, self.query_kib, self.scanned_kib]
    }

    pub(super) fn setup_features(&self) -> [f64; 2] {
        [self.packs, self.places]
    }
}

/// The shape that a server would choose, if the engine is Voce.
pub(super) fn voce_shape(
    engine: EngineName,
    form: Form,
    preference: Preference,
) -> anyhow::Result<Option<Shape>> {
    let (ending, buckets) = match engine {
        EngineName::Voce => (Ending::Selected, form.buckets),
        EngineName::VoceHint => (Ending::Hint, form.buckets),
        // Each is a round of its own.
        EngineName::VoceApart => (Ending::Hint, 1),
        _ => return Ok(None),
    };
    Ok(Some(Shape::choose(ending, buckets, form.elements, form.element_bytes, preference.into())?))
}

impl BucketSize {
    /// One of many in a round.
    ///
    /// # Errors
    /// If SealPIR has no arrangement for so many elements.
    pub fn of(elements: usize) -> anyhow::Result<Self> {
        let parameters = SealPir::parameters(elements, BOX_BYTES)
            .with_context(|| format!("a bucket of {elements} boxes has no arrangement"))?;
        Ok(Self { elements, parameters, voce: None })
    }

    /// Places of plaintexts.
    pub(crate) fn plaintexts(&self) -> f64 {
        (self.parameters.rows() * self.parameters.all_columns()) as f64
    }

    /// Of the prepared database, which every answer reads.
    pub fn scanned_kib(&self) -> f64 {
        self.parameters.database_bytes() as f64 / 1024.0
    }

    pub(super) fn expand_features(&self) -> [f64; 2] {
        [1.0, self.parameters.expand_transforms() as f64]
    }

    pub(super) fn first_features(&self) -> [f64; 2] {
        [(self.parameters.rows() + self.parameters.all_columns()) as f64, self.scanned_kib()]
    }

    pub(super) fn rest_features(&self) -> [f64; 2] {
        let parameters = &self.parameters;
        let second = if parameters.dimensions() == 1 { 0 } else { parameters.all_columns() };
        [(parameters.parts() * parameters.answer_ciphertexts()) as f64, second as f64]
    }

    pub(super) fn setup_features(&self) -> [f64; 2] {
        [1.0, self.plaintexts()]
    }
}

/// A round of so many boxes, of which every client retrieves so many.
#[derive(Clone, Copy, Debug)]
pub struct RoundSize {
    /// Boxes, or places of the table with slots, n.
    pub boxes: usize,
    /// Messages that a client retrieves, k.
    pub retrieve: usize,
    /// b.
    pub buckets: usize,
    /// w.
    pub choices: usize,
    code: CodeShape,
    /// Each of them.
    pub bucket: BucketSize,
    sizes: Sizes,
}

impl RoundSize {
    /// Of so many users, with the code that a server takes for this k if nothing else is asked for.
    ///
    /// # Errors
    /// If no server has such a round.
    pub fn new(
        users: usize,
        retrieve: usize,
        addressing: Addressing,
        engine: EngineName,
    ) -> anyhow::Result<Self> {
        Self::preferring(Preference::default(), users, retrieve, addressing, engine)
    }

    /// The same, arranged by a preference, which only Voce knows.
    pub(crate) fn preferring(
        preference: Preference,
        users: usize,
        retrieve: usize,
        addressing: Addressing,
        engine: EngineName,
    ) -> anyhow::Result<Self> {
        let boxes = match addressing {
            Addressing::Labels => Some(users),
            Addressing::Slots | Addressing::Standing => {
                let lots = u32::try_from(users.div_ceil(LOT_SLOTS as usize)).ok().filter(|_| users > 0);
                lots.and_then(Table::holding).map(|table| table.places() as usize)
            }
        };
        let boxes = boxes.filter(|boxes| (1..=ENTRIES_MAX).contains(&(*boxes as u64)));
        let boxes = boxes.with_context(|| {
            format!("a round has 1 to {ENTRIES_MAX} boxes, and not those of {users} users")
        })?;
        let code = default_code(retrieve, addressing)?;
        let (buckets, choices) = (usize::from(code.buckets), usize::from(code.choices));
        let elements = expected_bucket_size(code, users as u64).map(|size| size as usize);
        let elements = elements.with_context(|| format!("there is no round of {users} users"))?;
        let parameters = mpir::parameters::<SealPir>(buckets, elements, BOX_BYTES);
        let parameters =
            parameters.with_context(|| format!("a bucket of {elements} boxes has no arrangement"))?;
        let form = Form { buckets, elements, element_bytes: BOX_BYTES };
        let voce = voce_shape(engine, form, preference)?.map(|shape| VoceSize::of(&shape, buckets));
        let bucket = BucketSize { elements, parameters, voce };
        let sizes = engine.engine().sizes(&engine.round(form, Some(engine.profile(form, preference)?))?)?;
        Ok(Self { boxes, retrieve, buckets, choices, code, bucket, sizes })
    }

    /// In all buckets, padding included.
    pub(crate) fn codewords(&self) -> f64 {
        (self.buckets * self.bucket.elements) as f64
    }

    /// Of all prepared buckets.
    pub(crate) fn database_bytes(&self) -> f64 {
        let each = self.bucket.voce.map(|voce| voce.bytes);
        self.buckets as f64 * each.unwrap_or(self.bucket.parameters.database_bytes() as f64)
    }

    /// The multi-query of one client; where queries stand, a round's share of it, and its name in the other rounds.
    pub fn upload_bytes(&self) -> usize {
        let rounds = self.code.kind.epoch_rounds() as usize;
        (self.sizes.request.bytes() + (rounds - 1) * DIGEST_BYTES).div_ceil(rounds)
    }

    /// What a server keeps of a user's multi-queries that stand: those of the epoch that runs, and of the one before.
    pub(crate) fn standing_bytes(&self) -> usize {
        if self.code.kind.epoch_rounds() > 1 { 2 * self.sizes.request.bytes() } else { 0 }
    }

    /// The answers to it, and what everybody downloads to read them.
    pub fn download_bytes(&self) -> usize {
        self.sizes.answer.bytes() + self.sizes.hint.bytes()
    }

    /// What a client downloads to check an answer: the digests of all buckets, and one of these.
    pub(crate) fn check_bytes(&self) -> usize {
        DIGEST_BYTES * self.buckets + BOX_BYTES * self.bucket.elements
    }

    /// Of the mapping from labels to positions, which every client downloads; none with slots.
    pub fn mapping_bytes(&self) -> u64 {
        // A bucket has no more boxes than a round.
        mapping_bytes(self.code, self.bucket.elements as u32)
    }

    /// As the closed loop calls it.
    pub(crate) fn code_name(&self) -> CodeName {
        match self.code.kind {
            CodeKind::Single => CodeName::Single,
            CodeKind::Partitioned => CodeName::Partitioned,
            CodeKind::Standing => CodeName::Standing,
            _ => CodeName::Cuckoo,
        }
    }

    /// What a client deposits.
    pub(crate) fn deposit_bytes(&self) -> usize {
        if self.code.kind.has_slots() { SENT_BYTES } else { DEPOSIT_BYTES }
    }
}

/// The code of a server for this k.
///
/// # Errors
/// If there is none.
pub fn default_code(retrieve: usize, addressing: Addressing) -> anyhow::Result<CodeShape> {
    let buckets = match addressing {
        Addressing::Slots | Addressing::Standing if retrieve > 1 => {
            choose_buckets(Family::Partitioned, retrieve, DEFAULT_CHOICES, -20.0).map(|choice| choice.buckets)
        }
        _ => recommended_buckets(retrieve, DEFAULT_CHOICES),
    };
    let context = || format!("no number of buckets is known for k = {retrieve}");
    let kind = match addressing.code() {
        CodeKind::Cuckoo if retrieve == 1 => CodeKind::Single,
        kind => kind,
    };
    let choices = if retrieve == 1 { 1 } else { DEFAULT_CHOICES as u8 };
    let code = CodeShape {
        kind,
        retrieve: retrieve.try_into().with_context(context)?,
        buckets: buckets.and_then(|buckets| buckets.try_into().ok()).with_context(context)?,
        choices,
    };
    code.check().map_err(|problem| anyhow::anyhow!("k = {retrieve}: {problem}"))?;
    Ok(code)
}
