package main

import (
	"bufio"
	"bytes"
	"regexp"
	"strings"
)

var ownerName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// firstKey is the first secret of a key file, without its owner's name.
func firstKey(raw []byte) string {
	sc := bufio.NewScanner(bytes.NewReader(raw))
	for sc.Scan() {
		entry := strings.TrimSpace(sc.Text())
		if entry == "" {
			continue
		}
		if name, secret, ok := strings.Cut(entry, ":"); ok && secret != "" && ownerName.MatchString(name) {
			return secret
		}
		return entry
	}
	return ""
}
