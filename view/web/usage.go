package web

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Usage is what nodes use, as measured by the cluster's metrics API (metrics.k8s.io).
type Usage struct {
	At     int64       `json:"at"`     // when it was read, in seconds since 1970
	Served bool        `json:"served"` // whether the cluster has that API
	Nodes  []NodeUsage `json:"nodes"`
}

// NodeUsage is what one node uses: CPU in millicores, memory in bytes.
type NodeUsage struct {
	Name   string `json:"name"`
	CPU    int64  `json:"cpu"`
	Memory int64  `json:"memory"`
}

// ReadUsage reads what all nodes use. Its result is read-only.
type ReadUsage func(context.Context) (*Usage, error)

// usage answers with what nodes use.
type usage struct {
	read  ReadUsage // nil = as if the cluster had no metrics API
	lacks error     // why the viewer may not read it; nil = the viewer may
}

func (x usage) answer(r *http.Request) (any, error) {
	switch {
	case x.lacks != nil:
		return nil, x.lacks
	case x.read == nil:
		return &Usage{}, nil
	}
	all, err := x.read(r.Context())
	switch {
	case apierrors.IsForbidden(err):
		return nil, failure{http.StatusForbidden, fmt.Errorf("the page itself may not read what nodes use: %w", err)}
	case err != nil:
		return nil, err
	}
	return escaped(all)
}
