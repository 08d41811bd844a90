package stories

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shell runs a script as a user who has typed eval $(nodeless env), with the programs directory first in PATH.
func (c *cluster) shell(programs, script string) (string, error) {
	program := absolute(c.t, binary)
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", `eval $("$NODELESS" env); `+script)
	cmd.Env = append(c.environment(), "NODELESS="+program, "NODELESS_DATA_DIR="+c.dir,
		"PATH="+programs+":"+os.Getenv("PATH"),
		"AWS_PROFILE=mine", "AWS_SESSION_TOKEN=mine", "KUBECONFIG="+filepath.Join(c.home, "mine"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// EKS users log in to this cluster with the commands that they know.
func TestTheToolsOfAWSFindTheClusterAndLogIn(t *testing.T) {
	t.Parallel()
	c := up(t, "--controller=false", "--microvms=false", "--page", "")
	keys := filepath.Join(c.dir, "region", "credentials")
	if info, err := os.Stat(keys); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v; nobody else may read it", keys, info, err)
	}
	out, err := c.shell("", `echo "$AWS_ENDPOINT_URL $AWS_REGION $AWS_DEFAULT_REGION ${AWS_PROFILE-none} ${AWS_SESSION_TOKEN-none}"; "$NODELESS" kubectl --kubeconfig "$KUBECONFIG" get ns default -o name`)
	if want := c.Session.RegionURL + " us-west-2 us-west-2 none none\nnamespace/default\n"; err != nil || out != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
	if out, err := c.run("env", "-o", "json"); err != nil || !strings.Contains(out, `"AWS_SECRET_ACCESS_KEY": "`) {
		t.Errorf("env -o json: %v\n%s", err, out)
	}
	// no controller has resolved the class yet, and there is no node whose zone would name the region
	if out, err := c.run("plan", "-f", filepath.Join(root, "examples", "devices.yaml")); err != nil {
		t.Errorf("plan does not know the region of nodeless up: %v\n%s", err, out)
	}

	const python = "/usr/bin/python3"
	if out, err := exec.Command(python, "-c", "import botocore").CombinedOutput(); err != nil {
		if os.Getenv("NODELESS_REQUIRE_BOTO3") == "1" {
			t.Fatalf("botocore is required but absent: apt-get install -y python3-boto3\n%s", out)
		}
		t.Skip("botocore is absent, so logging in was not tried: apt-get install -y python3-boto3")
	}
	aws := absolute(t, filepath.Join("testdata", "bin"))
	const whoami = `"$NODELESS" kubectl --kubeconfig "$KUBECONFIG" auth whoami -o jsonpath='{.status.userInfo.username} {.status.userInfo.groups}'`
	out, err = c.shell(aws, "aws eks update-kubeconfig --name nodeless; "+whoami)
	if want := `arn:aws:iam::123456789012:root ["system:masters","system:authenticated"]`; err != nil || out != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
	if out, err := c.shell(aws, "AWS_SECRET_ACCESS_KEY=guess "+whoami); err == nil ||
		!strings.Contains(out, "Unauthorized") {
		t.Errorf("with another secret: %v, %q", err, out)
	}
	c.awsCLI("iam", "create-user", "--user-name", "ann")
	key := strings.Fields(c.awsCLI("iam", "create-access-key", "--user-name", "ann", "--output", "text", "--query",
		"AccessKey.[AccessKeyId,SecretAccessKey]"))
	asAnn := fmt.Sprintf("AWS_ACCESS_KEY_ID=%s AWS_SECRET_ACCESS_KEY=%s %s", key[0], key[1], whoami)
	if out, err := c.shell(aws, asAnn); err == nil || !strings.Contains(out, "Unauthorized") {
		t.Errorf("a user whom aws-auth does not name: %v, %q", err, out)
	}
	c.kubectl("create", "configmap", "aws-auth", "-n", "kube-system", "--from-literal",
		"mapUsers=- {userarn: 'arn:aws:iam::123456789012:user/ann', username: ann, groups: [viewers]}")
	if out, err := c.shell(aws, asAnn); err != nil || out != `ann ["viewers","system:authenticated"]` {
		t.Errorf("a user whom aws-auth names: %v, %q", err, out)
	}
	if out := c.kubectl("config", "current-context"); out != "nodeless\n" {
		t.Errorf("up's own kubeconfig is now of context %q", out)
	}
	if out, err := c.shell(aws, `"$NODELESS" why nodepool/general-purpose`); err != nil ||
		!strings.Contains(out, "the simulated region us-west-2") {
		t.Errorf("asked with the variables of env, nodeless does not answer of its own cluster: %v\n%s", err, out)
	}
}

func TestWithoutAClusterEnvSaysSo(t *testing.T) {
	cmd := exec.Command(binary, "env", "--data-dir", t.TempDir())
	cmd.Env = []string{"HOME=" + t.TempDir()}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "nodeless up --data-dir ") {
		t.Errorf("%v: %s", err, out)
	}
}
