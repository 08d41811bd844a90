// Command attack is what a pod with root in its guest does to all that the guest shares with its host. "serve" is its
// victim: HTTP on port 8080, and a line of output for each datagram that comes to port 9.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: attack serve | packets SECONDS VICTIM PEER HOST DNS | frames SECONDS | registers SECONDS")
	}
	if os.Args[1] == "serve" {
		go datagrams()
		log.Fatal(http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "unharmed")
		})))
	}
	seconds, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	until := time.Now().Add(time.Duration(seconds) * time.Second)
	switch os.Args[1] {
	case "packets":
		err = packets(until, os.Args[3:])
	case "frames":
		err = frames(until)
	case "registers":
		err = registers(until)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func datagrams() {
	l, err := net.ListenUDP("udp4", &net.UDPAddr{Port: 9})
	if err != nil {
		log.Fatal(err)
	}
	said := map[string]bool{}
	for b := make([]byte, 2048); ; {
		n, from, err := l.ReadFromUDPAddrPort(b)
		if line := fmt.Sprintf("%q from %s", b[:n], from.Addr()); err == nil && !said[line] {
			said[line] = true
			fmt.Println(line)
		}
	}
}
