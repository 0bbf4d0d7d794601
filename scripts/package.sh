#!/usr/bin/env bash
# Packs codeq for every channel: archives with checksums, wheels, npm packages, the SDKs' packages, and the installer.
# usage: package.sh [--out DIRECTORY] [TRIPLE=BINARY ...]   (e.g. aarch64-apple-darwin=build/codeq)
# Without binaries it builds the one of this machine (`dist` profile). The same binary goes into every channel.
set -euo pipefail
cd "$(dirname "$0")/.."

out=target/packages
if [ "${1:-}" = --out ]; then out=$2; shift 2; fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

if [ $# = 0 ]; then
  triple=$(rustc -vV | sed -n 's/^host: //p')
  CODEQ_REVISION=${CODEQ_REVISION:-$(git rev-parse HEAD)} cargo build --profile dist --locked -p codeq
  set -- "$triple=target/dist/codeq"
fi

# The oldest glibc that has every symbol of the binary; empty if it is static.
glibc_of() { grep -ao 'GLIBC_2\.[0-9]*' "$1" | sort -uV | tail -1 | sed 's/GLIBC_2\.//' || true; }

# TRIPLE BINARY: "npm platform, wheel tags"
platform_of() {
  local machine=${1%%-*} glibc
  case $1 in
    *-linux-*)
      glibc=$(glibc_of "$2")
      local npm=x64; [ "$machine" = aarch64 ] && npm=arm64
      case $1 in *-musl) npm=$npm-musl; [ -z "$glibc" ] || { echo "package.sh: the binary for $1 is not static" >&2; return 1; } ;; esac
      if [ -n "$glibc" ]; then echo "linux-$npm manylinux_2_${glibc}_$machine"
      else echo "linux-$npm manylinux_2_17_$machine.musllinux_1_1_$machine"; fi ;;
    x86_64-apple-darwin) echo "darwin-x64 macosx_10_12_x86_64" ;;
    aarch64-apple-darwin) echo "darwin-arm64 macosx_11_0_arm64" ;;
    *) echo "package.sh does not know the platform $1" >&2; return 1 ;;
  esac
}

rm -rf "$out"; mkdir -p "$out"
npm=()
for one in "$@"; do
  triple=${one%%=*} binary=${one#*=}
  read -r platform tags <<<"$(platform_of "$triple" "$binary")"
  name=codeq-$version-$triple
  stage=$(mktemp -d)
  mkdir "$stage/$name"
  install -m 755 "$binary" "$stage/$name/codeq"
  install -m 644 LICENSE README.md CHANGELOG.md "$stage/$name/"
  # No names and times of this machine, so that the same binary gives the same archive.
  tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime='2020-01-01 00:00Z' -cf - "$name" |
    gzip -9n >"$out/$name.tar.gz"
  rm -rf "$stage"
  python3 sdks/packages/wheel.py "$binary" "$version" "$tags" "$out" >/dev/null
  npm+=("$platform=$binary")
done
python3 sdks/packages/npm.py "$version" "$out" "${npm[@]}" >/dev/null
# The SDKs for Python and TypeScript; Go takes its modules from the tags of the repository.
tools=$(mktemp -d)
python3 -m venv "$tools"
"$tools/bin/pip" -q --disable-pip-version-check wheel --no-deps --wheel-dir "$out" ./sdks/python
rm -rf "$tools"
packages=$(realpath "$out")
(cd sdks/typescript && { [ -d node_modules/typescript ] || npm ci --silent --no-audit --no-fund; } &&
  npm pack --silent --pack-destination "$packages" >/dev/null)
install -m 755 install.sh "$out/install.sh"
(cd "$out" && for archive in *.tar.gz; do sha256sum "$archive" >"$archive.sha256"; done && sha256sum -- *.tar.gz *.whl *.tgz install.sh >SHA256SUMS)
ls -l "$out"
