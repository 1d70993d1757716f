//! Every engine for whole rounds, compiled here: a program that named their types would compile each of them again, by its own
//! profile.

use std::sync::Arc;

use mpir::{Engine, PerBucket};
use pir_core::SealPir;

use crate::onionpir::OnionPirPaper;
use crate::paillier::{Paillier2048, Paillier3072};
use crate::spiral::{AS_PUBLISHED, SPIRAL, SPIRAL_PACK, SPIRAL_STREAM, SPIRAL_STREAM_PACK};
use crate::{
    DoublePir, FastPir, OnionPir, PAPER, PaperSealPir, Psir, SECURE, SimplePir, Spiral, WithHint, Xpir,
};

macro_rules! engines {
    ($($(#[$attribute:meta])* $name:ident: $engine:ty;)*) => {$(
        $(#[$attribute])*
        #[must_use]
        pub fn $name() -> Arc<dyn Engine> {
            Arc::new(<$engine>::new())
        }
    )*};
}

engines! {
    /// XPIR in two dimensions.
    xpir_2: PerBucket<Xpir<2>>;
    /// XPIR in three.
    xpir_3: PerBucket<Xpir<3>>;
    /// SealPIR as its paper has it, with log t = 20: 113 bits of security.
    paper_t20: PerBucket<PaperSealPir<20>>;
    /// The same with log t = 23.
    paper_t23: PerBucket<PaperSealPir<23>>;
    /// FastPIR.
    fastpir: PerBucket<FastPir<100>>;
    /// FastPIR with the moduli of its paper: 125 bits of security.
    fastpir_paper: PerBucket<FastPir<109>>;
    /// OnionPIR.
    onionpir: PerBucket<OnionPir>;
    /// OnionPIR with the modulus of its second paper: 113 bits of security.
    onionpir_paper: PerBucket<OnionPirPaper>;
    /// SimplePIR.
    simplepir: WithHint<SimplePir<SECURE>>;
    /// SimplePIR as its paper has it: 120 bits of security.
    simplepir_paper: WithHint<SimplePir<PAPER>>;
    /// DoublePIR.
    doublepir: WithHint<DoublePir<SECURE>>;
    /// DoublePIR as its paper has it: 120 bits of security.
    doublepir_paper: WithHint<DoublePir<PAPER>>;
    /// Spiral.
    spiral: PerBucket<Spiral<SPIRAL>>;
    /// Spiral whose results are packed.
    spiral_pack: PerBucket<Spiral<SPIRAL_PACK>>;
    /// Spiral whose queries are uploaded.
    spiral_stream: PerBucket<Spiral<SPIRAL_STREAM>>;
    /// Both.
    spiral_stream_pack: PerBucket<Spiral<SPIRAL_STREAM_PACK>>;
    /// Spiral with the modulus of its paper: 113 bits of security.
    spiral_paper: PerBucket<Spiral<{ SPIRAL + AS_PUBLISHED }>>;
    /// The same, packed.
    spiral_pack_paper: PerBucket<Spiral<{ SPIRAL_PACK + AS_PUBLISHED }>>;
    /// The same, uploaded.
    spiral_stream_paper: PerBucket<Spiral<{ SPIRAL_STREAM + AS_PUBLISHED }>>;
    /// The same, both.
    spiral_stream_pack_paper: PerBucket<Spiral<{ SPIRAL_STREAM_PACK + AS_PUBLISHED }>>;
    /// PSIR over XPIR in two dimensions.
    xpsir: Psir<Xpir<2>>;
    /// PSIR over SealPIR.
    sealpsir: Psir<SealPir>;
    /// PSIR over Paillier of a modulus of 3072 bits.
    paillierpsir: Psir<Paillier3072>;
    /// PSIR over Paillier of a modulus of 2048 bits, as its paper has it: 112 bits of security.
    paillierpsir_paper: Psir<Paillier2048>;
}
