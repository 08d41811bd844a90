package logs

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/logs/pipeline"
)

func has(text string) func(string) bool {
	return func(all string) bool { return strings.Contains(all, text) }
}

// numbers returns the numbers of the lines, in the order in which they were sent.
func numbers(all string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`line (\d+)`).FindAllStringSubmatch(all, -1) {
		out = append(out, m[1])
	}
	return out
}

// eachOnce checks that n lines were sent once each, in order.
func eachOnce(t *testing.T, all string, n int) {
	t.Helper()
	got := numbers(all)
	for i, number := range got {
		if number != fmt.Sprint(i+1) {
			t.Fatalf("line %d is number %s", i+1, number)
		}
	}
	if len(got) != n {
		t.Errorf("%d lines, want %d", len(got), n)
	}
}

func TestABurstOfAThousandLinesArrivesInOrder(t *testing.T) {
	b, c := newBench(t, 5000), newCollector(t)
	b.outputs(c.output("http", "Format json_lines", "URI /in?key=1", "HTTP_User me", "HTTP_Passwd s3cret",
		"Header X-Team shop", "json_date_format epoch"))
	b.log.say(1000)
	b.log.say(2345)
	c.until(t, "the last line", has("line 3345"))
	eachOnce(t, c.all(), 3345)
	if user, password, ok := (&http.Request{Header: c.heads[0]}).BasicAuth(); !ok || user != "me" ||
		password != "s3cret" || c.heads[0].Get("X-Team") != "shop" || c.paths[0] != "/in?key=1" {
		t.Errorf("%v %v", c.heads[0], c.paths)
	}
	if first, _, _ := strings.Cut(c.all(),
		"\n"); first != `{"date":0,"log":"1970-01-01T00:00:00.000000001Z stdout F line 1"}` {
		t.Errorf("first: %s", first)
	}
}

func TestLokiGetsStreamsByTheirLabels(t *testing.T) {
	b, c := newBench(t, 10), newCollector(t)
	b.configure(map[string]string{
		"filters.conf": "[FILTER]\n    Name kubernetes\n    Match *\n",
		"output.conf": c.output("loki", "labels job=fargate, ns=$kubernetes['namespace_name']",
			"label_keys $kubernetes['labels']['app']", "remove_keys kubernetes",
			"drop_single_key raw", "tenant_id t1"),
	})
	b.log.say(1)
	c.until(t, "the push", has("line 1"))
	want := `{"streams":[{"stream":{"job":"fargate","kubernetes_labels_app":"web","ns":"shop"},"values":[["1","1970-01-01T00:00:00.000000001Z stdout F line 1"]]}]}`
	if c.all() != want || c.paths[0] != "/loki/api/v1/push" || c.heads[0].Get("X-Scope-OrgID") != "t1" {
		t.Errorf("%s %v\ngot  %s\nwant %s", c.paths[0], c.heads[0], c.all(), want)
	}
}

func TestElasticsearchGetsDocumentsAndThoseItWasTooBusyForAgain(t *testing.T) {
	b, c := newBench(t, 10), newCollector(t)
	c.answers(200, `{"errors":true,"items":[{"create":{"status":201}},{"create":{"status":429,"error":{"type":"es_rejected_execution_exception"}}},{"create":{"status":400,"error":{"type":"mapper_parsing_exception"}}}]}`)
	b.log.say(3)
	b.outputs(c.output("es", "Logstash_Format On", "Logstash_Prefix pods", "Suppress_Type_Name On"))
	c.until(t, "the first try", has("line 3"))
	c.answers(200, `{"errors":false,"items":[]}`)
	b.hears("LogOutputRecovered")
	want := `{"create":{"_index":"pods-1970.01.01"}}` + "\n" +
		`{"@timestamp":"1970-01-01T00:00:00.000Z","log":"1970-01-01T00:00:00.000000002Z stdout F line 2"}` + "\n"
	if last := c.bodies[len(c.bodies)-1]; last != want || c.paths[0] != "/_bulk" {
		t.Errorf("%s got  %s\nwant %s", c.paths[0], last, want)
	}
	b.hears("LogLinesLost: 1 lines")
	if !strings.Contains(b.heard(), "1 of 3 records were not taken: 429 es_rejected_execution_exception") {
		t.Errorf("told: %s", b.heard())
	}
}

