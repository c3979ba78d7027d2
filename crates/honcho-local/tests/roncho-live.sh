#!/bin/sh
# Runs the live tests of the published roncho crate against a honcho-local started here.
#
#   crates/honcho-local/tests/roncho-live.sh [VERSION]
#
# Needs cargo with access to its registry (or a filled cache). Works in a temporary folder, which it
# removes; set CARGO_TARGET_DIR to keep what was built.
set -eu

version=${1:-1.0.0}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
work=$(mktemp -d)
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT INT TERM

# Let cargo itself bring the published source, and say where it put it.
mkdir -p "$work/fetch/src"
: > "$work/fetch/src/lib.rs"
cat > "$work/fetch/Cargo.toml" <<TOML
[package]
name = "fetch"
version = "0.0.0"
edition = "2021"
[dependencies]
roncho = "=$version"
[workspace]
TOML
cargo fetch --quiet --manifest-path "$work/fetch/Cargo.toml"
manifest=$(cargo metadata --quiet --format-version 1 --manifest-path "$work/fetch/Cargo.toml" |
    grep -o '"manifest_path":"[^"]*/roncho-'"$version"'/Cargo.toml"' | head -n 1 | cut -d '"' -f 4)
[ -n "$manifest" ] || { echo "roncho $version was not found" >&2; exit 1; }
cp -R "$(dirname "$manifest")" "$work/roncho"
chmod -R u+w "$work/roncho"
# A workspace of its own, so that no folder above it is taken for one.
printf '\n[workspace]\n' >> "$work/roncho/Cargo.toml"

(cd "$root" && cargo build --quiet -p honcho-local)
target=$(cd "$root" && cargo metadata --quiet --no-deps --format-version 1 |
    grep -o '"target_directory":"[^"]*"' | cut -d '"' -f 4)
mkfifo "$work/out"
"$target/debug/honcho-local" --listen 127.0.0.1:0 --db "$work/honcho.sqlite" > "$work/out" 2> "$work/log" &
server=$!
read -r line < "$work/out"
url=${line#listening on }

cd "$work/roncho"
RONCHO_LIVE_URL=$url cargo test --test live -- --ignored --test-threads=1
