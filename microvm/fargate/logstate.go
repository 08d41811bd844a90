package fargate

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// LogState is whether the logs of a pod are routed, and why not.
type LogState struct {
	Annotation string // value of the annotation Logging
	Enabled    bool
	Reason     string // of the event: LoggingEnabled or LoggingDisabled; "" = there is nothing to tell
	Message    string
}

// DisabledByProfile is why the logs of pods of a profile that does not want it are not routed.
const DisabledByProfile = "DISABLED_BY_PROFILE"

// LogRouting says whether the logs of a profile's new pod are routed. namespace and configMap are aws-observability and its
// aws-logging, nil if they do not exist.
func LogRouting(spec *v1alpha1.FargateProfileSpec, namespace *corev1.Namespace, configMap *corev1.ConfigMap, able Abilities) LogState {
	disabled := func(code, message string) LogState {
		return LogState{Annotation: "LoggingDisabled: " + code, Reason: "LoggingDisabled", Message: message}
	}
	if spec.Logging != nil && spec.Logging.Router == v1alpha1.LogRouterDisabled {
		return LogState{Annotation: "LoggingDisabled: " + DisabledByProfile}
	}
	if namespace == nil || namespace.Labels[LoggingLabel] != "enabled" || configMap == nil {
		return disabled("LOGGING_CONFIGMAP_NOT_FOUND", `Disabled logging because aws-logging configmap was not found. configmap "aws-logging" not found`)
	}
	sections, err := ParseLogging(configMap.Data)
	if err != nil {
		return disabled("LOGGING_CONFIGMAP_INVALID", fmt.Sprintf("Disabled logging for pod due to invalid configmap. %v. Please fix the logging configmap", err))
	}
	if !able.LogRouter {
		return disabled("LOG_ROUTER_NOT_AVAILABLE", "Disabled logging for pod: the hosts of microVMs here have no log router; kubectl logs works")
	}
	elsewhere, here := []string{}, 0
	for i := range sections {
		if sections[i].NeedsAWS() {
			elsewhere = append(elsewhere, sections[i].Value("name"))
		} else if sections[i].Kind == "OUTPUT" {
			here++
		}
	}
	enabled := LogState{Annotation: "LoggingEnabled", Enabled: true, Reason: "LoggingEnabled", Message: "Successfully enabled logging for pod"}
	switch names := strings.Join(elsewhere, ", "); {
	case here == 0:
		return disabled("OUTPUT_NEEDS_AWS", fmt.Sprintf("Disabled logging for pod: output plugin %s needs AWS, which is not there; use file, stdout, http, loki, es or opensearch", names))
	case names != "":
		enabled.Message += fmt.Sprintf(", but nothing goes to output plugin %s, which needs AWS", names)
	}
	return enabled
}
