#!/bin/sh
# Writes what of agents.list is for this machine as a CycloneDX document, for
# an image that carries it.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
case $(uname -m) in
x86_64 | amd64) cpu=x64 ;;
aarch64 | arm64) cpu=arm64 ;;
*) cpu=$(uname -m) ;;
esac
awk -v on="linux-$cpu" '
	BEGIN { printf "{\"bomFormat\":\"CycloneDX\",\"specVersion\":\"1.5\",\"version\":1,\"components\":[" }
	/^#/ || NF < 7 || $3 != on { next }
	{
		at = 0
		for (i = length($4); i > 1 && !at; i--) if (substr($4, i, 1) == "@") at = i
		name = substr($4, 1, at - 1); version = substr($4, at + 1)
		purl = name; gsub(/@/, "%40", purl)
		printf "%s{\"type\":\"application\",\"name\":\"%s\",\"version\":\"%s\",\"purl\":\"pkg:npm/%s@%s\"", sep, name, version, purl, version
		if ($7 != "-") printf ",\"hashes\":[{\"alg\":\"SHA-256\",\"content\":\"%s\"}]", $7
		printf "}"; sep = ","
	}
	END { print "]}" }
' "$here/agents.list"
