// Command agent is the first process of a microVM: see package guest.
package main

import "github.com/nodeless/nodeless/microvm/guest"

func main() { guest.Main() }
