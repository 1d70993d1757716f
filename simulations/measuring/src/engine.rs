//! The engines that can be measured, by name.

use std::sync::Arc;

use clap::ValueEnum;
use mpir::{Engine, EngineClient, Error, Form, Profile, PublicKeys, RoundSpec};
use pir_baselines::psir::Shape;
use pir_baselines::spiral::{AS_PUBLISHED, SPIRAL, SPIRAL_PACK, SPIRAL_STREAM, SPIRAL_STREAM_PACK};
use pir_baselines::{
    DoublePir, FastPir, Hinted, OnionPir, PAPER, PaperSealPir, SECURE, SimplePir, Spiral, Xpir,
};
use pir_baselines::{doublepir, fastpir, onionpir, paillier, paper, registry, simplepir, spiral, xpir};
use pir_core::{Scheme, SealPir, voce};
use serde::{Deserialize, Serialize};
use sottod::Preference;

/// An engine on the command line and in measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineName {
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
    /// DoublePIR at 132 bits of security, whose hint does not grow with the number of elements.
    Doublepir,
    /// The same as its paper has it, at 120 bits, for comparison only: elements of at most 128 bytes.
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
    pub fn engine(self) -> Arc<dyn Engine> {
        self.preferring(Preference::default())
    }

    /// The engine, whose rounds are arranged by a preference; only Voce's know any.
    pub fn preferring(self, preference: Preference) -> Arc<dyn Engine> {
        match self {
            Self::Voce => sottod::EngineName::Voce.engine(preference),
            Self::VoceHint => sottod::EngineName::VoceHint.engine(preference),
            Self::VoceApart => sottod::EngineName::VoceApart.engine(preference),
            Self::Sealpir => mpir::sealpir(),
            Self::Xpir2 => registry::xpir_2(),
            Self::Xpir3 => registry::xpir_3(),
            Self::PaperT20 => registry::paper_t20(),
            Self::PaperT23 => registry::paper_t23(),
            Self::Fastpir => registry::fastpir(),
            Self::FastpirPaper => registry::fastpir_paper(),
            Self::Onionpir => registry::onionpir(),
            Self::OnionpirPaper => registry::onionpir_paper(),
            Self::Simplepir => registry::simplepir(),
            Self::SimplepirPaper => registry::simplepir_paper(),
            Self::Doublepir => registry::doublepir(),
            Self::DoublepirPaper => registry::doublepir_paper(),
            Self::Spiral => registry::spiral(),
            Self::SpiralPack => registry::spiral_pack(),
            Self::SpiralStream => registry::spiral_stream(),
            Self::SpiralStreamPack => registry::spiral_stream_pack(),
            Self::SpiralPaper => registry::spiral_paper(),
            Self::SpiralPackPaper => registry::spiral_pack_paper(),
            Self::SpiralStreamPaper => registry::spiral_stream_paper(),
            Self::SpiralStreamPackPaper => registry::spiral_stream_pack_paper(),
            Self::Xpsir => registry::xpsir(),
            Self::Sealpsir => registry::sealpsir(),
            Self::Paillierpsir => registry::paillierpsir(),
            Self::PaillierpsirPaper => registry::paillierpsir_paper(),
        }
    }

    /// Whether it has less than 128 bits of security, as a paper has it: servers do not run it.
    pub const fn is_insecure(self) -> bool {
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
    pub const fn expands(self) -> bool {
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
    pub const fn tile(self) -> usize {
        if matches!(self, Self::PaperT20 | Self::PaperT23 | Self::Paillierpsir | Self::PaillierpsirPaper) {
            1
        } else {
            16
        }
    }

    /// How a server arranges a round by a preference.
    ///
    /// # Errors
    /// If the engine cannot arrange such a round.
    pub fn profile(self, form: Form, preference: Preference) -> Result<Profile, Error> {
        self.insecure_profile().map_or_else(|| self.preferring(preference).profile(form), Ok)
    }

    /// A round to measure. Unless another arrangement is given, it is the one that a server would choose.
    ///
    /// # Errors
    /// If the engine cannot arrange such a round.
    pub fn round(self, form: Form, profile: Option<Profile>) -> Result<RoundSpec, Error> {
        let profile = profile.map_or_else(|| self.profile(form, Preference::default()), Ok)?;
        Ok(RoundSpec { seed: [0; 32], whitening: [0; 32], round: 0, form, profile })
    }

    /// Whether it is one of Voce's, which pack what they answer.
    pub fn packs(self) -> bool {
        matches!(self, Self::Voce | Self::VoceHint | Self::VoceApart)
    }

    /// A round of one database, arranged as one of many buckets is.
    ///
    /// # Errors
    /// If the engine cannot arrange such a round.
    pub fn bucket(self, elements: usize, element_bytes: usize) -> Result<RoundSpec, Error> {
        let form = |buckets| Form { buckets, elements, element_bytes };
        self.round(form(1), Some(self.round(form(2), None)?.profile))
    }

    /// How the databases of a round are arranged.
    ///
    /// # Errors
    /// If the round's profile is none of this engine's for a database of this form.
    pub fn arrangement(self, round: &RoundSpec) -> Result<Arrangement, pir_core::Error> {
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
pub struct Arrangement {
    /// By which an element is selected.
    pub dimensions: usize,
    rows: usize,
    /// Of one part.
    columns: usize,
    /// Sets of columns, or of rows, under the same selectors, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<usize>,
    /// Of a third dimension.
    #[serde(skip_serializing_if = "Option::is_none")]
    planes: Option<usize>,
    /// Of EXPAND; for the rows if those and the columns are expanded apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    levels: Option<u32>,
    /// log2 of a plaintext modulus that depends on the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    plaintext_bits: Option<u32>,
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
pub struct Client {
    /// What it asks with.
    pub half: Box<dyn EngineClient>,
    /// What the server answers it with.
    pub keys: PublicKeys,
}

impl Client {
    /// One whose keys follow from the seed.
    ///
    /// # Errors
    /// If the engine does not take the keys that it has made.
    pub fn new(engine: &dyn Engine, seed: &[u8; 32]) -> Result<Self, Error> {
        let half = engine.client(seed);
        let keys = engine.public_keys(&half.public_keys())?;
        Ok(Self { half, keys })
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use mpir::Form;

    use super::EngineName;

    /// Another engine's figures under a name would go unnoticed.
    #[test]
    fn every_name_is_that_of_its_engine() {
        let all = [
            ("sealpir", "sealpir-s2048", 1, 137, true),
            ("voce", "voce", 1, 137, false),
            ("voce-hint", "voce-hint", 1, 137, false),
            ("voce-apart", "voce-apart", 1, 137, false),
            ("xpir-2", "xpir-2", 2, 193, false),
            ("xpir-3", "xpir-3", 3, 193, false),
            ("paper-t20", "sealpir-paper-t20", 2, 113, true),
            ("paper-t23", "sealpir-paper-t23", 2, 113, true),
            ("fastpir", "fastpir", 1, 128, false),
            ("fastpir-paper", "fastpir-paper", 1, 125, false),
            ("onionpir", "onionpir", 3, 137, true),
            ("onionpir-paper", "onionpir-paper", 3, 113, true),
            ("simplepir", "simplepir", 1, 132, false),
            ("simplepir-paper", "simplepir-paper", 1, 120, false),
            ("doublepir", "doublepir", 2, 132, false),
            ("doublepir-paper", "doublepir-paper", 2, 120, false),
            ("spiral", "spiral", 4, 137, true),
            ("spiral-pack", "spiral-pack", 1, 137, true),
            ("spiral-stream", "spiral-stream", 3, 137, false),
            ("spiral-stream-pack", "spiral-stream-pack", 1, 137, false),
            ("spiral-paper", "spiral-paper", 1, 113, true),
            ("spiral-pack-paper", "spiral-pack-paper", 1, 113, true),
            ("spiral-stream-paper", "spiral-stream-paper", 2, 113, false),
            ("spiral-stream-pack-paper", "spiral-stream-pack-paper", 1, 113, false),
            ("xpsir", "xpsir", 1, 193, false),
            ("sealpsir", "sealpsir", 1, 137, false),
            ("paillierpsir", "paillierpsir", 1, 128, false),
            ("paillierpsir-paper", "paillierpsir-paper", 1, 112, false),
        ];
        assert_eq!(EngineName::value_variants().len(), all.len());
        for (name, (told, engine, dimensions, security, expands)) in
            EngineName::value_variants().iter().zip(all)
        {
            assert_eq!(name.to_possible_value().unwrap().get_name(), told);
            assert_eq!(serde_json::to_value(name).unwrap(), told);
            // As the paper has it, DoublePIR has elements of a few bytes.
            let element_bytes = if *name == EngineName::DoublepirPaper { 3 } else { 288 };
            let round = name.round(Form { buckets: 1, elements: 500, element_bytes }, None).unwrap();
            assert_eq!(name.engine().name(), engine);
            assert_eq!(name.arrangement(&round).unwrap().dimensions, dimensions, "{engine}");
            let assurance = name.engine().assurance(&round).unwrap();
            assert_eq!(assurance.security_bits, security, "{engine}");
            assert!(assurance.failure_log2 <= -40.0, "{engine}");
            assert_eq!((name.expands(), name.is_insecure()), (expands, security < 128), "{engine}");
        }
    }
}
