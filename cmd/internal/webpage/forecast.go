//go:build !noplane

package webpage

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nodeless/nodeless/cmd/internal/target"

	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/whatif"
	manifests "github.com/nodeless/nodeless/internal/kit/manifest"
	"github.com/nodeless/nodeless/view/web"
)

// What a question may add, so that it is answered in time by a machine that has other work: 10,000 pods with a node
// each take 10 s and 200 MB on two cores.
const (
	whatIfPods  = 10_000
	whatIfNodes = 2_000
)

// forecast answers what the page asks as nodeless plan does: it reads the cluster anew, and writes nothing.
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
		for i := range changes {
			changes[i].Namespace = namespaceOf(q, p.Cluster)
		}
		out, err := whatif.Run(ctx, whatif.Input{
			Cluster: c, Changes: changes, Policy: p.Policy, Gates: p.Gates, Horizon: 24 * time.Hour, MaxPods: whatIfPods,
			MaxNodes: whatIfNodes,
		})
		if err != nil {
			return nil, err
		}
		for _, gap := range c.Gaps() {
			out.Assumed = append(out.Assumed, "not known: "+gap.Error())
		}
		out.Assumed = append(out.Assumed, "prices: "+c.Prices())
		return struct {
			*whatif.Outcome
			Differs bool `json:"differs"`
		}{out, out.Differs()}, nil
	}
}

func namespaceOf(q web.WhatIf, t *target.Cluster) string {
	switch {
	case q.Namespace != "":
		return q.Namespace
	case t.Namespace != "":
		return t.Namespace
	}
	return "default"
}

func changesOf(q web.WhatIf) ([]whatif.Change, error) {
	var out []whatif.Change
	if strings.TrimSpace(q.Manifests) != "" {
		err := manifests.Each(strings.NewReader(q.Manifests), func(i manifests.Item) error {
			out = append(out, whatif.Change{Item: i, File: "manifest"})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
	}
	for _, name := range q.Deletes {
		out = append(out, whatif.Change{Delete: name})
	}
	for _, text := range q.Scales {
		c, err := whatif.ParseScale(text, "")
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}
