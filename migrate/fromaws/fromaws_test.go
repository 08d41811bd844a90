package fromaws

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"go.yaml.in/yaml/v3"

	"github.com/nodeless/nodeless/migrate"
)

// account responds as AWS does for the cluster demo, whose groups testdata/cli.yaml has as printed by the CLI.
type account struct {
	denies string         // the only call that is denied
	eks    map[string]any // responses by path
}

func newAccount(t *testing.T) *account {
	t.Helper()
	a := &account{eks: map[string]any{
		"/clusters/demo/node-groups":      map[string]any{"nodegroups": []string{"web"}},
		"/clusters/demo/fargate-profiles": map[string]any{"fargateProfileNames": []string{"batch"}},
	}}
	for _, d := range printedByCLI(t) {
		if d["nodegroup"] != nil {
			d["nodegroup"].(map[string]any)["createdAt"], d["nodegroup"].(map[string]any)["modifiedAt"] = 1763629200, 1763629500
			a.eks["/clusters/demo/node-groups/web"] = d
		}
		if d["fargateProfile"] != nil {
			a.eks["/clusters/demo/fargate-profiles/batch"] = d
		}
	}
	return a
}

func printedByCLI(t *testing.T) (out []map[string]any) {
	t.Helper()
	f, err := os.Open("testdata/cli.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := yaml.NewDecoder(f); ; {
		var one map[string]any
		if d.Decode(&one) != nil {
			return out
		}
		out = append(out, one)
	}
}

func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	action := r.Form.Get("Action")
	if a.denies != "" && strings.HasPrefix(action+" "+r.URL.Path, a.denies) {
		w.Header().Set("X-Amzn-Errortype", "AccessDeniedException")
		w.WriteHeader(http.StatusForbidden)
		if action == "" {
			_, _ = w.Write([]byte(`{"message": "jane may not"}`))
		} else {
			_, _ = w.Write([]byte(`<Response><Errors><Error><Code>UnauthorizedOperation</Code>` +
				`<Message>jane may not</Message></Error></Errors><Error><Code>AccessDenied</Code><Message>jane may not</Message></Error></Response>`))
		}
		return
	}
	if action == "" {
		answer, known := a.eks[r.URL.Path]
		if !known {
			w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]any{"message": "No cluster found for name: " + path.Dir(r.URL.Path)}
		}
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	name := action
	if id := r.Form.Get("LaunchTemplateId"); id != "" {
		name += "-" + id
	}
	text, err := os.ReadFile(path.Join("testdata", name+".xml"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = w.Write([]byte(filtered(string(text), r.Form)))
}

var groupOfAnswer = regexp.MustCompile(`(?s)<member><AutoScalingGroupName>.*?</Tags></member>`)

// filtered leaves out the Auto Scaling groups that have none of the tags that a request filters by.
func filtered(text string, form url.Values) string {
	return groupOfAnswer.ReplaceAllStringFunc(text, func(g string) string {
		for i := 1; ; i++ {
			switch key := form.Get(fmt.Sprint("Filters.member.1.Values.member.", i)); {
			case key == "":
				return ""
			case strings.Contains(g, "<Key>"+key+"</Key>"):
				return g
			}
		}
	})
}

// configured returns an SDK configuration for a server. It retries at once: the SDK may close a connection before a
// long response is read, and then counts on its retries (aws-sdk-go-v2, issue 2737).
func configured(url string) awssdk.Config {
	return awssdk.Config{
		Region: "us-west-2", BaseEndpoint: &url,
		Retryer:     func() awssdk.Retryer { return retry.AddWithMaxBackoffDelay(retry.NewStandard(), time.Nanosecond) },
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}
}

// read returns the input that Read makes of a cluster.
func read(t *testing.T, a *account, cluster string) (migrate.Input, error) {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	return Read(t.Context(), configured(server.URL), cluster)
}

// result returns the outcome of a migration, without the files and lines of its input.
func result(t *testing.T, in migrate.Input) string {
	t.Helper()
	r, err := migrate.Run([]migrate.Input{in}, migrate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed() {
		t.Errorf("it cannot be migrated: %+v", r.Notes)
	}
	for i := range r.Notes {
		r.Notes[i].File, r.Notes[i].Line = "", 0
	}
	out, err := json.MarshalIndent(map[string]any{"result": r, "nodes": r.Nodes}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestAWSAndItsCLISayTheSame(t *testing.T) {
	asked, err := read(t, newAccount(t), "demo")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("testdata/cli.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, want := result(t, asked), result(t, migrate.Input{Name: "cli.yaml", Reader: f})
	if got != want {
		t.Errorf("asked:\n%s\nprinted by the CLI:\n%s", got, want)
	}
	for _, name := range []string{`"web"`, `"batch"`, `"workers"`, `"workers-base"`, `"old"`, `"older"`} {
		if !strings.Contains(got, `"name": `+name) {
			t.Errorf("it lacks %s:\n%s", name, got)
		}
	}
	if strings.Contains(got, "eks-web-1") || strings.Contains(got, "of-another-cluster") {
		t.Errorf("a group is there twice, or is another cluster's:\n%s", got)
	}
}

// A cluster that EKS does not know, such as one made by kops, has Auto Scaling groups all the same.
func TestClustersThatAreNotOfEKS(t *testing.T) {
	a := newAccount(t)
	a.eks = nil
	in, err := read(t, a, "demo")
	if err != nil {
		t.Fatal(err)
	}
	if got := result(t, in); !strings.Contains(got, `"name": "workers"`) {
		t.Errorf("the groups are not there:\n%s", got)
	}
}

func TestWhatAWSDoesNotTell(t *testing.T) {
	for denied, want := range map[string]string{
		" /clusters/demo/node-groups":            "eks:ListNodegroups of cluster demo",
		" /clusters/demo/node-groups/web":        "eks:DescribeNodegroup of node group web of cluster demo",
		" /clusters/demo/fargate-profiles":       "eks:ListFargateProfiles of cluster demo",
		" /clusters/demo/fargate-profiles/batch": "eks:DescribeFargateProfile of Fargate profile batch of cluster demo",
		"DescribeAutoScalingGroups":              "autoscaling:DescribeAutoScalingGroups of groups of cluster demo",
		"DescribeLaunchTemplateVersions":         "ec2:DescribeLaunchTemplateVersions of launch template lt-1",
		"DescribeLaunchConfigurations":           "autoscaling:DescribeLaunchConfigurations of 1 launch configurations",
	} {
		a := newAccount(t)
		a.denies = denied
		_, err := read(t, a, "demo")
		if err == nil || !strings.Contains(err.Error(), want+" in us-west-2") || !strings.Contains(err.Error(), "allow ") {
			t.Errorf("%s denied: %v\nwant %s, and to allow it", denied, err, want)
		}
	}
	a := newAccount(t)
	if _, err := read(t, a, "other-name"); err == nil || !strings.Contains(err.Error(), "--cluster-name") {
		t.Errorf("a cluster without groups: %v, want advice on its name", err)
	}
	if _, err := Read(t.Context(), configured("http://127.0.0.1:1"), "demo"); err == nil ||
		!strings.Contains(err.Error(), "does this machine reach AWS") {
		t.Errorf("AWS cannot be reached: %v", err)
	}
}
