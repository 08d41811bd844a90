package pipeline

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// State says whether the logs of a profile's pods are routed and, if they are, how. namespace and configMap are aws-observability and its aws-logging,
// nil if they do not exist. What EKS would take and cannot be carried out here disables logging too: a filter that is left out might have kept secrets.
func State(spec *v1alpha1.FargateProfileSpec, namespace *corev1.Namespace, configMap *corev1.ConfigMap, able fargate.Abilities) (fargate.LogState, *Pipeline) {
	state := fargate.LogRouting(spec, namespace, configMap, able)
	if !state.Enabled {
		return state, nil
	}
	sections, err := fargate.ParseLogging(configMap.Data)
	var p *Pipeline
	if err == nil {
		p, err = New(sections)
	}
	if err != nil {
		return fargate.LogState{
			Annotation: "LoggingDisabled: LOGGING_CONFIGMAP_NOT_CARRIED_OUT", Reason: "LoggingDisabled", Message: fmt.Sprintf("Disabled logging for pod: %v", err),
		}, nil
	}
	return state, p
}
