// Package doctor checks whether a cluster is ready for the controller. Each check returns a finding, with a remedy if
// something is wrong. Checks change nothing: they only read, and review permissions.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Status is the outcome of a check.
type Status string

// The outcomes. Unknown means that the check could not run, which is not a failure.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Failed  Status = "failed"
	Unknown Status = "unknown"
)

// Finding is the result of a check.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Says   string `json:"says"`
	Remedy string `json:"remedy,omitempty"`
}

// Cluster is the cluster to check.
type Cluster struct {
	Client client.Client // reads; its scheme is Scheme()
	Asked  client.Client // has the permissions to check; its scheme is Scheme()
	// Version is the API server's, such as v1.36.2.
	Version string
	// Ahead is how far the clock of the API server is ahead of this machine's.
	Ahead time.Duration
	// Needed are the roles that the controller needs (package rbac).
	Needed    []client.Object
	Namespace string // of the controller
	AWS       *AWS   // nil skips the checks of AWS
}

// Examine runs all checks.
func Examine(ctx context.Context, c Cluster) []Finding {
	out := []Finding{c.kubernetes(ctx), c.permissions(ctx), c.webhooks(ctx), c.dns(ctx)}
	classes, err := c.classes(ctx)
	switch {
	case err != nil:
		out = append(out, unknown("node classes", err))
	case len(classes) == 0:
		out = append(out, c.noClasses(ctx), metadata(classes))
	default:
		out = append(out, nodeClasses(classes), metadata(classes))
	}
	if c.AWS == nil {
		return append(out, clocks("the API server's", c.Ahead))
	}
	return append(out, c.AWS.examine(ctx, c.Ahead, classes)...)
}

func fine(check, format string, args ...any) Finding {
	return Finding{Check: check, Status: OK, Says: fmt.Sprintf(format, args...)}
}

func failed(check, remedy, format string, args ...any) Finding {
	return Finding{Check: check, Status: Failed, Says: fmt.Sprintf(format, args...), Remedy: remedy}
}

func unknown(check string, err error) Finding {
	remedy := "repair what it names, and ask again"
	switch _, fromAWS := errors.AsType[smithy.APIError](err); {
	case fromAWS:
		remedy = "allow it for the user or role of these AWS credentials, or leave out --aws"
	case apierrors.IsForbidden(err):
		remedy = "ask with credentials that may do this, such as an administrator's"
	case apierrors.IsUnauthorized(err):
		remedy = "log in again, or name another kubeconfig or --context"
	case meta.IsNoMatchError(err):
		remedy = installCRDs
	}
	return Finding{Check: check, Status: Unknown, Says: err.Error(), Remedy: remedy}
}

// some lists the first few items and counts the rest.
func some(all []string) string {
	const most = 4
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// maxAhead is the tolerated difference between clocks: AWS rejects signatures that are 15 minutes off, and leases,
// tokens and ages are compared in seconds and minutes.
const maxAhead = time.Minute

func clocks(of string, ahead time.Duration) Finding {
	if ahead.Abs() > maxAhead {
		return failed("clocks", "synchronize this machine's clock (chrony, systemd-timesyncd)",
			"%s clock is %s ahead of this machine's", of, ahead.Round(time.Second))
	}
	return fine("clocks", "%s clock agrees with this machine's", of)
}
