package main

import (
	"context"
	"fmt"
	"net"

	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/admission"
)

// listenForPods opens the webhook of FargateProfiles at an address. API servers reach it at the URL; "" = at the
// address itself.
func listenForPods(ctx context.Context, address, url string) (*controller.Fargate, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("webhook of FargateProfiles: %w", err)
	}
	if url == "" {
		url = "https://" + listener.Addr().String()
	}
	at, err := admission.ParsePlace(url)
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	return &controller.Fargate{At: at, Listener: listener}, nil
}
