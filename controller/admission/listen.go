package admission

import (
	"context"
	"fmt"
	"net"
)

// Listen opens the webhook's port at an address. API servers reach it at the URL, or at the address itself if that
// is "".
func Listen(ctx context.Context, address, url string) (Place, net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return Place{}, nil, fmt.Errorf("webhook of FargateProfiles: %w", err)
	}
	if url == "" {
		url = "https://" + listener.Addr().String()
	}
	at, err := ParsePlace(url)
	if err != nil {
		_ = listener.Close()
	}
	return at, listener, err
}
