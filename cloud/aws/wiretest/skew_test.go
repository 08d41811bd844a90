package wiretest

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
)

// skewed sends requests with the date that a wrong clock would have written.
type skewed struct{ off time.Duration }

func (s skewed) Do(r *http.Request) (*http.Response, error) {
	const form, day = "20060102T150405Z", "20060102"
	at, err := time.Parse(form, r.Header.Get("X-Amz-Date"))
	if err != nil {
		return nil, err
	}
	then := at.Add(s.off)
	r.Header.Set("X-Amz-Date", then.Format(form))
	r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "/"+at.Format(day)+"/",
		"/"+then.Format(day)+"/", 1))
	return http.DefaultClient.Do(r)
}

// If the controller's clock is wrong and the SDK cannot correct it, each service refuses its calls with its own code.
// The conditions and errors name the clock. The calls count as denied, so that no caller repeats them at once.
func TestAWrongClockIsNamed(t *testing.T) {
	p := newOffice(t, demoPolicy(t))
	for _, off := range []time.Duration{-20 * time.Minute, 20 * time.Minute} {
		provider := p.connectWith(t, func(o *aws.Options) {
			o.AWS.Credentials, o.AWS.HTTPClient, o.InterruptionQueue = p.role, skewed{off}, "demo"
			o.AWS.RetryMaxAttempts = 1
		})
		class := class("default")
		if err := provider.Resolve(t.Context(), class); err != nil {
			t.Errorf("%s: %v", off, err)
		}
		for _, condition := range []string{"SubnetsReady", "SecurityGroupsReady", "AMIsReady", "InstanceProfileReady"} {
			c := class.StatusConditions().Get(condition)
			if !c.IsFalse() || c.Reason != "Unauthorized" || !strings.Contains(c.Message, "correct the clock") {
				t.Errorf("%s: %s is %s %s: %s", off, condition, c.Status, c.Reason, c.Message)
			}
		}
		_, launch := provider.Launch(t.Context(), requestFor("claim", "general"))
		_, notices := provider.Interruptions(t.Context())
		for _, err := range []error{launch, notices} {
			if !errors.Is(err, cloud.ErrUnauthorized) || !strings.Contains(err.Error(), "correct the clock") {
				t.Errorf("%s: %v", off, err)
			}
		}
	}
}
