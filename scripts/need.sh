# For other scripts (`. scripts/need.sh`): installs what is missing from Debian's packages.

# Waits for others that install at the same time. Only dpkg's own lock can be waited for by an option; that of the
# package lists is tried again.
apt() { # ARGUMENT...
  local sudo="" try
  [ "$(id -u)" = 0 ] || sudo=sudo
  for try in $(seq 60); do
    $sudo apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >/dev/null && return
    echo "apt-get $1 did not work; try $try of 60" >&2
    sleep 5
  done
  return 1
}

need() { # COMMAND PACKAGE
  command -v "$1" >/dev/null && return
  printf '\n== installing %s (%s s)\n' "$2" "$SECONDS"
  apt update && apt install -y "$2"
}
