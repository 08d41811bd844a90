package status

import (
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
)

// ConditionAnnotationsValid says of a NodePool with annotations of ours whether they can be read. While they cannot, nothing of
// the pool is disrupted; launches go on, so that the pool's readiness does not depend on it.
const ConditionAnnotationsValid = "NodelessAnnotationsValid"

const annotationInvalid = "AnnotationInvalid"

// judgeWishes sets that condition, and tells people when it turns false or for another reason.
func (k *Keeper) judgeWishes(pool *karpv1.NodePool) {
	conditions := pool.StatusConditions(status.WithObservedOnly())
	if !translate.HasWishes(pool) {
		_ = conditions.Clear(ConditionAnnotationsValid) // an error only for conditions on which readiness depends
		return
	}
	_, err := translate.ReadWishes(pool)
	if err == nil {
		conditions.SetTrue(ConditionAnnotationsValid)
		return
	}
	message := "nothing of this NodePool is disrupted until this is corrected: " + err.Error()
	if was := conditions.Get(ConditionAnnotationsValid); was == nil || was.IsTrue() || was.Message != message {
		k.o.Recorder.Event(pool, corev1.EventTypeWarning, annotationInvalid, eventMessage(message))
	}
	conditions.SetFalse(ConditionAnnotationsValid, annotationInvalid, message)
}
