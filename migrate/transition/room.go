package transition

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Forecast says what happens to the pods of nodes once these are gone, as the cluster is now.
type Forecast struct {
	Launches int        // how many nodes the NodePools launch for them, negative if unknown
	Unplaced []Unplaced // those that get no node
}

// Unplaced is a pod that gets no node.
type Unplaced struct {
	Pod string // namespace/name
	Why string
}

// checkRoom forecasts the cluster without the nodes. It returns an error if pods would get no node, or if that is not
// known, unless Force is set.
func (t *Transition) checkRoom(ctx context.Context, nodes []corev1.Node) (*Forecast, error) {
	f, err := t.forecast(ctx, nodes)
	if err != nil {
		return &Forecast{Launches: -1}, t.unlessForced(err)
	}
	var bad []string
	for _, u := range f.Unplaced {
		bad = append(bad, fmt.Sprintf("%s: %s", u.Pod, u.Why))
	}
	if len(bad) == 0 {
		return f, nil
	}
	return f, t.unlessForced(fmt.Errorf("pods would get no node: %s; change the NodePools or the pods, "+
		"or evict them nevertheless with --force", few(bad)))
}

// forecast calls Forecast for nodes.
func (t *Transition) forecast(ctx context.Context, nodes []corev1.Node) (*Forecast, error) {
	var names []string
	for i := range nodes {
		names = append(names, nodes[i].Name)
	}
	f, err := t.Forecast(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("it is not known whether the pods would get nodes: %w", err)
	}
	return f, nil
}

// unlessForced returns an error that stops a step. If Force is set, it only reports the error.
func (t *Transition) unlessForced(err error) error {
	if err == nil || !t.Force {
		return err
	}
	t.Say("%v (--force)", err)
	return nil
}

// few joins the first texts of a list, and says how many more there are.
func few(list []string) string {
	const most = 10
	if len(list) <= most {
		return strings.Join(list, "; ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], "; "), len(list)-most)
}

// previewRoom reports the pods that would get no node without the groups. Those of the controller are an error: it
// never runs on nodes that it launches, and once its last pod is evicted, nothing is launched any more.
func (t *Transition) previewRoom(ctx context.Context, s *State) error {
	nodes, err := t.groupNodes(ctx, s)
	if err != nil {
		return err
	}
	f, err := t.forecast(ctx, nodes)
	if err != nil {
		t.Say("%v", err)
		return nil
	}
	if len(f.Unplaced) == 0 {
		return nil
	}
	controller, err := leaderOf(t).pods(ctx)
	if err != nil {
		return err
	}
	var stuck, bad []string
	for _, u := range f.Unplaced {
		text := fmt.Sprintf("%s: %s", u.Pod, u.Why)
		if controller[u.Pod] {
			stuck = append(stuck, text)
		} else {
			bad = append(bad, text)
		}
	}
	if len(bad) > 0 {
		t.Say("pods would get no node, so that the step %q will stop: %s", Drained, few(bad))
	}
	if len(stuck) == 0 {
		return nil
	}
	return t.unlessForced(errors.New("the controller could run on no other node: " + few(stuck) + "; leave a group with " +
		"room for it out of the migration (nodeless migrate next --keep GROUP), or move it to a Fargate profile or " +
		"another group that stays (nodeSelector, affinity and tolerations of its chart)"))
}
