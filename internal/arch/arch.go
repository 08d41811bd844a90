// Package arch holds the design's rules as tests: which package may import which, what the engine must be free of, that
// every package says what it is for. Each failure names the rule it saw broken and the reason for it.
package arch
