package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/internal/kube"
)

// ConditionLaunchSucceeded is False on a NodePool whose last launch failed, and not for want of capacity, and on its node class; it is absent
// otherwise. Readiness does not depend on it: the pool launches again when its back-off ends.
const ConditionLaunchSucceeded = "LaunchSucceeded"

// judgeLaunches sets that condition of a pool.
func (k *Keeper) judgeLaunches(pool *karpv1.NodePool) {
	conditions := pool.StatusConditions(status.WithObservedOnly())
	f, failed := k.o.World.LaunchFailure(pool.Name)
	if !failed {
		_ = conditions.Clear(ConditionLaunchSucceeded) // an error only for conditions on which readiness depends
		return
	}
	conditions.SetFalse(ConditionLaunchSucceeded, f.Reason, fmt.Sprintf("%s; the NodePool launches again at %s", f.Message, f.Until.UTC().Format(time.RFC3339)))
}

// judgeClassLaunches sets it on a class: it names the pools whose launches fail.
func (k *Keeper) judgeClassLaunches(ref cloud.ClassRef, class *ec2v1.EC2NodeClass) {
	conditions := class.StatusConditions(status.WithObservedOnly())
	var pools []string
	reason, message := "", ""
	for _, pool := range k.o.World.NodePools() {
		f, failed := k.o.World.LaunchFailure(pool.Name)
		if failed && f.Class == ref && kube.ClassRef(pool.Spec.Template.Spec.NodeClassRef) == ref {
			pools = append(pools, pool.Name)
			reason, message = f.Reason, f.Message
		}
	}
	if len(pools) == 0 {
		_ = conditions.Clear(ConditionLaunchSucceeded)
		return
	}
	slices.Sort(pools)
	conditions.SetFalse(ConditionLaunchSucceeded, reason, fmt.Sprintf("the last launch for NodePool %s failed: %s", strings.Join(pools, ", "), message))
}
