package wiretest

import (
	"strings"
	"testing"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/controller/automode"
)

// A NodeClass of EKS Auto Mode is ready unless an object that it names does not exist: a condition then names the
// field.
func TestANodeClassIsReadyOrSaysWhatDoesNotExist(t *testing.T) {
	p := newPlace(t)
	for condition, test := range map[string]struct {
		spoil func(*eksv1.NodeClassSpec)
		say   string
	}{
		"": {func(*eksv1.NodeClassSpec) {}, ""},
		"SubnetsReady": {func(s *eksv1.NodeClassSpec) {
			s.SubnetSelectorTerms = []eksv1.SubnetSelectorTerm{{ID: "subnet-0123"}}
		}, "spec.subnetSelectorTerms: no subnet in region us-west-2 matches"},
		"SecurityGroupsReady": {func(s *eksv1.NodeClassSpec) {
			s.SecurityGroupSelectorTerms = []eksv1.SecurityGroupSelectorTerm{{Name: "nobody"}}
		}, "spec.securityGroupSelectorTerms: no security group"},
		"InstanceProfileReady": {func(s *eksv1.NodeClassSpec) {
			s.Role = "arn:aws:iam::123456789012:role/eks/missing-role"
		}, `spec.role: IAM role "missing-role" does not exist`},
	} {
		object := &eksv1.NodeClass{Spec: automode.DiscoveredClass("arn:aws:iam::123456789012:role/nodeless-node", "demo")}
		object.Name = "class" + strings.ToLower(condition)
		test.spoil(&object.Spec)
		class := aws.FromNodeClass(object)
		if err := p.connect(t).Resolve(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		var unready []string
		for _, c := range class.GetConditions() {
			if !c.IsTrue() && c.Type != "Ready" {
				unready = append(unready, c.Type)
				if !strings.Contains(c.Message, test.say) {
					t.Errorf("%s says %q, want %q", c.Type, c.Message, test.say)
				}
			}
		}
		if got := strings.Join(unready, ","); got != condition || class.StatusConditions().Root().IsTrue() != (condition == "") {
			t.Errorf("not true are %q, want %q; %+v", got, condition, class.StatusConditions().Root())
		}
	}
}
