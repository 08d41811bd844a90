package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// overhead says how much of a node the pods of DaemonSets request.
func (q *nodeQuestion) overhead() {
	n := q.n
	var names []string
	var sum model.Resources
	for i := range n.Pods {
		p := &n.Pods[i]
		if !p.Daemon || p.Terminal || p.Shape < 0 || p.Shape >= len(q.s.Shapes) {
			continue
		}
		sum = sum.Plus(q.s.Shapes[p.Shape].Requests)
		if pod := q.c.State.Pod(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}); pod != nil {
			_, name, _ := strings.Cut(translate.ReadPod(pod).DaemonSet, "/")
			names = append(names, cmp.Or(name, pod.Name))
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	var shares []string
	for _, r := range []int{model.CPU, model.Memory} {
		if n.Allocatable[r] > 0 && sum[r] > 0 {
			shares = append(shares, fmt.Sprintf("%s %d%%", q.s.ResourceNames[r], min(100*sum[r]/n.Allocatable[r], 999)))
		}
	}
	text := "DaemonSets " + reason.Some(names, maxDaemons) + " request " + q.amounts(sum)
	if len(shares) > 0 {
		text += "; of the node: " + strings.Join(shares, ", ")
	}
	q.say("overhead", text)
}

// maxDaemons is how many DaemonSets are named.
const maxDaemons = 8
