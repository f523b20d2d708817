#!/bin/sh
# Looks for known vulnerabilities in what is shipped: govulncheck over a pinned
# copy of the database, which is itself a Go module, so that nothing but the
# module proxy is asked. The checker must be built by the toolchain whose
# packages it loads, the one that go.mod names; it is kept in the user's cache.
#
#   GO=go DB=module@version TOOL=module@version TAGS=… sh test/security/vuln.sh
set -eu
go=${GO:-go}
toolchain=$(sed -n 's/^toolchain //p' go.mod)
# -mod=mod of a caller and the like would reach the builds of the tools.
export GOTOOLCHAIN="$toolchain" GOFLAGS=-buildvcs=false
bin="${XDG_CACHE_HOME:-$HOME/.cache}/innerd/govulncheck/${TOOL##*@}-$toolchain"
db=$("$go" mod download -json "${DB}" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
[ -d "$db/data/osv" ] || { echo "the database of vulnerabilities ($DB) could not be loaded" >&2; exit 1; }
if [ ! -x "$bin/govulncheck" ]; then
  mkdir -p "$bin"
  GOBIN="$bin" "$go" install "$TOOL"
fi
exec "$bin/govulncheck" -db "file://$db/data/osv" -tags "${TAGS:-}" ./cmd/innerd ./host/... ./examples/...