func TestFilesStayBelowTheRoutersDirectory(t *testing.T) {
	b, c := newBench(t, 10), newCollector(t)
	b.log.say(2)
	outside := t.TempDir()
	if err := os.MkdirAll(filepath.Join(b.dir, "files"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(b.dir, "files", "link")); err != nil {
		t.Fatal(err)
	}
	b.outputs("[OUTPUT]\n    Name file\n    Match *\n    Path ../../../var/log\n    File pods.log\n    Format plain\n[OUTPUT]\n    Name stdout\n    Match *\n[OUTPUT]\n    Name file\n    Match *\n    Path /link\n    File x\n",
		c.output("http", "Format json"))
	b.hears("LogOutputFailed: output file (output.conf line 10)") // the symbolic link is not followed
	c.until(t, "the other output", has("line 2"))
	b.router.Close()
	for name, want := range map[string]string{
		"files/var/log/pods.log": `{"log":"1970-01-01T00:00:00.000000001Z stdout F line 1"}` + "\n" +
			`{"log":"1970-01-01T00:00:00.000000002Z stdout F line 2"}` + "\n",
		"stdout.log": "[0] " + source("app").Tag() +
			`: [[0.000000001, {}], {"log":"1970-01-01T00:00:00.000000001Z stdout F line 1"}]` + "\n" +
			"[1] " + source("app").Tag() +
			`: [[0.000000002, {}], {"log":"1970-01-01T00:00:00.000000002Z stdout F line 2"}]` + "\n",
	} {
		if got, err := os.ReadFile(filepath.Join(b.dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, got, want)
		}
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("written outside: %v", left)
	}
}

// An unavailable output holds up no other: its lines wait where they are stored. Lines that are dropped there are
// counted, and no others are lost.
func TestAnOutputThatIsAway(t *testing.T) {
	b, away, there := newBench(t, 1500), newCollector(t), newCollector(t)
	away.answers(503, "s3cret")
	b.outputs(away.output("http", "Format json_lines", "URI /?token=s3cret", "HTTP_User u", "HTTP_Passwd s3cret"),
		there.output("http", "Format json_lines"))
	b.log.say(1)
	away.until(t, "a try", has("line 1"))
	b.hears("LogOutputFailed: output http (output.conf line 1) to " + away.URL +
		": 503 Service Unavailable; it is tried again")
	b.log.say(999)
	there.until(t, "the other output", has("line 1000"))
	for n := 2000; n <= 3000; n += 1000 { // no more at once than are stored
		b.log.say(1000)
		there.until(t, "the other output", has(fmt.Sprint("line ", n)))
	}
	eachOnce(t, there.all(), 3000)
	away.answers(200, "")
	away.until(t, "the newest line", has("line 3000"))
	b.hears("LogOutputRecovered: output http (output.conf line 1) accepts lines again")
	b.hears("LogLinesLost: 1499 lines") // 3000 were logged, 1500 are stored, and the first was in transit
	if n := len(slicesUnique(numbers(away.all()))); n != 1501 {
		t.Errorf("%d lines got there, want 1501", n)
	}
	if strings.Contains(b.heard(), "s3cret") || strings.Count(b.heard(), "LogOutputFailed") != 1 {
		t.Errorf("told: %s", b.heard())
	}
}

func slicesUnique(all []string) map[string]bool {
	out := map[string]bool{}
	for _, s := range all {
		out[s] = true
	}
	return out
}

func TestRecordsThatAreRefusedAreNotSentForEver(t *testing.T) {
	b, c := newBench(t, 10), newCollector(t)
	c.answers(400, "")
	b.outputs(c.output("loki"))
	b.log.say(3)
	b.hears("LogLinesLost: 3 lines did not reach output loki (output.conf line 1)")
	c.answers(204, "")
	b.log.say(1)
	c.until(t, "the next line", has("line 4"))
}

// When one delivery of a batch fails, the records of those before it are not delivered again.
func TestOnlyWhatFailedIsDeliveredAgain(t *testing.T) {
	b := newBench(t, 10)
	down := source("down").Tag()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Tag") == down {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	if err := os.MkdirAll(filepath.Join(b.dir, "files", down), 0o700); err != nil { // where its file would be
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	sections, err := fargate.ParseLogging(map[string]string{
		"output.conf": "[OUTPUT]\n    Name file\n    Match *\n[OUTPUT]\n    Name http\n    Match *\n    Format json\n" +
			"    Header_Tag X-Tag\n    Host " + host + "\n    Port " + port + "\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := pipeline.New(sections, fargate.Abilities{})
	if err != nil {
		t.Fatal(err)
	}
	var records, failed []*pipeline.Record
	for _, container := range []string{"app", "down", "app", "down"} {
		r := p.Line(source(container), time.Unix(0, 0), "a line of "+container)
		if records = append(records, r); container == "down" {
			failed = append(failed, r)
		}
	}
	for _, out := range p.Outputs {
		again, _, err := b.router.deliver(t.Context(), out, records)
		if err == nil || !slices.Equal(again, failed) {
			t.Errorf("%s: %d records are delivered again, want those of one container; %v", out, len(again), err)
		}
	}
}

func TestAnotherProcessGoesOnWhereTheLastOneWas(t *testing.T) {
	b, c := newBench(t, 100), newCollector(t)
	section := c.output("http", "Format json_lines")
	b.outputs(section)
	b.log.say(10)
	c.until(t, "the last line", has("line 10"))
	b.delivered(10)
	b.router.Close()
	b.log.say(5)
	b.begin()
	b.outputs(section)
	c.until(t, "the last line", has("line 15"))
	eachOnce(t, c.all(), 15)
}

func TestARunningPodFollowsTheConfigMap(t *testing.T) {
	b, first, second := newBench(t, 100), newCollector(t), newCollector(t)
	b.log.say(1)
	b.outputs(first.output("http", "Format json_lines"))
	first.until(t, "the first line", has("line 1"))
	b.delivered(1)
	b.outputs(second.output("http", "Format json_lines")) // a changed output continues where it was
	b.log.say(1)
	second.until(t, "the second line", has("line 2"))
	b.delivered(2)
	// A new output starts from the beginning.
	b.outputs(second.output("http", "Format json_lines"), first.output("http", "Format json_lines", "Retry_Limit 3"))
	first.until(t, "all lines", has("line 2"))
	b.delivered(2)
	if got := numbers(second.all()); len(got) != 1 || got[0] != "2" {
		t.Errorf("the changed output got lines %v, want 2 alone", got)
	}
	if got := numbers(first.all()); len(got) != 3 {
		t.Errorf("the output that was new twice got lines %v, want 1, 1, 2", got)
	}
	b.hears("LoggingEnabled: The log router follows the changed ConfigMap aws-logging")
	b.router.Configure(fargate.LogState{Reason: "LoggingDisabled", Message: "no ConfigMap"}, nil)
	b.hears("LoggingDisabled: no ConfigMap")
	b.log.say(1)
	b.outputs(second.output("http", "Format json_lines"), first.output("http", "Format json_lines", "Retry_Limit 3"))
	second.until(t, "what was logged meanwhile", has("line 3"))
	if got := numbers(second.all()); len(got) != 2 {
		t.Errorf("got lines %v, want 2, 3", got)
	}
}

func TestAPodThatEndsHasItsLastLinesSent(t *testing.T) {
	b, c := newBench(t, 100), newCollector(t)
	b.outputs(c.output("http", "Format json_lines"))
	b.log.say(50)
	b.route.End(t.Context())
	eachOnce(t, c.all(), 50)
	if left, _ := filepath.Glob(filepath.Join(b.dir, positionsDir, "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A pod that gets a new microVM has the same stored log.
func TestANewMicroVMGoesOnWhereTheLastOneWas(t *testing.T) {
	b, c := newBench(t, 100), newCollector(t)
	b.outputs(c.output("http", "Format json_lines"))
	b.log.say(10)
	b.route.Pause(t.Context())
	eachOnce(t, c.all(), 10)
	b.log.say(5)
	b.route = b.router.Add(b.route.pod)
	c.until(t, "the last line", has("line 15"))
	b.route.End(t.Context())
	eachOnce(t, c.all(), 15)
	if left, _ := filepath.Glob(filepath.Join(b.dir, positionsDir, "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// What could not be sent before a new microVM is sent then, and is not told to be lost.
func TestNoLineIsLostBetweenMicroVMs(t *testing.T) {
	b, c := newBench(t, 100), newCollector(t)
	c.answers(500, "")
	b.outputs(c.output("http", "Format json_lines"))
	b.log.say(50)
	b.hears("LogOutputFailed")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	b.route.Pause(over)
	c.answers(200, "")
	b.route = b.router.Add(b.route.pod)
	c.until(t, "the last line", has("line 50"))
	if n := len(slicesUnique(numbers(c.all()))); n != 50 || strings.Contains(b.heard(), "LogLinesLost") {
		t.Errorf("%d lines got there, want 50; told: %s", n, b.heard())
	}
}

func TestAPodThatEndsDoesNotWaitForAnOutputThatIsAway(t *testing.T) {
	b, c := newBench(t, 100), newCollector(t)
	c.answers(500, "")
	b.outputs(c.output("http", "Format json_lines"))
	b.log.say(50)
	b.hears("LogOutputFailed")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	b.route.End(over)
	b.hears("LogLinesLost: 50 lines")
}

func TestTheReasonOfAFailedRequestIsTheSameAtEachTry(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 4711}
	err := &url.Error{Op: "Post", URL: "http://u:s3cret@away/", Err: &net.OpError{
		Op: "readfrom", Source: at, Err: &net.OpError{Op: "write", Source: at, Err: os.NewSyscallError("write", syscall.EPIPE)},
	}}
	if got := cause(fmt.Errorf("send: %w", err)).Error(); got != "write: broken pipe" {
		t.Errorf("the reason is %q", got)
	}
}
