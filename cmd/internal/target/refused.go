package target

import (
	"errors"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodeless/nodeless/explain/capture"
)

// Allow says how an administrator allows verbs on resources, both written as kubectl takes them, by a ClusterRole.
func Allow(role, verbs, resources string) string {
	return fmt.Sprintf("an administrator allows it: kubectl create clusterrole %s --verb=%s --resource=%s && "+
		"kubectl create clusterrolebinding %[1]s --clusterrole=%[1]s --user=NAME", role, verbs, resources)
}

// ExplainRefused adds a remedy if a cluster does not answer, or refuses what allow says how to allow.
func ExplainRefused(host, allow string, err error) error {
	_, unreachable := errors.AsType[*url.Error](err)
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; %s", capture.ExplainUnreachable(host, err), allow)
	case unreachable || apierrors.IsUnauthorized(err):
		return capture.ExplainUnreachable(host, err)
	}
	return err
}
