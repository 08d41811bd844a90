package status

import (
	"strings"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
)

const unknownKeys = "UnknownRequirementKeys"

// judgeKeys sets the condition on a pool's keys, and tells people when it turns false or for another reason.
func (k *Keeper) judgeKeys(pool *karpv1.NodePool) {
	conditions := pool.StatusConditions(status.WithObservedOnly())
	unknown := translate.UnknownKeys(pool)
	if len(unknown) == 0 {
		_ = conditions.Clear(translate.ConditionRequirementsKnown) // an error only for conditions on which readiness depends
		return
	}
	words := make([]string, len(unknown))
	for i, u := range unknown {
		words[i] = u.String()
	}
	message := strings.Join(words, "; ")
	if was := conditions.Get(translate.ConditionRequirementsKnown); was == nil || was.Message != message {
		k.o.Recorder.Event(pool, corev1.EventTypeWarning, unknownKeys, eventMessage(message))
	}
	conditions.SetFalse(translate.ConditionRequirementsKnown, unknownKeys, message)
}

// eventMessage is as much of a message as an event may hold; the condition may be longer.
func eventMessage(message string) string {
	const most = 1000 // bytes
	return strings.ToValidUTF8(message[:min(len(message), most)], "")
}
