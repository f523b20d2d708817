// Package billing says what a run costs, from what it used. It is pure: tables
// in, usage in, an exact sum out; it asks nobody and rounds nothing.
//
// A [Strategy] is one way to charge: [TokenBased] by a price table,
// [ProviderReported] by what the vendor says, [None]. A [Book] holds one for
// each backend and is read from JSON:
//
//	{
//	  "default": {"strategy": "token_based", "multiplier": "1.2", "models": {
//	    "example-large": {"input": "3", "output": "15", "cache_read": "0.30", "cache_write": "3.75"}}},
//	  "backends": {
//	    "copilot":  {"strategy": "provider_reported", "premium_price": "0.04", "multipliers": {"example": "1", "example-large": "10"}},
//	    "simulate": {"strategy": "none"}}
//	}
//
// Prices are US dollars for a million tokens, and for one premium request. A
// model takes the entry whose name is the longest beginning of its own. No
// prices are built in: they change, and a stale one is a wrong bill.
//
// Amounts are math/big rationals. Every step here is a product, a sum or a
// division by a million, so a decimal library would give nothing that they
// lack, and rationals can't lose a digit; hosts link no package for it.
package billing
