// Package rpc speaks JSON-RPC with a child over its pipes.
package rpc
