//! The values that the paper prints.

/// Its database sizes.
pub(super) const SIZES: [usize; 3] = [65_536, 262_144, 1_048_576];

/// The paper's costs of one engine, for each of its sizes.
#[derive(Clone, Copy)]
pub(crate) struct Paper {
    pub(super) query_ms: [f64; 3],
    pub(super) extract_ms: [f64; 3],
    pub(super) setup_s: [f64; 3],
    pub(super) expand_s: Option<[f64; 3]>,
    pub(super) answer_s: [f64; 3],
    pub(super) query_kb: [f64; 3],
    pub(super) answer_kb: [f64; 3],
}

impl Paper {
    /// XPIR with d = 2.
    pub(crate) const XPIR_2: Self = Self {
        query_ms: [13.83, 27.57, 55.14],
        extract_ms: [0.34, 0.29, 0.30],
        setup_s: [0.15, 0.57, 2.27],
        expand_s: None,
        answer_s: [0.21, 0.63, 2.12],
        query_kb: [4384.0, 8768.0, 17536.0],
        answer_kb: [256.0, 256.0, 256.0],
    };

    /// XPIR with d = 3.
    pub(crate) const XPIR_3: Self = Self {
        query_ms: [4.98, 8.03, 12.74],
        extract_ms: [2.47, 2.49, 2.57],
        setup_s: [0.15, 0.58, 2.32],
        expand_s: None,
        answer_s: [0.27, 0.78, 2.52],
        query_kb: [1632.0, 2560.0, 4064.0],
        answer_kb: [1824.0, 1952.0, 1952.0],
    };

    /// SealPIR with d = 2.
    pub(crate) const SEALPIR: Self = Self {
        query_ms: [3.37, 3.37, 3.37],
        extract_ms: [1.37, 1.39, 1.69],
        setup_s: [0.23, 1.04, 4.26],
        expand_s: Some([0.05, 0.11, 0.23]),
        answer_s: [0.13, 0.5, 2.01],
        query_kb: [64.0, 64.0, 64.0],
        answer_kb: [256.0, 256.0, 256.0],
    };
}
