#!/bin/sh
# Lays out the root directory of the image: root.sh BINARY DIRECTORY
set -eu
binary=$1
root=$2

mkdir -p "$root/usr/bin" "$root/etc/ssl/certs" "$root/tmp" "$root/var/lib/codeq"
cp "$binary" "$root/usr/bin/codeq"

copy() { # keeps the path, follows links
  mkdir -p "$root$(dirname "$1")"
  cp -L "$1" "$root$1"
}

libraries=$(ldd "$binary" | grep -o '/[^ ]*')
for library in $libraries; do
  copy "$library"
done
# Loaded by name when a host name is resolved; ldd does not see them.
libc=$(dirname "$(echo "$libraries" | grep '/libc\.so')")
for name in libnss_dns.so.2 libnss_files.so.2 libresolv.so.2; do
  if [ -e "$libc/$name" ]; then
    copy "$libc/$name"
  fi
done

cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
echo 'codeq:x:65532:65532:codeq:/var/lib/codeq:/sbin/nologin' > "$root/etc/passwd"
echo 'codeq:x:65532:' > "$root/etc/group"
chmod 1777 "$root/tmp"
chown 65532:65532 "$root/var/lib/codeq"
chmod 700 "$root/var/lib/codeq"
