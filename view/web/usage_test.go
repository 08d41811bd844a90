package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/access"
	"github.com/nodeless/nodeless/view/viewtest"
)

// measures returns the usage of a made-up cluster's nodes: each uses 10 thousandths of a CPU more than the one
// before; that of the first is unknown.
func measures(context.Context) (*Usage, error) {
	out := &Usage{At: 1, Served: true, Nodes: []NodeUsage{{Name: hostile}}}
	for i := 1; i < 60; i++ {
		out.Nodes = append(out.Nodes, NodeUsage{viewtest.NodeName(i), 10 * int64(i), int64(i) << 26})
	}
	return out, nil
}

func TestUsageIsForThoseWhoMayListIt(t *testing.T) {
	ask := func(x usage) (string, error) {
		v, err := x.answer((&http.Request{}).WithContext(t.Context()))
		return fmt.Sprint(v), err
	}
	all, err := ask(usage{read: measures})
	if err != nil || !strings.Contains(all, "cpu:590") || strings.Contains(all, "\x1b") {
		t.Errorf("%v: %s", err, all)
	}
	if none, err := ask(usage{}); err != nil || none != fmt.Sprint(&Usage{}) {
		t.Errorf("where nobody measures: %v: %s", err, none)
	}
	s := open(t, 1, 1)
	s.life = t.Context()
	some := view.Allow{Nodes: true}
	may := s.seatFor(&access.Rights{Allow: some, Usage: true, Lacks: []string{"pods"}})
	defer may.stop()
	mayNot := s.seatFor(&access.Rights{Allow: some, Lacks: []string{"pods"}})
	defer mayNot.stop()
	if may.server.noUsage != nil || mayNot.server.noUsage == nil {
		t.Errorf("who may list nodes.metrics.k8s.io lacks %v, who may not %v", may.server.noUsage, mayNot.server.noUsage)
	}
	for _, x := range []struct {
		usage
		status int
		says   string
	}{
		{usage{measures, mayNot.server.noUsage}, http.StatusForbidden, "may list nodes.metrics.k8s.io"},
		{
			usage{read: func(context.Context) (*Usage, error) {
				return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no"))
			}},
			http.StatusForbidden,
			"the page itself may not read what nodes use",
		},
		{usage{read: func(context.Context) (*Usage, error) { return nil, errors.New("gone") }}, 500, "gone"},
	} {
		_, err := ask(x.usage)
		if err == nil || statusOf(err) != x.status || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%v, want status %d and %q", err, x.status, x.says)
		}
	}
}
