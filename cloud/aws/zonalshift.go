package aws

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"

	"github.com/nodeless/nodeless/cloud"
)

var _ cloud.ZoneShifter = (*Provider)(nil)

// zonalShifts follows the zonal shifts of the cluster (Amazon Application Recovery Controller).
type zonalShifts struct {
	*account
	subnets *subnetTracker // knows the names of zones
	arc     *arczonalshift.Client

	mu      sync.Mutex
	shifted map[string]bool // zones, as last seen
	warned  sync.Once
}

func newZonalShifts(a *account, s *subnetTracker) *zonalShifts {
	return &zonalShifts{account: a, subnets: s, arc: arczonalshift.NewFromConfig(a.o.AWS)}
}

// ShiftedZones returns the zones from which traffic of the EKS cluster is shifted away, by a user or by AWS itself.
// There are none if Options.ClusterARN is "" or the cluster is not enabled for zonal shift.
func (s *zonalShifts) ShiftedZones(ctx context.Context) (_ []cloud.ShiftedZone, err error) {
	if s.o.ClusterARN == "" {
		return nil, nil
	}
	defer s.called("ShiftedZones", s.now(), &err)
	found, err := s.arc.GetManagedResource(ctx,
		&arczonalshift.GetManagedResourceInput{ResourceIdentifier: &s.o.ClusterARN})
	if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing {
		found, err = &arczonalshift.GetManagedResourceOutput{}, nil
		s.warned.Do(func() {
			s.log.Warn("the cluster is not registered for zonal shift, so that there are none to follow; enable it with "+
				"aws eks update-cluster-config --zonal-shift-config enabled=true", "cluster", s.o.ClusterARN)
		})
	}
	if err != nil {
		return nil, wrap("ask for zonal shifts of "+s.o.ClusterARN, "arc-zonal-shift:GetManagedResource", err)
	}
	var applied, out []cloud.ShiftedZone
	for _, z := range found.ZonalShifts {
		if z.AppliedStatus == types.AppliedStatusApplied {
			applied = append(applied, cloud.ShiftedZone{ID: awssdk.ToString(z.AwayFrom), Until: awssdk.ToTime(z.ExpiryTime)})
		}
	}
	for _, z := range found.Autoshifts {
		if z.AppliedStatus == types.AutoshiftAppliedStatusApplied {
			applied = append(applied, cloud.ShiftedZone{ID: awssdk.ToString(z.AwayFrom)})
		}
	}
	for _, z := range applied {
		if z.Zone, err = s.subnets.zoneOf(ctx, z.ID); err != nil {
			return nil, err
		}
		if z.Zone != "" { // nothing is launched in a zone without subnets
			out = append(out, z)
		}
	}
	slices.SortFunc(out, func(a, b cloud.ShiftedZone) int { return strings.Compare(a.Zone, b.Zone) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shifted = map[string]bool{}
	for _, z := range out {
		s.shifted[z.Zone] = true
	}
	return out, nil
}

// without returns the choices that are not in shifted zones.
func (s *zonalShifts) without(choices []choice) []choice {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(choices, func(c choice) bool { return s.shifted[c.Zone] })
}
