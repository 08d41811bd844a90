package logs

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/awsapi"
)

// cloud is a simulated region soon after 1970, when the lines of a bench are logged.
type cloud struct {
	*region.Region
	answered chan struct{}
}

// newCloud returns a bench whose router reaches the region.
func newCloud(t *testing.T) (*cloud, *bench) {
	t.Helper()
	r, err := region.Open(region.Config{Name: "us-west-2", Clock: clock.NewVirtual(time.Unix(3600, 0))})
	if err != nil {
		t.Fatal(err)
	}
	c := &cloud{r, make(chan struct{}, 1)}
	face := awsapi.New(r, awsapi.Options{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		face.ServeHTTP(w, req)
		select {
		case c.answered <- struct{}{}:
		default:
		}
	}))
	b := newBench(t, 5000)
	t.Cleanup(func() { b.router.Close(); s.Close(); _ = r.Close() })
	b.router.o.AWS = &AWS{
		Endpoint: s.URL, Region: "us-west-2",
		Credentials: aws.Credentials{AccessKeyID: "any", SecretAccessKey: "any"},
	}
	return c, b
}

// messages waits until a group has n events, and returns the first one's stream and all messages.
func (c *cloud) messages(t *testing.T, group string, n int) (stream, all string) {
	t.Helper()
	late := time.After(patience)
	for {
		events, err := c.LogEvents(region.LogQuery{Group: group})
		if err == nil && len(events) >= n {
			var lines []string
			for _, e := range events {
				lines = append(lines, e.Message)
			}
			return events[0].Stream, strings.Join(lines, "\n")
		}
		select {
		case <-c.answered:
		case <-late:
			t.Fatalf("%d events, want %d: %v", len(events), n, err)
		}
	}
}

func cloudWatchOutput(keys ...string) string {
	return "[OUTPUT]\n    Name cloudwatch_logs\n    Match kube.*\n    region us-west-2\n    log_group_name /fargate/pods\n    " +
		strings.Join(keys, "\n    ") + "\n"
}

func TestLinesGoToAStreamOfCloudWatchLogsThatIsCreated(t *testing.T) {
	c, b := newCloud(t)
	b.outputs(cloudWatchOutput("log_stream_prefix fargate-", "auto_create_group true", "log_retention_days 7", "log_key log"))
	b.log.say(2500)
	stream, all := c.messages(t, "/fargate/pods", 2500)
	eachOnce(t, all, 2500)
	if want := "fargate-kube.var.log.containers.web-1_shop_app-"; !strings.HasPrefix(stream, want) {
		t.Errorf("stream %s, want %s…", stream, want)
	}
	if groups := c.LogGroups(); len(groups) != 1 || groups[0].RetentionDays != 7 {
		t.Errorf("groups %+v", groups)
	}
}

func TestAGroupThatIsNotThereIsWaitedFor(t *testing.T) {
	c, b := newCloud(t)
	b.outputs(cloudWatchOutput("log_stream_name all"))
	b.log.say(3)
	b.hears("LogOutputFailed: output cloudwatch_logs (output.conf line 1) to log group /fargate/pods: ResourceNotFoundException")
	if err := c.CreateLogGroup("/fargate/pods", nil); err != nil {
		t.Fatal(err)
	}
	stream, all := c.messages(t, "/fargate/pods", 3)
	if stream != "all" || !strings.Contains(all, `"log":"1970-01-01T00:00:00.000000001Z stdout F line 1"`) {
		t.Errorf("stream %s: %s", stream, all)
	}
	b.hears("LogOutputRecovered")
}
