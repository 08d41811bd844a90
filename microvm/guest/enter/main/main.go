// Command main is package enter as a program, /enter in a guest.
package main

import "github.com/nodeless/nodeless/microvm/guest/enter"

func main() { enter.Main() }
