package controller

import (
	"testing"
	"time"
)

// PatientLeases lets leaders keep their Leases through stalls of a busy machine until the test ends. Tests with a
// virtual clock cover the durations of the product.
func PatientLeases(t *testing.T) {
	lasts, renewed := leaseDuration, renewDeadline
	leaseDuration, renewDeadline = 90*time.Second, 50*time.Second
	t.Cleanup(func() { leaseDuration, renewDeadline = lasts, renewed })
}
