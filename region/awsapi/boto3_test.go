package awsapi

import (
	"os"
	"os/exec"
	"testing"
)

// debianPython sees Debian's packages, unlike other Pythons in PATH.
const debianPython = "/usr/bin/python3"

// tellBoto3 runs stories of testdata/boto3_story.py against a fresh region.
func tellBoto3(t *testing.T, stories ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), debianPython, "-c", "import boto3").CombinedOutput(); err != nil {
		if os.Getenv("NODELESS_REQUIRE_BOTO3") == "1" {
			t.Fatalf("boto3 is required but absent: apt-get install -y python3-boto3\n%s", out)
		}
		t.Skip("boto3 is absent, so this client was not tried: apt-get install -y python3-boto3")
	}
	args := append([]string{"testdata/boto3_story.py", serve(t), "us-west-2", "nodeless", "nodeless"}, stories...)
	if out, err := exec.CommandContext(t.Context(), debianPython, args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestBoto3FindsTypesByFilterAndPage(t *testing.T) { tellBoto3(t, "types") }

func TestBoto3ReadsThePriceList(t *testing.T) { tellBoto3(t, "prices") }

func TestBoto3LaunchesFleetsAndReadsTheQueue(t *testing.T) { tellBoto3(t, "launches") }

func TestBoto3MakesALoadBalancer(t *testing.T) { tellBoto3(t, "balancers") }

func TestBoto3ScalesAGroup(t *testing.T) { tellBoto3(t, "scaling") }

func TestBoto3MakesANodeGroup(t *testing.T) { tellBoto3(t, "nodegroups") }

// debianAWS is Debian's AWS CLI, which test-deps installs.
const debianAWS = "/usr/bin/aws"

func TestTheAWSCLIScalesAGroup(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), debianAWS, "--version").CombinedOutput(); err != nil {
		if os.Getenv("NODELESS_REQUIRE_BOTO3") == "1" {
			t.Fatalf("the AWS CLI is required but absent: apt-get install -y awscli\n%s", out)
		}
		t.Skip("the AWS CLI is absent, so this client was not tried: apt-get install -y awscli")
	}
	story := exec.CommandContext(t.Context(), "testdata/awscli_story.sh", debianAWS, serve(t), "nodeless")
	if out, err := story.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// requireClients skips a test if a client is missing, or fails it where all clients are required.
func requireClients(t *testing.T, absent string) {
	t.Helper()
	if os.Getenv("NODELESS_REQUIRE_BOTO3") == "1" {
		t.Fatal(absent)
	}
	t.Skip(absent)
}
