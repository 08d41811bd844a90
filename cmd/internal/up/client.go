package up

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newClient returns a client for the kinds that this command reads and writes; karpenter.sh/v1 is in client-go's
// scheme because its API package registers it there.
func newClient(cfg *rest.Config) (client.Client, error) {
	return client.New(cfg, client.Options{Scheme: scheme.Scheme})
}

// regionSummary is the region's own summary, from its administrative API.
type regionSummary struct {
	Instances      int     `json:"instances"`
	DollarsPerHour float64 `json:"dollarsPerHour"`
}

// countRegion adds the region's instances and their price, which the region reports to holders of its token.
func (n *counts) countRegion(ctx context.Context, endpoint, token string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/_nodeless/summary", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("summary of the region: %s", resp.Status)
	}
	var s regionSummary
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		return fmt.Errorf("summary of the region: %w", err)
	}
	n.Instances, n.DollarsPerHour = s.Instances, s.DollarsPerHour
	return nil
}
