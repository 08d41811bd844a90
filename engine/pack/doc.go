// Package pack is the search: it gives pending pods places on machines that exist, and chooses the machines to launch
// for the rest.
package pack
