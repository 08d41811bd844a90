// Command hello is a web server that answers with the name of its pod, for stories that count requests. The server of
// the example image, from busybox, has a backlog of nine connections; on a busy machine the kernel drops further
// connections before it can accept them.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	go func() {
		<-end // as PID 1, the process would ignore the signal by default
		os.Exit(0)
	}()
	name, err := os.Hostname()
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{
		Addr: ":8080", ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello from", name) }),
	}
	log.Fatal(server.ListenAndServe())
}
