// Package program holds what all commands share: the version, the name under which the program was called, exit codes,
// and flags that come from the environment.
package program

// Version is set by the linker (see Makefile).
var Version = "dev"
