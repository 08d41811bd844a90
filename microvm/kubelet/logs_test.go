package kubelet

import (
	"bufio"
	"testing"
)

const threeLines = "2026-11-22T05:00:01.000000000Z stdout F one\n" +
	"2026-11-22T05:00:02.000000000Z stderr F two\n" +
	"2026-11-22T05:00:03.000000000Z stdout P thr\n2026-11-22T05:00:03.000000000Z stdout F ee\n"

func TestLogs(t *testing.T) {
	c := newCluster(t)
	c.serve(t, "web", "quiet")
	c.log(t, "web", "main", "0.log", "2026-11-22T04:00:00.000000000Z stdout F the run before\n")
	c.log(t, "web", "main", "1.log", threeLines)
	c.log(t, "quiet", "main", "1.log", "")

	c.says(t, "one\ntwo\nthree\n", "logs", "web", "-c", "main")
	c.says(t, "", "logs", "quiet", "-c", "main")
	c.says(t, "two\nthree\n", "logs", "web", "-c", "main", "--since-time=2026-11-22T05:00:02Z")
	c.says(t, "one\ntw", "logs", "web", "-c", "main", "--limit-bytes=6")
	c.says(t, "2026-11-22T05:00:01.000000000Z one\n2026-11-22T05:00:02.000000000Z two\n2026-11-22T05:00:03.000000000Z three\n", "logs", "web", "-c", "main", "--timestamps")
	c.says(t, "the run before\n", "logs", "web", "-c", "main", "--previous")
	c.says(t, "", "logs", "web", "-c", "main", "--tail=0")
	c.refuses(t, `container "late" in pod "web" is waiting to start: trying and failing to pull image`, "logs", "web",
		"-c", "late")
	c.refuses(t, `previous terminated container "late" in pod "web" not found`, "logs", "web", "-c", "late", "--previous")
}

// A follower sees each line when it is written, and ends with the container.
func TestLogsFollow(t *testing.T) {
	c := newCluster(t)
	c.serve(t, "web")
	c.log(t, "web", "main", "1.log",
		"2026-11-22T05:00:01.000000000Z stdout F old\n2026-11-22T05:00:02.000000000Z stdout F one\n")
	cmd := c.command(t, "logs", "-f", "--tail=1", "web", "-c", "main")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, line := range []string{"one", "two", "three"} {
		if !lines.Scan() || lines.Text() != line {
			t.Fatalf("the follower got %q (%v), want %q", lines.Text(), lines.Err(), line)
		}
		next := map[string]string{"one": "two", "two": "three"}[line]
		if next != "" {
			c.log(t, "web", "main", "1.log", "2026-11-22T05:00:03.000000000Z stdout F "+next+"\n")
		}
	}
	c.running.Store(false)
	if lines.Scan() {
		t.Errorf("after the end came %q", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("kubectl logs -f: %v", err)
	}
}

// A follower is told why its log ends early.
func TestLogsFollowFails(t *testing.T) {
	c := newCluster(t)
	c.serve(t, "web")
	c.log(t, "web", "main", "1.log", "no line of a log\n")
	c.says(t, "logs of container \"main\" in pod \""+c.namespace+"/web\": failed to get parse function: unsupported log format: "+
		"\"no line of a log\\n\"\n", "logs", "-f", "web", "-c", "main")
}
