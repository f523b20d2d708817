#!/bin/sh
# Installs the official A2A clients of package-lock.json with npm, into
#
#   ${INNERD_AGENTS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/innerd/agents}/a2a-clients/HASH
#
# never into the clone. The folder appears only when it is whole, so that a
# second call has nothing to do and needs no network. The lock file holds the
# hash of each package and names no registry; scripts are not run.
set -eu

die() { printf 'a2a clients: %s\n' "$*" >&2; exit 1; }

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=${INNERD_AGENTS_DIR:-}
if [ -z "$root" ]; then
	cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
	[ -n "$cache" ] || die "no place to install to: set HOME, XDG_CACHE_HOME or INNERD_AGENTS_DIR"
	root=$cache/innerd/agents
fi
if command -v sha256sum >/dev/null 2>&1; then sum=sha256sum; else sum='shasum -a 256'; fi
hash=$($sum <"$here/package-lock.json" | cut -c1-16)
dir=$root/a2a-clients/$hash
[ -f "$dir/.whole" ] && exit 0

command -v npm >/dev/null 2>&1 || die "npm was not found: install Node.js 20 or newer with npm, then run make a2a-clients again"
mkdir -p "$root/a2a-clients"
tmp=$(mktemp -d "$root/a2a-clients/.tmp.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cp "$here/package.json" "$here/package-lock.json" "$tmp/"
(cd "$tmp" && npm ci --omit=peer --ignore-scripts --no-audit --no-fund --loglevel=error) || die "npm ci failed; see above"
: >"$tmp/.whole"
rm -rf "$dir"
mv "$tmp" "$dir" 2>/dev/null || [ -f "$dir/.whole" ] || die "cannot make $dir" # another call may have been first
printf 'A2A clients are in %s\n' "$dir"
