//go:build !noplane

package migrate

import (
	"bytes"
	"errors"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/smithy-go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An input without objects is said to have none, and is an empty result as JSON.
func TestAnInputWithoutObjectsIsSaidToBeEmpty(t *testing.T) {
	for format, want := range map[string]string{
		"yaml": "", "wide": "", "json": "{\n  \"objects\": [],\n  \"notes\": []\n}\n",
	} {
		var out, errs bytes.Buffer
		c := New()
		c.SetArgs([]string{"-f", "-", "-o", format})
		c.SetIn(strings.NewReader("# nothing\n"))
		c.SetOut(&out)
		c.SetErr(&errs)
		if err := c.ExecuteContext(t.Context()); err != nil || out.String() != want ||
			!strings.Contains(errs.String(), "nothing to migrate was found") {
			t.Errorf("-o %s: %v, stdout %q, stderr %q", format, err, out.String(), errs.String())
		}
	}
}

// A cluster that refuses a step, or does not answer, comes with a remedy; other errors stay as they are.
func TestStepsThatAClusterRefusesHaveARemedy(t *testing.T) {
	reset := &url.Error{Op: "Get", URL: "https://c", Err: syscall.ECONNREFUSED}
	maps := schema.GroupResource{Resource: "configmaps"}
	forbidden := apierrors.NewForbidden(maps, "nodeless-migration", errors.New("no"))
	for _, c := range []struct {
		err  error
		want string
	}{
		{reset, "cluster https://c cannot be reached; does it run"},
		{apierrors.NewUnauthorized("expired"), "cluster https://c does not accept the credentials"},
		{forbidden, "--verb=get,list --resource=configmaps,nodes,pods,"},
		{forbidden, ",nodegroups.nodeless.sh &&"},
	} {
		if err := explained("https://c", allowStatus, c.err); !errors.Is(err, c.err) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	for _, err := range []error{nil, errors.New("nothing to do"), &smithy.OperationError{Err: reset}} {
		if got := explained("https://c", allowStatus, err); got != err { //nolint:errorlint // the very same
			t.Errorf("%v becomes %v", err, got)
		}
	}
}
