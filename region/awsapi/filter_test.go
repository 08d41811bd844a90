package awsapi

import (
	"reflect"
	"strings"
	"testing"
)

func TestEveryFilterReadsAField(t *testing.T) {
	filtersRead(t, groups)
	filtersRead(t, images)
	filtersRead(t, instances)
	filtersRead(t, instanceStatuses)
	filtersRead(t, instanceTypes)
	filtersRead(t, interfaces)
	filtersRead(t, offerings)
	filtersRead(t, regions)
	filtersRead(t, spotPrices)
	filtersRead(t, subnets)
	filtersRead(t, tagDescriptions)
	filtersRead(t, templates)
	filtersRead(t, templateVersions)
	filtersRead(t, vpcs)
	filtersRead(t, zones)
}

// filtersRead applies every filter of a kind to a zero resource: a filter without a matching field panics.
func filtersRead[T any](t *testing.T, k kind[T]) {
	t.Helper()
	var nothing T
	for word := range strings.FieldsSeq(k.filters) {
		name, _, _ := strings.Cut(word, "=")
		if got := k.valuesOf(name)(reflect.ValueOf(nothing)); strings.Join(got, "") != "" {
			t.Errorf("%s of nothing is %v", name, got)
		}
	}
}
