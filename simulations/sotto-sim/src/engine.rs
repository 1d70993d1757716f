//! The engines that can be measured, by name.

use std::sync::Arc;

use clap::ValueEnum;
use mpir::{Engine, EngineClient, Error, Form, PerBucket, Profile, PublicKeys, RoundSpec};
use pir_baselines::onionpir::OnionPirPaper;
use pir_baselines::paillier::{self, Paillier2048, Paillier3072};
use pir_baselines::psir::Shape;
use pir_baselines::spiral::{AS_PUBLISHED, SPIRAL, SPIRAL_PACK, SPIRAL_STREAM, SPIRAL_STREAM_PACK};
use pir_baselines::{DoublePir, Hinted, PAPER, SECURE, SimplePir, WithHint, doublepir, simplepir};
use pir_baselines::{FastPir, OnionPir, PaperSealPir, Psir, Spiral, Xpir};
use pir_baselines::{fastpir, onionpir, paper, spiral, xpir};
use pir_core::{Scheme, SealPir, voce};
use serde::{Deserialize, Serialize};
use sottod::Preference;

/// An engine on the command line and in measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EngineName {
    /// SealPIR on S2048: what Sotto runs.
    #[default]
    Sealpir,
    /// Voce: nearly everything is computed once for all clients of a round.
    Voce,
    /// Voce with a hint: less work, more bytes.
    VoceHint,
    /// The same with a secret for every bucket.
    VoceApart,
    /// XPIR in two dimensions: selectors sent one by one.
    #[value(name = "xpir-2")]
    #[serde(rename = "xpir-2")]
    Xpir2,
    /// XPIR in three dimensions.
    #[value(name = "xpir-3")]
    #[serde(rename = "xpir-3")]
    Xpir3,
    /// SealPIR as the paper has it, with log t = 20: 113 bits of security, for comparison only.
    #[value(name = "paper-t20")]
    PaperT20,
    /// The same with log t = 23.
    #[value(name = "paper-t23")]
    PaperT23,
    /// FastPIR: one-hot queries in batched slots, and one rotated sum.
    Fastpir,
    /// The same with the moduli of its paper: 125 bits of security, for comparison only.
    FastpirPaper,
    /// OnionPIR: further dimensions by external products, and one ciphertext back.
    Onionpir,
    /// The same with a modulus of its second paper: 113 bits of security, for comparison only.
    OnionpirPaper,
    /// SimplePIR at 132 bits of security: a scan at the speed of memory, and a hint of megabytes in every round.
    Simplepir,
    /// The same as its paper has it, square and at 120 bits, for comparison only.
    SimplepirPaper,
    /// DoublePIR at 132 bits of security, whose hint does not grow with the database.
    Doublepir,
    /// The same as its paper has it, at 120 bits, for comparison only.
    DoublepirPaper,
    /// Spiral: expanded queries, folded by external products.
    Spiral,
    /// Spiral whose results are packed.
    SpiralPack,
    /// Spiral whose queries are uploaded, not expanded.
    SpiralStream,
    /// Both.
    SpiralStreamPack,
    /// Spiral with the modulus of its paper: 113 bits of security, for comparison only.
    SpiralPaper,
    /// The same, packed.
    SpiralPackPaper,
    /// The same, uploaded.
    SpiralStreamPaper,
    /// The same, both.
    SpiralStreamPackPaper,
    /// PSIR over XPIR in two dimensions: what clients know of a database ahead makes it smaller; here, they stream all of it
    /// in every round.
    Xpsir,
    /// PSIR over SealPIR.
    Sealpsir,
    /// PSIR over Paillier, of a modulus of 3072 bits.
    Paillierpsir,
    /// The same of 2048 bits, as its paper has it: 112 bits of security, for comparison only.
    PaillierpsirPaper,
}

impl EngineName {
    /// The engine, by the preference that a server has if nothing else is said.
    pub(crate) fn engine(self) -> Arc<dyn Engine> {
        self.preferring(Preference::default())
    }

