#!/bin/sh
# Writes what a Go binary was built from as a CycloneDX document: the binary
# says it itself.
set -eu
go version -m "$1" | awk -v ver="$2" '
	function purl(path, version) { return "pkg:golang/" path "@" version }
	NR == 1 { sub(/.*: go/, ""); go = $1 }
	$1 == "mod" || $1 == "dep" {
		path = $2; version = $1 == "mod" ? ver : $3
		item = sprintf("{\"type\":\"library\",\"name\":\"%s\",\"version\":\"%s\",\"purl\":\"%s\"}", path, version, purl(path, version))
		if ($1 == "mod") { sub(/library/, "application", item); main = item } else { deps = deps sep item; sep = "," }
	}
	END {
		std = sprintf("{\"type\":\"library\",\"name\":\"std\",\"version\":\"%s\",\"purl\":\"%s\"}", go, purl("std", go))
		printf "{\"bomFormat\":\"CycloneDX\",\"specVersion\":\"1.5\",\"version\":1,\"metadata\":{\"component\":%s},\"components\":[%s,%s]}\n", main, std, deps
	}'
