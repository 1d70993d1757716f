# The commands of CONTRIBUTING.md by name: `just`, or copy a line. Needs nothing but a Rust toolchain and a C compiler.

# What there is.
default:
    @just --list

# A chat round between people, server embedded.
demo *ARGS:
    cargo run --release --locked -- demo {{ARGS}}

# All tests.
test *ARGS:
    cargo test --workspace --locked {{ARGS}}

# Formatting and lints.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings

# The documentation of all crates.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# What a change must pass.
gate:
    .ci/run

# What takes hours, or parts of it: `just deep attacks deaths`; .ci/deep has the list.
deep *PARTS:
    .ci/deep {{PARTS}}

# Branches and memory accesses on secrets, under valgrind.
constant-time:
    .ci/constant-time

# The engine's benches.
bench:
    cargo bench -p pir-core --bench pir --bench voce
    cargo bench -p pbc --bench codes

# A whole round with real clients, measured.
closed-loop K="16":
    cargo run --release --locked -p sotto-sim -- closed-loop --users 262144 --clients 32 --retrieve {{K}}

# Licences, sources and advisories of dependencies; needs cargo-deny.
deny:
    cargo deny check
