// Package arch tests the rules of the design: which package may import which, what the engine must not depend on,
// that every package says what it is for. Each failure names the broken rule and its reason.
package arch
