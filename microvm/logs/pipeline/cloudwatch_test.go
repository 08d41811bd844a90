package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/microvm/fargate"
)

// cloudWatchOf parses a cloudwatch_logs output with these keys.
func cloudWatchOf(keys ...string) (*Pipeline, error) {
	sections, err := fargate.ParseLogging(map[string]string{
		"output.conf": "[OUTPUT]\n    Name cloudwatch_logs\n    Match *\n    " + strings.Join(keys, "\n    ") + "\n",
	})
	if err != nil {
		return nil, err
	}
	return New(sections, fargate.Abilities{CloudWatch: true})
}

func TestRequestsToCloudWatchLogsKeepItsLimits(t *testing.T) {
	p, err := cloudWatchOf("region us-west-2", "log_group_name g", "log_stream_prefix p-", "log_key log")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 5, 9, 0, 0, 0, time.UTC)
	record := func(tag, text string, age time.Duration) *Record {
		return &Record{Time: at.Add(-age), Tag: tag, Fields: map[string]any{"log": text}}
	}
	large := strings.Repeat("x", maxPutBytes/2)
	deliveries, err := p.Outputs[0].Encode([]*Record{
		record("a", "later", 0),
		record("b", large, 0),
		record("a", "earlier", time.Minute),
		record("a", "yesterday", 25*time.Hour),
		record("b", large, 0),
		{Time: at, Tag: "b", Fields: map[string]any{"other": 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range deliveries {
		body := strings.ReplaceAll(string(d.Call.Body), large, "LARGE")
		got = append(got, fmt.Sprint(d.Of, " ", body))
	}
	want := []string{
		`[3] {"logEvents":[{"timestamp":1793779200000,"message":"yesterday"}],"logGroupName":"g","logStreamName":"p-a"}`,
		`[2 0] {"logEvents":[{"timestamp":1793869140000,"message":"earlier"},{"timestamp":1793869200000,"message":"later"}],` +
			`"logGroupName":"g","logStreamName":"p-a"}`,
		`[1] {"logEvents":[{"timestamp":1793869200000,"message":"LARGE"}],"logGroupName":"g","logStreamName":"p-b"}`,
		`[4] {"logEvents":[{"timestamp":1793869200000,"message":"LARGE"}],"logGroupName":"g","logStreamName":"p-b"}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestWhatIsWrongWithAnOutputToCloudWatchLogs(t *testing.T) {
	for keys, want := range map[string]string{
		"region r|log_stream_name s":                                                    "the key log_group_name is missing",
		"log_group_name g|log_stream_name s":                                            "the key region is missing",
		"region r|log_group_name g":                                                     "one of the keys log_stream_name and log_stream_prefix",
		"region r|log_group_name g|log_stream_name s|log_stream_prefix":                 "",
		"region r|log_group_name g|log_stream_name s|role_arn a":                        "the key role_arn is not supported",
		"region r|log_group_name g|log_stream_name s|endpoint e":                        "the key endpoint is not supported",
		"region r|log_group_name g|log_stream_name s|metric_namespace n":                "the key metric_namespace is not supported",
		"region r|log_group_name g|log_stream_name s|log_group_template t":              "the key log_group_template is not supported",
		"region r|log_group_name g|log_stream_name s|log_group_class INFREQUENT_ACCESS": "log_group_class is none of standard",
	} {
		_, err := cloudWatchOf(strings.Split(keys, "|")...)
		if err == nil && want == "" {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", keys, err, want)
		}
	}
}

func TestRefusedEventsAreCounted(t *testing.T) {
	for body, want := range map[string]string{
		`{"nextSequenceToken":"1"}`:                                                           "0 ",
		`{"rejectedLogEventsInfo":{"tooOldLogEventEndIndex":2}}`:                              "2 too old",
		`{"rejectedLogEventsInfo":{"expiredLogEventEndIndex":3,"tooOldLogEventEndIndex":2}}`:  "3 too old",
		`{"rejectedLogEventsInfo":{"tooNewLogEventStartIndex":7,"tooOldLogEventEndIndex":1}}`: "4 too old, too new",
		`{"rejectedLogEventsInfo":{"tooNewLogEventStartIndex":-7}}`:                           "10 too new",
	} {
		again, rejected, why := putAnswer([]byte(body), 10)
		if got := fmt.Sprint(rejected, " ", why); len(again) > 0 || got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}
