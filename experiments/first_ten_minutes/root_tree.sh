# SPDX-License-Identifier: MIT
# Sourced by what runs in a fresh root tree, such as debootstrap makes, with `root` set to its path: makes it
# fit to run in, until the script ends. As root.
[ -x "$root/usr/bin/apt-get" ] || { echo "$(basename "$0"): $root is no Debian or Ubuntu root tree" >&2; exit 2; }
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
mountpoint -q "$root/dev" || mount --bind /dev "$root/dev"
# Tests open terminals.
mountpoint -q "$root/dev/pts" || mount --bind /dev/pts "$root/dev/pts"
trap 'umount "$root/proc" "$root/dev/pts" "$root/dev"' EXIT
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/trial"
# A proxy's certificate authority, where this machine has one.
[ -z "${PIP_CERT:-}" ] || cp "$PIP_CERT" "$root/trial/authorities.pem"

# inside COMMANDS: in the tree, of no environment but what is named here.
inside() {
  chroot "$root" env -i HOME=/trial TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    ${PIP_CERT:+PIP_CERT=/trial/authorities.pem} bash -euo pipefail -c "$1"
}
