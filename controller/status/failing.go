package status

import (
	"fmt"
	"slices"
	"strings"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
)

// judgeLaunches says on a pool whether its last launch failed: see kube.ConditionLaunchSucceeded.
func (k *Keeper) judgeLaunches(pool *karpv1.NodePool) {
	f, failed := k.o.World.LaunchFailure(pool.Name)
	if !failed {
		// An error only for conditions on which readiness depends.
		_ = pool.StatusConditions(status.WithObservedOnly()).Clear(translate.ConditionLaunchSucceeded)
		return
	}
	translate.SetLaunchFailure(pool, f.Reason, f.Message, f.Until)
}

// judgeClassLaunches says so on a class, with the pools whose launches fail.
func (k *Keeper) judgeClassLaunches(ref cloud.ClassRef, class *ec2v1.EC2NodeClass) {
	conditions := class.StatusConditions(status.WithObservedOnly())
	var pools []string
	reason, message := "", ""
	for _, pool := range k.o.World.NodePools() {
		f, failed := k.o.World.LaunchFailure(pool.Name)
		if failed && f.Class == ref && translate.ClassRef(pool.Spec.Template.Spec.NodeClassRef) == ref {
			pools = append(pools, pool.Name)
			reason, message = f.Reason, f.Message
		}
	}
	if len(pools) == 0 {
		_ = conditions.Clear(translate.ConditionLaunchSucceeded)
		return
	}
	slices.Sort(pools)
	message = fmt.Sprintf("the last launch for NodePool %s failed: %s", strings.Join(pools, ", "), message)
	conditions.SetFalse(translate.ConditionLaunchSucceeded, reason, message)
}
