// Package cloudtest is the conformance suite of cloud.Provider: every provider passes the same stories, over its real
// wire protocol.
package cloudtest

import (
	"testing"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// Harness makes clouds to tell stories on.
type Harness struct {
	// Start makes a cloud for one story: no instances, enough of every type in stock, both class references in place. It
	// tears down through t.Cleanup.
	Start func(t *testing.T) Cloud
}

// Cloud is a cloud under test.
type Cloud struct {
	// Connect makes a provider that knows nothing from before, as after a restart of its process. Several may be in use.
	Connect func(t *testing.T) cloud.Provider
	// Ready is a class that is resolved; NotReady one that exists and is not; Missing names none.
	Ready, NotReady, Missing cloud.ClassRef
	// Exhaust makes the cloud run out of offerings.
	Exhaust func(t *testing.T, keys ...model.OfferingKey)
	// Alive is the ids of all instances that neither end nor have ended, as the cloud itself counts them.
	Alive func(t *testing.T) []string
	// Settle lets time pass until instances that end have ended.
	Settle func(t *testing.T)
}

// Run tells all stories.
func Run(t *testing.T, h Harness) {
	for _, story := range []struct {
		name string
		tell func(*teller)
	}{
		{"the catalogue is sane and stays the same slice", (*teller).catalogue},
		{"a launch obeys its requirements", (*teller).obeys},
		{"a launch takes the cheapest offering on demand", (*teller).cheapest},
		{"the same token gives the same instance", (*teller).sameToken},
		{"the same token gives the same instance after a restart, whatever is asked then", (*teller).sameTokenAfterRestart},
		{"no capacity says which offerings were exhausted", (*teller).noCapacity},
		{"when the best is exhausted the next best is launched", (*teller).nextBest},
		{"spot without capacity becomes on-demand, once", (*teller).spotFallsThrough},
		{"a launch that failed can be tried again with the same token", (*teller).triedAgain},
		{"unavailable offerings are left alone", (*teller).unavailable},
		{"terminating twice is harmless", (*teller).terminateTwice},
		{"an ended instance is gone from Get and List", (*teller).gone},
		{"unknown instances are not found, and spoil nothing for others", (*teller).unknown},
		{"an instance whose launch was lost in a crash is found by its claim", (*teller).foundAgain},
		{"many launches at once give one instance each", (*teller).many},
		{"one token from many sides gives one instance", (*teller).oneToken},
		{"a class that is not ready launches nothing", (*teller).notReady},
		{"an instance of today has not drifted", (*teller).fresh},
		{"a cancelled launch launches nothing", (*teller).cancelled},
	} {
		t.Run(story.name, func(t *testing.T) {
			c := h.Start(t)
			story.tell(&teller{T: t, cloud: c, p: c.Connect(t)})
		})
	}
}
