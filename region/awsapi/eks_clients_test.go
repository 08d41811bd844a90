package awsapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// eksCall sends EKS a request in REST's form, and reads the profile, the names or the error of the answer.
func (p place) eksCall(t *testing.T, method, path, body string) (status int, out struct {
	FargateProfile struct {
		FargateProfileName, PodExecutionRoleArn, Status string
		Subnets                                         []string
		Selectors                                       []struct{ Namespace string }
		Tags                                            map[string]string
	}
	FargateProfileNames []string
	Message             string
}, header http.Header,
) {
	t.Helper()
	status, header, text := send(t, p.url+"/clusters/nodeless/fargate-profiles"+path, method, body, map[string]string{
		"Authorization": "AWS4-HMAC-SHA256 Credential=AKID/20261105/us-west-2/eks/aws4_request, SignedHeaders=host, Signature=0",
		"Content-Type":  "application/json",
	})
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s %s: %s", method, path, text)
	}
	return status, out, header
}

// The requests of eksctl and of Terraform's aws_eks_fargate_profile as their sources build them: eksctl
// (package fargate, create.go and delete.go) names the tags that the user gave, no subnets unless the config file has
// some, and waits for a deletion by listing; the provider (service/eks, fargate_profile.go and wait.go) sends the
// subnets, waits by describing, and takes ResourceNotFoundException for the end. Both SDKs send a clientRequestToken.
func TestEksctlAndTerraformManageFargateProfiles(t *testing.T) {
	p := newPlace(t)
	subnets, err := json.Marshal([]string{p.region.Subnets()[0].ID, p.region.Subnets()[1].ID})
	if err != nil {
		t.Fatal(err)
	}
	const role = `"podExecutionRoleArn":"arn:aws:iam::123456789012:role/pods"`
	for _, c := range []struct {
		tool, body string
		subnets    int
		gone       func() bool
	}{
		{
			"eksctl", `{"clientRequestToken":"7b1d0f6e-2f0e-4a52-9d0c-5a2f0c0f7d11","fargateProfileName":"%s",` + role +
				`,"selectors":[{"labels":{"env":"dev"},"namespace":"apps"}],"tags":{"alpha.eksctl.io/cluster-name":"nodeless"}}`,
			len(p.region.Subnets()),
			func() bool {
				_, out, _ := p.eksCall(t, "GET", "", "")
				return len(out.FargateProfileNames) == 0
			},
		},
		{
			"terraform", `{"clientRequestToken":"terraform-20260105090000000000000001","fargateProfileName":"%s",` + role +
				`,"selectors":[{"namespace":"apps"}],"subnets":` + string(subnets) + `,"tags":{"Name":"apps"}}`, 2,
			func() bool {
				status, out, header := p.eksCall(t, "GET", "/terraform", "")
				return status == 404 && strings.HasPrefix(header.Get("X-Amzn-Errortype"), "ResourceNotFoundException") &&
					out.Message == "No Fargate Profile found with name: terraform."
			},
		},
	} {
		status, made, _ := p.eksCall(t, "POST", "", fmt.Sprintf(c.body, c.tool))
		profile := made.FargateProfile
		if status != 200 || profile.Status != "CREATING" || len(profile.Subnets) != c.subnets ||
			len(profile.Tags) != 1 || profile.Selectors[0].Namespace != "apps" {
			t.Errorf("%s creates: %d, %+v", c.tool, status, made)
		}
		p.clock.Advance(time.Minute)
		if _, out, _ := p.eksCall(t, "GET", "/"+c.tool, ""); out.FargateProfile.Status != "ACTIVE" {
			t.Errorf("%s waits for ACTIVE: %+v", c.tool, out)
		}
		if status, out, _ := p.eksCall(t, "DELETE", "/"+c.tool, ""); status != 200 || out.FargateProfile.Status != "DELETING" {
			t.Errorf("%s deletes: %d, %+v", c.tool, status, out)
		}
		if c.gone() {
			t.Errorf("%s is told that the profile is gone while its pods are deleted", c.tool)
		}
		p.clock.Advance(time.Minute)
		if !c.gone() {
			t.Errorf("%s waits for ever for the end of the deletion", c.tool)
		}
	}
}
