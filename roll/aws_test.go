package roll

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// at returns the account behind an endpoint, without retries.
func at(endpoint string) *account {
	return newAccount(aws.Config{
		Region: "us-west-2", BaseEndpoint: &endpoint, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	})
}

func TestADetachedInstanceHasItsGroupAndLaunchTime(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`<DescribeInstancesResponse><reservationSet><item><instancesSet><item>` +
			`<instanceId>i-9</instanceId><launchTime>2026-11-26T12:00:00.000Z</launchTime><tagSet><item><key>` +
			v1alpha1.DetachedFrom + `</key><value>web</value></item></tagSet>` +
			`</item></instancesSet></item></reservationSet></DescribeInstancesResponse>`))
	}))
	defer server.Close()
	got, err := at(server.URL).detached(t.Context())
	if want := (detached{"web", begin}); err != nil || len(got) != 1 || got["i-9"] != want {
		t.Errorf("%+v, %v, want i-9: %+v", got, err, want)
	}
}

func TestACallThatFailsIsNamedWithItsResourceAndARemedy(t *testing.T) {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`<ErrorResponse><Error><Code>AccessDenied</Code><Message>jane may not</Message></Error></ErrorResponse>`))
	}))
	defer refuses.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()

	ctx := context.Background()
	refused := at(refuses.URL).terminate(ctx, &Member{Instance: "i-1"})
	_, unreachable := at(gone.URL).groups(ctx)
	for err, words := range map[error][]string{
		refused: {
			"autoscaling:TerminateInstanceInAutoScalingGroup of instance i-1 in us-west-2", "jane may not",
			"allow autoscaling:TerminateInstanceInAutoScalingGroup for the user or role of these credentials",
		},
		unreachable: {"autoscaling:DescribeAutoScalingGroups", "does this machine reach AWS", "--region"},
	} {
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%v does not say %q", err, w)
			}
		}
	}
}
