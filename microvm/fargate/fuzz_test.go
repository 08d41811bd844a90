package fargate

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// FuzzChoose compares Choose with a literal implementation of the reference. A text has a line for each selector,
// "name namespace k=v …", where lines with the same name belong to one profile, then a line "pod namespace k=v …".
func FuzzChoose(f *testing.F) {
	for _, seed := range []string{
		"beta prod\nprod prod\npod prod",
		"a study-*\npod study-1 x=y",
		"a prod x=y z=*\na dev\npod prod x=y z=",
		"a prod\nb prod\npod prod eks.amazonaws.com/fargate-profile=b",
		"a prod\npod prod eks.amazonaws.com/fargate-profile=b",
		"a * app*=w?b\npod prod app.kubernetes.io/name=web app=wab",
		"pod prod",
		"b ?\na *\npod x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		last := strings.Fields(lines[len(lines)-1])
		if len(text) > 400 || len(last) < 2 || last[0] != "pod" || !strings.HasPrefix(strings.ToValidUTF8(text, ""), text) {
			t.Skip("not a case")
		}
		p := labelled(pod(last[1]), last[2:]...)
		var profiles []*v1alpha1.FargateProfile
		for _, line := range lines[:len(lines)-1] {
			words := strings.Fields(line)
			if len(words) < 2 {
				t.Skip("not a profile")
			}
			one := profile(words[0], strings.Join(words[1:], " "))
			if at := slices.IndexFunc(profiles, func(o *v1alpha1.FargateProfile) bool { return o.Name == words[0] }); at >= 0 {
				profiles[at].Spec.Selectors = append(profiles[at].Spec.Selectors, one.Spec.Selectors...)
			} else {
				profiles = append(profiles, one)
			}
		}
		want := literally(profiles, p.Namespace, p.Labels)
		got := ""
		if c := Choose(profiles, p); c.Profile != nil {
			got = c.Profile.Name
		}
		if got != want {
			t.Errorf("%q: %q has the pod, want %q", text, got, want)
		}
	})
}

// literally returns the name of the profile according to section 1.2 of the reference, "" for none.
func literally(profiles []*v1alpha1.FargateProfile, namespace string, labels map[string]string) string {
	selecting := map[string]bool{}
	for _, p := range profiles {
		for _, s := range p.Spec.Selectors {
			missing := 0
			for key, value := range s.Labels {
				pairs := 0
				for k, v := range labels {
					if byRegexp(key, k) && byRegexp(string(value), v) {
						pairs++
					}
				}
				if pairs == 0 {
					missing++
				}
			}
			if byRegexp(s.Namespace, namespace) && missing == 0 {
				selecting[p.Name] = true
			}
		}
	}
	if named := labels["eks.amazonaws.com/fargate-profile"]; named != "" {
		if selecting[named] {
			return named
		}
		return ""
	}
	first := ""
	for name := range selecting {
		if first == "" || name < first {
			first = name
		}
	}
	return first
}
