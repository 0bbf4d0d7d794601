#!/bin/sh
# Installs the codeq binary for this machine. No root needed, nothing else is changed.
#
#   curl -fsSL https://github.com/codeq/codeq/releases/latest/download/install.sh | sh
#   sh install.sh --version 0.1.0 --dir /usr/local/bin
#
#   --dir DIRECTORY     where codeq goes (default: ~/.local/bin)
#   --version VERSION   which release (default: the latest)
#   --from LOCATION     a URL or a directory that holds the archives (default: the releases on GitHub)
set -eu

directory=${HOME:-.}/.local/bin
version=
from=
repository=https://github.com/codeq/codeq/releases

fail() { echo "install.sh: $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
  case $1 in
    --dir) directory=${2:?--dir needs a directory}; shift 2 ;;
    --version) version=${2:?--version needs a version}; shift 2 ;;
    --from) from=${2:?--from needs a URL or a directory}; shift 2 ;;
    -h | --help) sed -n '2,9p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    *) fail "unknown argument $1 (try --help)" ;;
  esac
done

case $(uname -s) in
  # Alpine and others without glibc get the static binary.
  Linux) if ldd --version 2>&1 | grep -qi musl; then system=unknown-linux-musl; else system=unknown-linux-gnu; fi ;;
  Darwin) system=apple-darwin ;;
  *) fail "there is no binary for $(uname -s); build it with cargo" ;;
esac
case $(uname -m) in
  x86_64 | amd64) machine=x86_64 ;;
  aarch64 | arm64) machine=aarch64 ;;
  *) fail "there is no binary for $(uname -m); build it with cargo" ;;
esac
triple=$machine-$system

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM

# fetch NAME: into the scratch directory
fetch() {
  case $from in
    http://* | https://*) curl -fsSL --retry 3 -o "$scratch/$1" "$from/$1" || fail "$from/$1 cannot be downloaded" ;;
    *) cp "$from/$1" "$scratch/$1" || fail "$from/$1 cannot be read" ;;
  esac
}

case $from in
  "" | http://* | https://*) command -v curl >/dev/null || fail "curl is missing; install it, or name a directory with --from" ;;
esac
if [ -z "$version" ] && [ -z "$from" ]; then
  # The page of the latest release redirects to its tag.
  version=$(curl -fsSLI -o /dev/null -w '%{url_effective}' "$repository/latest" | sed -n 's|.*/v\([0-9].*\)$|\1|p')
  [ -n "$version" ] || fail "the latest release cannot be found; name one with --version"
fi
if [ -z "$from" ]; then
  from=$repository/download/v$version
elif [ -z "$version" ]; then
  fetch SHA256SUMS
  version=$(sed -n "s/.* \{1,2\}codeq-\(.*\)-$triple\.tar\.gz\$/\1/p" "$scratch/SHA256SUMS")
  [ -n "$version" ] || fail "$from has no archive for $triple"
fi

archive=codeq-$version-$triple.tar.gz
fetch "$archive"
fetch "$archive.sha256"
wanted=$(cut -d' ' -f1 <"$scratch/$archive.sha256")
if command -v sha256sum >/dev/null; then
  found=$(sha256sum "$scratch/$archive" | cut -d' ' -f1)
else
  found=$(shasum -a 256 "$scratch/$archive" | cut -d' ' -f1)
fi
[ "$wanted" = "$found" ] || fail "$archive is damaged: its SHA-256 is $found, expected $wanted"

tar -C "$scratch" -xzf "$scratch/$archive"
"$scratch/codeq-$version-$triple/codeq" --version >/dev/null ||
  fail "the binary for $triple does not run here; take codeq-$version-$machine-unknown-linux-musl.tar.gz, which needs no libraries"
mkdir -p "$directory"
# Renamed into place, so that a running codeq is not disturbed.
cp "$scratch/codeq-$version-$triple/codeq" "$directory/.codeq.new"
chmod 755 "$directory/.codeq.new"
mv "$directory/.codeq.new" "$directory/codeq"

echo "installed $("$directory/codeq" --version) as $directory/codeq"
case :$PATH: in
  *:"$directory":*) ;;
  *) echo "add it to your PATH:  export PATH=\"$directory:\$PATH\"" ;;
esac
