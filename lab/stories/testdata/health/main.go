// Command health is a gRPC server with the standard health service: the services "" and "good" serve, "bad" does not.
// Its argument is where it listens.
package main

import (
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	state := health.NewServer()
	state.SetServingStatus("good", grpc_health_v1.HealthCheckResponse_SERVING)
	state.SetServingStatus("bad", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	s := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(s, state)
	log.Fatal(s.Serve(l))
}