    /// The engine, whose rounds are arranged by a preference; only Voce's know any.
    pub(crate) fn preferring(self, preference: Preference) -> Arc<dyn Engine> {
        match self {
            Self::Voce => sottod::EngineName::Voce.engine(preference),
            Self::VoceHint => sottod::EngineName::VoceHint.engine(preference),
            Self::VoceApart => sottod::EngineName::VoceApart.engine(preference),
            Self::Sealpir => Arc::new(PerBucket::<SealPir>::new()),
            Self::Xpir2 => Arc::new(PerBucket::<Xpir<2>>::new()),
            Self::Xpir3 => Arc::new(PerBucket::<Xpir<3>>::new()),
            Self::PaperT20 => Arc::new(PerBucket::<PaperSealPir<20>>::new()),
            Self::PaperT23 => Arc::new(PerBucket::<PaperSealPir<23>>::new()),
            Self::Fastpir => Arc::new(PerBucket::<FastPir<100>>::new()),
            Self::FastpirPaper => Arc::new(PerBucket::<FastPir<109>>::new()),
            Self::Onionpir => Arc::new(PerBucket::<OnionPir>::new()),
            Self::OnionpirPaper => Arc::new(PerBucket::<OnionPirPaper>::new()),
            Self::Simplepir => Arc::new(WithHint::<SimplePir<SECURE>>::new()),
            Self::SimplepirPaper => Arc::new(WithHint::<SimplePir<PAPER>>::new()),
            Self::Doublepir => Arc::new(WithHint::<DoublePir<SECURE>>::new()),
            Self::DoublepirPaper => Arc::new(WithHint::<DoublePir<PAPER>>::new()),
            Self::Spiral => Arc::new(PerBucket::<Spiral<SPIRAL>>::new()),
            Self::SpiralPack => Arc::new(PerBucket::<Spiral<SPIRAL_PACK>>::new()),
            Self::SpiralStream => Arc::new(PerBucket::<Spiral<SPIRAL_STREAM>>::new()),
            Self::SpiralStreamPack => Arc::new(PerBucket::<Spiral<SPIRAL_STREAM_PACK>>::new()),
            Self::SpiralPaper => Arc::new(PerBucket::<Spiral<{ SPIRAL + AS_PUBLISHED }>>::new()),
            Self::SpiralPackPaper => Arc::new(PerBucket::<Spiral<{ SPIRAL_PACK + AS_PUBLISHED }>>::new()),
            Self::SpiralStreamPaper => Arc::new(PerBucket::<Spiral<{ SPIRAL_STREAM + AS_PUBLISHED }>>::new()),
            Self::SpiralStreamPackPaper => {
                Arc::new(PerBucket::<Spiral<{ SPIRAL_STREAM_PACK + AS_PUBLISHED }>>::new())
            }
            Self::Xpsir => Arc::new(Psir::<Xpir<2>>::new()),
            Self::Sealpsir => Arc::new(Psir::<SealPir>::new()),
            Self::Paillierpsir => Arc::new(Psir::<Paillier3072>::new()),
            Self::PaillierpsirPaper => Arc::new(Psir::<Paillier2048>::new()),
        }
    }

    /// Whether it has less than 128 bits of security, as a paper has it: servers do not run it.
    pub(crate) const fn is_insecure(self) -> bool {
        self.insecure_profile().is_some()
    }

    /// What admits an engine of less than 128 bits of security.
    const fn insecure_profile(self) -> Option<Profile> {
        match self {
            Self::PaperT20 | Self::PaperT23 => Some(Profile(paper::INSECURE_PROFILE)),
            Self::FastpirPaper => Some(Profile(fastpir::INSECURE_PROFILE)),
            Self::SimplepirPaper => Some(Profile(simplepir::INSECURE_PROFILE)),
            Self::DoublepirPaper => Some(Profile(doublepir::INSECURE_PROFILE)),
            Self::OnionpirPaper
            | Self::SpiralPaper
            | Self::SpiralPackPaper
            | Self::SpiralStreamPaper
            | Self::SpiralStreamPackPaper => Some(Profile(spiral::INSECURE_PROFILE)),
            Self::PaillierpsirPaper => Some(Profile(paillier::INSECURE_PROFILE)),
            _ => None,
        }
    }

    /// Whether the first stage of an answer is an expansion; otherwise, queries are only parsed.
    pub(crate) const fn expands(self) -> bool {
        matches!(
            self,
            Self::Sealpir
                | Self::Onionpir
                | Self::OnionpirPaper
                | Self::PaperT20
                | Self::PaperT23
                | Self::Spiral
                | Self::SpiralPack
                | Self::SpiralPaper
                | Self::SpiralPackPaper
        )
    }

    /// Clients whose queries are worth answering in one pass.
    pub(crate) const fn tile(self) -> usize {
        if matches!(self, Self::PaperT20 | Self::PaperT23 | Self::Paillierpsir | Self::PaillierpsirPaper) {
            1
        } else {
            16
        }
    }

    /// How a server arranges a round by a preference.
    pub(crate) fn profile(self, form: Form, preference: Preference) -> Result<Profile, Error> {
        self.insecure_profile().map_or_else(|| self.preferring(preference).profile(form), Ok)
    }

