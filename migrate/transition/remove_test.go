package transition

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	admins = "- groups: [system:masters]\n  rolearn: arn:aws:iam::111122223333:role/admins\n  username: admin\n"
	nodes  = "- groups: [system:bootstrappers, system:nodes]\n  rolearn: arn:aws:iam::111122223333:role/nodes\n" +
		"  username: system:node:{{EC2PrivateDNSName}}\n"
)

// managed returns a place with an empty node group of EKS, whose role is in aws-auth or has an access entry. EKS
// removes both with the group.
func managed(t *testing.T, mode, mapped string, entry bool) (p *place, hasEntry func() bool) {
	t.Helper()
	s := state(Emptied, 2)
	s.Groups[0].Nodegroup = "web"
	s.Groups[0].Definition = json.RawMessage(`{"NodeRole": "arn:aws:iam::111122223333:role/eks/nodes"}`)
	auth := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "aws-auth", UID: "auth"}}
	auth.Data = map[string]string{"mapRoles": admins + mapped}
	p = newPlace(t, s, auth)
	p.group.eks = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch call := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/clusters/prod"); {
		case call == "GET ":
			_, _ = fmt.Fprintf(w, `{"cluster": {"accessConfig": {"authenticationMode": %q}}}`, mode)
		case strings.HasPrefix(call, "GET /access-entries/") && entry:
			_, _ = fmt.Fprint(w, `{"accessEntry": {"type": "EC2_LINUX"}}`)
		case call == "POST /access-entries":
			entry = true
			_, _ = fmt.Fprint(w, `{"accessEntry": {"type": "EC2_LINUX"}}`)
		case call == "DELETE /node-groups/web":
			p.group.gone, entry = true, false
			p.forgetRole()
			_, _ = fmt.Fprint(w, `{"nodegroup": {}}`)
		default:
			w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"message": "there is none"}`)
		}
	}
	return p, func() bool { return entry }
}

// forgetRole removes the role of nodes from aws-auth.
func (p *place) forgetRole() {
	p.t.Helper()
	auth, err := p.kubernetes.CoreV1().ConfigMaps("kube-system").Get(p.t.Context(), "aws-auth", metav1.GetOptions{})
	if err != nil {
		p.t.Error(err)
		return
	}
	auth.Data["mapRoles"] = admins
	if _, err := p.kubernetes.CoreV1().ConfigMaps("kube-system").Update(p.t.Context(), auth,
		metav1.UpdateOptions{}); err != nil {
		p.t.Error(err)
	}
}

// mapped returns the names of the roles in aws-auth.
func (p *place) mapped() (out []string) {
	p.t.Helper()
	_, entries, err := accessOf(p.Transition).roles(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, roleName(fmt.Sprint(e["rolearn"]))+" "+fmt.Sprint(e["groups"]))
	}
	return out
}

func (p *place) removed() {
	p.t.Helper()
	if s, err := p.Next(p.untilItWaits(), true); err != nil || s.Step != Removed {
		p.t.Fatalf("step %s, %v; %q", s.Step, err, p.said)
	}
}

// The nodes that Nodeless launched have the role of the group that is deleted.
func TestNodesKeepTheirAccessWhenTheirRolesGroupIsDeleted(t *testing.T) {
	const want = "[admins [system:masters] nodes [system:bootstrappers system:nodes]]"
	for _, mode := range []string{"CONFIG_MAP", "API_AND_CONFIG_MAP"} {
		p, _ := managed(t, mode, nodes, false)
		p.removed()
		if got := fmt.Sprint(p.mapped()); got != want {
			t.Errorf("%s: aws-auth maps %s", mode, got)
		}
	}
	p, hasEntry := managed(t, "API", "", true)
	if p.removed(); !hasEntry() || len(p.mapped()) != 1 {
		t.Errorf("API: has an access entry: %t; aws-auth maps %q", hasEntry(), p.mapped())
	}
	p, hasEntry = managed(t, "API", nodes, true) // the ConfigMap has no effect any more
	if p.removed(); !hasEntry() || len(p.mapped()) != 1 {
		t.Errorf("API beside aws-auth: has an access entry: %t; aws-auth maps %q", hasEntry(), p.mapped())
	}
	p, hasEntry = managed(t, "API", "", false) // it had neither
	if p.removed(); hasEntry() || len(p.mapped()) != 1 {
		t.Errorf("a role without access has an access entry: %t; aws-auth maps %q", hasEntry(), p.mapped())
	}
}

// A command that is killed between EKS's removal of the role and its restoration is repeated.
func TestAnInterruptedRemovalRestoresAccess(t *testing.T) {
	p, _ := managed(t, "CONFIG_MAP", nodes, false)
	s, err := p.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(accessOf(p.Transition).record(t.Context(), s), p.save(t.Context(), s)); err != nil {
		t.Fatal(err)
	}
	p.group.gone = true
	p.forgetRole()
	p.removed()
	if got := p.mapped(); len(got) != 2 {
		t.Errorf("aws-auth maps %q", got)
	}
}

func TestAGroupIsNotDeletedIfItsAccessIsUnknown(t *testing.T) {
	p, _ := managed(t, "CONFIG_MAP", "no list", false)
	if _, err := p.Next(p.untilItWaits(), true); err == nil || !strings.Contains(err.Error(), "aws-auth") || p.group.gone {
		t.Errorf("%v; the group is gone: %t", err, p.group.gone)
	}
}

// What Back does not create again is named before it is lost.
func TestAGroupIsNotDeletedWithWhatCannotBeRestored(t *testing.T) {
	p := newPlace(t, state(Emptied, 2))
	p.group.extras = map[string]string{
		"":                         "<WarmPoolConfiguration/><EnabledMetrics><member/><member/></EnabledMetrics>",
		"DescribePolicies":         "<ScalingPolicies><member/></ScalingPolicies>",
		"DescribeScheduledActions": "<ScheduledUpdateGroupActions><member/></ScheduledUpdateGroupActions>",
		"DescribeNotificationConfigurations": "<NotificationConfigurations><member/><member/><member/>" +
			"</NotificationConfigurations>",
	}
	_, err := p.Next(p.untilItWaits(), true)
	if err == nil || len(p.group.calls) > 0 {
		t.Fatalf("%v; calls %q", err, p.group.calls)
	}
	for _, want := range []string{
		"Auto Scaling group web: scaling policies (1)", "scheduled actions (1)", "notifications (3)", "enabled metrics (2)",
		"a warm pool", "--force",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	p.Force = true
	if p.removed(); !p.group.gone {
		t.Error("with --force it is still there")
	}
	p = newPlace(t, state(Emptied, 2))
	p.removed()
	p, _ = managed(t, "CONFIG_MAP", nodes, false) // EKS enables the metrics of its groups
	p.group.extras = map[string]string{"": "<EnabledMetrics><member/></EnabledMetrics>"}
	p.removed()
}
