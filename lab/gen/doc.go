// Package gen generates snapshots for tests and benchmarks: random ones from a seed, and large ones.
package gen