    /// A round to measure. Unless another arrangement is given, it is the one that a server would choose.
    pub(crate) fn round(self, form: Form, profile: Option<Profile>) -> Result<RoundSpec, Error> {
        let profile = profile.map_or_else(|| self.profile(form, Preference::default()), Ok)?;
        Ok(RoundSpec { seed: [0; 32], whitening: [0; 32], round: 0, form, profile })
    }

    /// Whether it is one of Voce's, which pack what they answer.
    pub(crate) fn packs(self) -> bool {
        matches!(self, Self::Voce | Self::VoceHint | Self::VoceApart)
    }

    /// A round of one database, arranged as one of many buckets is.
    pub(crate) fn bucket(self, elements: usize, element_bytes: usize) -> Result<RoundSpec, Error> {
        let form = |buckets| Form { buckets, elements, element_bytes };
        self.round(form(1), Some(self.round(form(2), None)?.profile))
    }

    /// How the databases of a round are arranged.
    pub(crate) fn arrangement(self, round: &RoundSpec) -> Result<Arrangement, pir_core::Error> {
        let (Form { elements, element_bytes, .. }, Profile(profile)) = (round.form, &round.profile);
        Ok(match self {
            Self::Sealpir => {
                let parameters = SealPir::with_profile(elements, element_bytes, profile)?;
                Arrangement {
                    parts: Some(parameters.parts()).filter(|parts| *parts > 1),
                    levels: Some(parameters.levels()),
                    ..Arrangement::new(parameters.dimensions(), parameters.rows(), parameters.columns())
                }
            }
            Self::Voce | Self::VoceHint | Self::VoceApart => {
                let ending = match self {
                    Self::Voce => voce::Ending::Selected,
                    _ => voce::Ending::Hint,
                };
                let buckets = if self == Self::VoceApart { 1 } else { round.form.buckets };
                let shape = voce::Shape::announced(ending, buckets, elements, element_bytes, profile)?;
                Arrangement::new(1, shape.rows(), shape.columns())
            }
            Self::Xpir2 => of_xpir(&Xpir::<2>::with_profile(elements, element_bytes, profile)?),
            Self::Xpir3 => of_xpir(&Xpir::<3>::with_profile(elements, element_bytes, profile)?),
            Self::PaperT20 => of_paper(&PaperSealPir::<20>::with_profile(elements, element_bytes, profile)?),
            Self::PaperT23 => of_paper(&PaperSealPir::<23>::with_profile(elements, element_bytes, profile)?),
            Self::Fastpir => of_fastpir(&FastPir::<100>::with_profile(elements, element_bytes, profile)?),
            Self::FastpirPaper => {
                of_fastpir(&FastPir::<109>::with_profile(elements, element_bytes, profile)?)
            }
            Self::Onionpir => of_onion(&OnionPir::with_profile(elements, element_bytes, profile)?),
            Self::OnionpirPaper => {
                of_spiral::<{ spiral::ONIONPIR_AS_PUBLISHED }>(elements, element_bytes, profile)?
            }
            Self::Simplepir => of_simple::<SECURE>(elements, element_bytes, profile)?,
            Self::SimplepirPaper => of_simple::<PAPER>(elements, element_bytes, profile)?,
            Self::Doublepir => of_double::<SECURE>(elements, element_bytes, profile)?,
            Self::DoublepirPaper => of_double::<PAPER>(elements, element_bytes, profile)?,
            Self::Spiral => of_spiral::<SPIRAL>(elements, element_bytes, profile)?,
            Self::SpiralPack => of_spiral::<SPIRAL_PACK>(elements, element_bytes, profile)?,
            Self::SpiralStream => of_spiral::<SPIRAL_STREAM>(elements, element_bytes, profile)?,
            Self::SpiralStreamPack => of_spiral::<SPIRAL_STREAM_PACK>(elements, element_bytes, profile)?,
            Self::SpiralPaper => of_spiral::<{ SPIRAL + AS_PUBLISHED }>(elements, element_bytes, profile)?,
            Self::SpiralPackPaper => {
                of_spiral::<{ SPIRAL_PACK + AS_PUBLISHED }>(elements, element_bytes, profile)?
            }
            Self::SpiralStreamPaper => {
                of_spiral::<{ SPIRAL_STREAM + AS_PUBLISHED }>(elements, element_bytes, profile)?
            }
            Self::SpiralStreamPackPaper => {
                of_spiral::<{ SPIRAL_STREAM_PACK + AS_PUBLISHED }>(elements, element_bytes, profile)?
            }
            Self::Xpsir | Self::Sealpsir | Self::Paillierpsir | Self::PaillierpsirPaper => {
                let shape = Shape::new(elements, element_bytes)?;
                Arrangement::new(1, shape.groups(), shape.parts())
            }
        })
    }
}

