package pack

import (
	"fmt"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
)

// IDs of launches are digests of this text, and NodeClaims are named after them: it must stay as it was, or a controller that is exchanged while claims
// are being written launches twice.
func TestTheIdentityOfALaunchIsWhatItAlwaysWas(t *testing.T) {
	for _, l := range []model.Launch{
		{},
		{Pool: "general", Types: []string{"m5.large"}, Requests: model.Resources{model.CPU: 1500, model.Memory: 1 << 33, model.Pods: -1}},
		{
			Pool: "a \"b\"\n\x00é\xff", Types: []string{"m5.large", "", "c\t5"},
			Requirements: model.NewRequirements(model.OneOf(model.LabelZone, "a"), model.OneOf("q", "\"")),
		},
	} {
		want := fmt.Sprintf("%q %q %q %v\n", l.Pool, l.Requirements.String(), l.Types, l.Requests)
		if got := string(identityOf(&l)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
