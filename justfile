# The commands of a working day. `just` is optional: each line is a script or cargo command that works without it.

# Lists the commands.
default:
    @just --list

# Formatting and lints, without running anything.
check:
    cargo fmt --all -- --check
    cargo clippy --workspace --all-targets --locked -- -D warnings

# The whole gate, as in CI; `just test --long` for its large campaigns.
test *size:
    ./scripts/test.sh {{ size }}

# The tests of one crate: `just unit codeq-queue retry`.
unit crate *filter:
    cargo test --locked -p {{ crate }} {{ filter }}

# Formats and applies the lints' own suggestions.
fix:
    cargo fmt --all
    cargo clippy --workspace --all-targets --locked --fix --allow-dirty --allow-staged

# The benches that docs/why/benchmarks.md quotes.
bench:
    cargo run --release --locked -p codeq -- bench store
    cargo run --release --locked -p codeq -- bench http
    cargo run --release --locked -p codeq -- bench grpc

# The long campaigns that run every night in CI.
nightly:
    ./scripts/nightly.sh

# The packages of this machine's platform, in target/packages.
package:
    ./scripts/package.sh
