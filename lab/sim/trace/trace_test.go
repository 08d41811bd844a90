package trace

import (
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"
	"time"
)

func read(t *testing.T, text string) *Trace {
	t.Helper()
	out, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOwnFormat(t *testing.T) {
	got := read(t, "start,life,cpu,memory,gpus,count\n100,60,500m,2Gi,1,2\n# a comment\n90,0,1.5,512Mi,,\n")
	want := []Pod{
		{CPU: 1500, Memory: 512 << 20, Start: 0, Life: time.Second},
		{CPU: 500, Memory: 2 << 30, GPUs: 1, Start: 10 * time.Second, Life: time.Minute},
		{CPU: 500, Memory: 2 << 30, GPUs: 1, Start: 10 * time.Second, Life: time.Minute},
	}
	if !slices.Equal(got.Pods, want) {
		t.Errorf("got %+v", got.Pods)
	}
	if ends := read(t, "start,end,cpu,memory\n5,65,500m,1G\n"); ends.Pods[0].Life != time.Minute ||
		ends.Pods[0].Memory != 1e9 {
		t.Errorf("with ends: %+v", ends.Pods)
	}
}

func TestPublicFormatsAreReadAsPublished(t *testing.T) {
	openb := read(t, "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"+
		"openb-pod-0000,12000,16384,1,1000,,LS,Running,50,170,50\n")
	if want := (Pod{CPU: 12000, Memory: 16 << 30, GPUs: 1, Life: 2 * time.Minute}); openb.Pods[0] != want {
		t.Errorf("openb: %+v", openb.Pods[0])
	}
	alibaba := read(t, "task_create_time, task_end_time, job_id, task_id,number_of_instances, status, number_of_cpus_requested_per_instance_in_the_task,normalized_memory_requested_per_instance_in_the_task\n"+
		"6459,6524,3,4,15740,Terminated,50,0.0078125\n6036,6046,4,7,393,Waiting,,\n")
	if want := (Pod{CPU: 500, Memory: 2 << 30, Life: 65 * time.Second}); alibaba.Pods[0] != want || alibaba.Skipped != 1 {
		t.Errorf("alibaba2017: %+v, %d skipped", alibaba.Pods[0], alibaba.Skipped)
	}
}

func TestACompressedFileIsRead(t *testing.T) {
	var file bytes.Buffer
	z := gzip.NewWriter(&file)
	_, _ = z.Write([]byte("start,life,cpu,memory\n0,1,1,1\n"))
	_ = z.Close()
	if got, err := Read(&file); err != nil || len(got.Pods) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestBadTracesSayWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "it is empty",
		"when,cpu\n1,1\n":         "names the columns when, cpu: want at least start",
		"start,life,cpu,memory\n": "no pod that ran",
		"start,life,cpu,memory\n0,1,1,1\n0,1,much,1\n":     `line 3: column cpu: "much" is not an amount`,
		"start,life,cpu,memory\n0,1,-1,1\n":                "is not an amount",
		"start,life,cpu,memory\n0,1,1,5Qi\n":               "is not an amount",
		"start,end,cpu,memory\n10,1,1,1\n":                 "it ends before it starts",
		"start,life,cpu,memory\n0,1e30,1,1\n":              "is not a number",
		"start,life,cpu,memory,count\n0,1,1,1,99999999\n":  "more than 20000000 pods",
		"start,life,cpu,memory,count\n0,1,1,1,-2\n":        "more than 20000000 pods",
		"start,life,cpu,memory\n0,1,1\n":                   `column memory: "" is not an amount`,
		"start,life,cpu,memory\n0,1,1,\"1\n":               "quote",
		"start,life,cpu,memory\n0,NaN,1,1\n":               "is not a number",
		"\x1f\x8bthis is no gzip, whatever it begins with": "gzip",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestWindow(t *testing.T) {
	all := read(t, "start,life,cpu,memory\n0,100,1,1\n50,100,2,1\n120,10,3,1\n")
	got := all.Window(60*time.Second, time.Minute)
	want := []Pod{{CPU: 1000, Memory: 1, Life: 40 * time.Second}, {CPU: 2000, Memory: 1, Life: time.Minute}}
	if !slices.Equal(got.Pods, want) {
		t.Errorf("%+v", got.Pods)
	}
}

// Copies preserves the load: n times the pod-seconds, and no longer than the trace.
func TestCopies(t *testing.T) {
	all := read(t, "start,life,cpu,memory\n0,100,1,1\n50,100,2,1\n120,10,3,1\n")
	got := all.Copies(5, 1)
	if a, b := all.MeanLive()*5, got.MeanLive(); a-b > 1e-9 || b-a > 1e-9 || got.Length() != all.Length() {
		t.Errorf("%v pods at a time for %s, want %v for %s", b, got.Length(), a, all.Length())
	}
}
