package a2a

import (
	"maps"
	"slices"
)

// RESTRoutes are the operations of HTTP+JSON, each as "METHOD /path".
func RESTRoutes() []string { return slices.Sorted(maps.Keys(restRoutes)) }

// RPCMethods are those of JSON-RPC.
func RPCMethods() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for m := range operations {
			if !yield(m) {
				return
			}
		}
		for m := range streams {
			if !yield(m) {
				return
			}
		}
	})
}
