#!/bin/sh
# Installs the agents of agents.list with npm, each into a folder of its own:
#
#   ${INNERD_AGENTS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/innerd/agents}/AGENT/VERSION
#
# A folder appears only when its hashes were checked and the agent was made
# ready, so that an agent that is there is whole, and a second call has nothing
# to do. Copilot's folder has what it would unpack at its first start (235 MB) in
# pkg-cache: start it with COPILOT_PKG_CACHE_HOME=…/copilot/VERSION/pkg-cache.
#
#   install-agents.sh [--platform OS-CPU] [--verify] [AGENT ...]
#
# --platform  instead of this machine's (for an image of another kind)
# --verify    hash what is installed again
# AGENT       only these; default all
set -eu

say() { printf '%s\n' "$*"; }
die() { printf 'install-agents: %s\n' "$*" >&2; exit 1; }

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
platform='' verify='' agents=''
while [ $# -gt 0 ]; do
	case $1 in
	--platform) [ $# -gt 1 ] || die "--platform needs a value, like linux-arm64"; platform=$2; shift ;;
	--verify) verify=1 ;;
	-h | --help) sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 0 ;;
	-*) die "unknown flag $1" ;;
	*) agents="$agents $1" ;;
	esac
	shift
done

native() {
	os=$(uname -s | tr '[:upper:]' '[:lower:]')
	case $(uname -m) in
	x86_64 | amd64) say "$os-x64" ;;
	aarch64 | arm64) say "$os-arm64" ;;
	*) say "$os-$(uname -m)" ;;
	esac
}

root=${INNERD_AGENTS_DIR:-}
if [ -z "$root" ]; then
	cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
	[ -n "$cache" ] || die "no place to install to: set HOME, XDG_CACHE_HOME or INNERD_AGENTS_DIR"
	root=$cache/innerd/agents
fi
mkdir -p "$root" || die "cannot make $root: set INNERD_AGENTS_DIR to a folder that can be written"
platform=${platform:-$(native)}

# What calls that were killed have left.
find "$root" -maxdepth 1 -name '.tmp.*' -mtime +0 -exec rm -rf {} + 2>/dev/null || true

tmp=''
trap '[ -z "$tmp" ] || rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

hash() {
	if command -v sha256sum >/dev/null 2>&1; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

# check FILE SHA256 WHAT: "-" is not checked, npm's integrity vouches for it.
check() {
	[ "$2" != - ] || return 0
	got=$(hash "$1")
	[ "$got" = "$2" ] || die "$3 has the wrong hash
  agents.list pins sha256 $2
  got              sha256 $got"
}

# ready DIR BINARY STAMP: it is there, and is what is pinned.
ready() { [ -x "$1/$2" ] && [ -f "$1/.pinned" ] && [ "$(cat "$1/.pinned")" = "$3" ]; }

# fetch PACKAGE VERSION INTEGRITY: unpacks it below $tmp. The lock file makes
# npm refuse a package of another hash; scripts are not run.
fetch() {
	command -v npm >/dev/null 2>&1 || die "npm was not found: install Node.js with npm (any that is still maintained), then run make agents again"
	printf '{"private":true,"dependencies":{"%s":"%s"}}\n' "$1" "$2" >"$tmp/package.json"
	printf '{"lockfileVersion":3,"requires":true,"packages":{"":{"dependencies":{"%s":"%s"}},"node_modules/%s":{"version":"%s","integrity":"%s"}}}\n' \
		"$1" "$2" "$1" "$2" "$3" >"$tmp/package-lock.json"
	if ! (cd "$tmp" && npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --prefer-offline \
		--os="${platform%-*}" --cpu="${platform##*-}" </dev/null >npm.log 2>&1); then
		tail -n 15 "$tmp/npm.log" >&2
		! grep -q EINTEGRITY "$tmp/npm.log" || die "$1@$2 is not the package that agents.list pins: nothing was installed"
		die "npm could not fetch $1@$2 (see above): nothing was installed"
	fi
}

# prepare AGENT DIR: what an agent would do at its first start, which must not
# be in the middle of a request. For another machine it cannot be done here.
prepare() {
	case $1 in
	copilot)
		if [ "$platform" != "$(native)" ]; then
			say "copilot: for $platform it cannot be unpacked here: run it once there with COPILOT_PKG_CACHE_HOME=its folder/pkg-cache"
			return
		fi
		mkdir "$2/pkg-cache" "$tmp/home"
		env -i PATH="$PATH" HOME="$tmp/home" COPILOT_HOME="$tmp/home" COPILOT_PKG_CACHE_HOME="$2/pkg-cache" \
			"$2/copilot" --version </dev/null >"$tmp/prepare.log" 2>&1 || {
			tail -n 5 "$tmp/prepare.log" >&2
			die "copilot does not start (see above; it needs glibc and libstdc++): nothing was installed"
		}
		[ -n "$(find "$2/pkg-cache/pkg" -name .extraction-complete 2>/dev/null)" ] || die "copilot did not unpack to pkg-cache: nothing was installed"
		;;
	esac
}

install() { # AGENT VERSION PACKAGE@VERSION BINARY INTEGRITY SHA256
	dir=$root/$1/$2
	stamp="$3 $5 $6"
	if ready "$dir" "$4" "$stamp"; then
		[ -z "$verify" ] || check "$dir/$4" "$6" "$dir/$4 (remove its folder and call again)"
		say "$1 $2: $dir/$4"
		return
	fi
	say "$1 $2: fetching ${3} …"
	tmp=$(mktemp -d "$root/.tmp.XXXXXX")
	fetch "${3%@*}" "${3##*@}" "$5"
	pkg=$tmp/node_modules/${3%@*}
	[ -f "$pkg/$4" ] || die "$3 has no file $4: nothing was installed"
	chmod 755 "$pkg/$4"
	check "$pkg/$4" "$6" "$4 in $3 (nothing was installed)"
	prepare "$1" "$pkg"
	printf '%s\n' "$stamp" >"$pkg/.pinned"
	mkdir -p "$root/$1"
	if ! ready "$dir" "$4" "$stamp"; then # else another call was faster
		[ ! -e "$dir" ] || mv "$dir" "$tmp/old"
		mv "$pkg" "$dir" || die "cannot move $3 to $dir"
	fi
	rm -rf "$tmp"
	tmp=''
	say "$1 $2: $dir/$4"
}

known='' done=''
while read -r agent version on package binary integrity sha rest; do
	case $agent in '' | '#'*) continue ;; esac
	[ -n "$sha" ] && [ -z "$rest" ] || die "agents.list: the row of $agent $on has not seven columns"
	known="$known $agent"
	[ "$on" = "$platform" ] || continue
	case " $agents " in "  " | *" $agent "*) ;; *) continue ;; esac
	install "$agent" "$version" "$package" "$binary" "$integrity" "$sha"
	done="$done $agent"
done <"$here/agents.list"

for agent in $agents; do
	case " $known " in *" $agent "*) ;; *) die "agents.list has no agent $agent" ;; esac
	case " $done " in *" $agent "*) ;; *) die "agents.list has no $agent for $platform" ;; esac
done
[ -n "$done" ] || die "agents.list has nothing for $platform"
