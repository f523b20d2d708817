//go:build race

package a2a_test

// slack is what the race detector costs, in time and memory.
const slack = 10
