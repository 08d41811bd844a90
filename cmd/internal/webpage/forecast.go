//go:build !noplane

package webpage

import (
	"cmp"
	"context"
	"strings"

	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/whatif"
	"github.com/nodeless/nodeless/view/web"
)

// Limits on what a question may add, so that a machine that has other work answers it in time: 10,000 pods with a
// node each take 10 s and 200 MB on two cores.
const (
	whatIfPods  = 10_000
	whatIfNodes = 2_000
)

// forecast answers the page's questions as nodeless plan does: it reads the cluster again, and writes nothing.
func (p *Page) forecast() func(context.Context, web.WhatIf) (any, error) {
	return func(ctx context.Context, q web.WhatIf) (any, error) {
		changes, err := changesOf(q)
		if err != nil {
			return nil, err
		}
		options := p.Cluster.Options
		options.Partial, options.Keep = true, true
		c, err := capture.Read(ctx, p.Cluster.REST, options)
		if err != nil {
			return nil, err
		}
		out, err := whatif.Run(ctx, whatif.Input{
			Cluster: c, Changes: changes, Policy: p.Policy, Gates: p.Gates, MaxPods: whatIfPods,
			MaxNodes:  whatIfNodes,
			Namespace: cmp.Or(q.Namespace, p.Cluster.Namespace, "default"),
		})
		if err != nil {
			return nil, err
		}
		return struct {
			*whatif.Outcome
			Differs bool `json:"differs"`
		}{out, out.Differs()}, nil
	}
}

func changesOf(q web.WhatIf) ([]whatif.Change, error) {
	var out []whatif.Change
	if strings.TrimSpace(q.Manifests) != "" {
		var err error
		if out, err = whatif.Manifests(strings.NewReader(q.Manifests), "manifest"); err != nil {
			return nil, err
		}
	}
	edits, err := whatif.Edits(q.Deletes, q.Scales)
	return append(out, edits...), err
}