/// How a database is arranged.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Arrangement {
    pub(crate) dimensions: usize,
    pub(crate) rows: usize,
    /// Of one part.
    pub(crate) columns: usize,
    /// Sets of columns, or of rows, under the same selectors, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parts: Option<usize>,
    /// Of a third dimension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) planes: Option<usize>,
    /// Of EXPAND; for the rows if those and the columns are expanded apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) levels: Option<u32>,
    /// log2 of a plaintext modulus that depends on the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plaintext_bits: Option<u32>,
}

impl Arrangement {
    const fn new(dimensions: usize, rows: usize, columns: usize) -> Self {
        Self { dimensions, rows, columns, parts: None, planes: None, levels: None, plaintext_bits: None }
    }
}

fn of_xpir<const D: usize>(parameters: &xpir::Parameters<D>) -> Arrangement {
    let shape = parameters.shape();
    Arrangement { planes: shape.get(2).copied(), ..Arrangement::new(D, shape[0], shape[1]) }
}

fn of_paper<const T: u32>(parameters: &paper::Parameters<T>) -> Arrangement {
    Arrangement {
        levels: Some(parameters.levels()[0]),
        plaintext_bits: Some(parameters.plaintext_bits()),
        ..Arrangement::new(parameters.dimensions(), parameters.rows(), parameters.columns())
    }
}

/// The plaintext modulus is a prime; what is told of it are the bits that are used.
fn of_fastpir<const Q: u32>(parameters: &fastpir::Parameters<Q>) -> Arrangement {
    Arrangement {
        plaintext_bits: Some(parameters.value_bits()),
        ..Arrangement::new(1, parameters.rows(), parameters.columns())
    }
}

/// One dimension, and one more for every fold.
fn of_spiral<const P: usize>(
    elements: usize,
    element_bytes: usize,
    profile: &[u8; Profile::BYTES],
) -> Result<Arrangement, pir_core::Error> {
    let parameters = Spiral::<P>::with_profile(elements, element_bytes, profile)?;
    Ok(Arrangement {
        parts: Some(parameters.pack().pow(2)).filter(|parts| *parts > 1),
        levels: (!parameters.streams()).then(|| parameters.row_levels()),
        plaintext_bits: Some(parameters.plaintext_bits()),
        ..Arrangement::new(1 + parameters.folds() as usize, parameters.rows(), parameters.columns())
    })
}

/// Every bit of a column's number is a dimension of two.
fn of_onion(parameters: &onionpir::Parameters) -> Arrangement {
    let dimensions = 1 + parameters.column_bits() as usize;
    Arrangement {
        levels: Some(parameters.levels()),
        ..Arrangement::new(dimensions, parameters.rows(), parameters.columns())
    }
}

fn of_simple<const N: usize>(
    elements: usize,
    element_bytes: usize,
    profile: &[u8; Profile::BYTES],
) -> Result<Arrangement, pir_core::Error> {
    let parameters = SimplePir::<N>::with_profile(elements, element_bytes, profile)?;
    Ok(Arrangement {
        plaintext_bits: Some(parameters.plaintext_bits()),
        ..Arrangement::new(1, parameters.rows(), parameters.columns())
    })
}

fn of_double<const N: usize>(
    elements: usize,
    element_bytes: usize,
    profile: &[u8; Profile::BYTES],
) -> Result<Arrangement, pir_core::Error> {
    let parameters = DoublePir::<N>::with_profile(elements, element_bytes, profile)?;
    Ok(Arrangement {
        parts: Some(parameters.blocks()).filter(|blocks| *blocks > 1),
        plaintext_bits: Some(parameters.plaintext_bits()[0]),
        ..Arrangement::new(2, parameters.rows(), parameters.columns())
    })
}

/// A client, and its keys as the server holds them.
pub(crate) struct Client {
    pub(crate) half: Box<dyn EngineClient>,
    pub(crate) keys: PublicKeys,
}

impl Client {
    pub(crate) fn new(engine: &dyn Engine, seed: &[u8; 32]) -> Result<Self, Error> {
        let half = engine.client(seed);
        let keys = engine.public_keys(&half.public_keys())?;
        Ok(Self { half, keys })
    }
}
