package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/engine/model"
)

// offers is what a region offers. It is immutable.
type offers struct {
	generation int // changes when anything below does
	types      []ec2types.InstanceTypeInfo
	zones      map[string]map[string]bool // type → zones that have it
	onDemand   map[string]model.Price     // by type; see onDemandPrice for the gaps
	spot       map[spotKey]model.Price
	at         map[section]time.Time
}

type spotKey struct{ instanceType, zone string }

// section is a part of offers that is read separately.
type section int

const (
	sectionTypes section = iota
	sectionOnDemand
	sectionSpot
)

var sectionAges = map[section]time.Duration{sectionTypes: typesAge, sectionOnDemand: onDemandAge, sectionSpot: spotAge}

// market reads offers on first use, and again in the background when they are old.
type market struct {
	*account

	mu      sync.Mutex
	newest  *offers
	reading map[section]bool
	first   chan struct{} // closed when the first read has finished; nil if none is in progress
	failed  error         // of the first read
}

func newMarket(a *account) *market { return &market{account: a, reading: map[section]bool{}} }

// offers returns the newest offers. Only the very first call waits.
func (m *market) offers(ctx context.Context) (*offers, error) {
	m.mu.Lock()
	if m.newest != nil {
		defer m.mu.Unlock()
		m.refresh()
		return m.newest, nil
	}
	if m.first == nil {
		m.first = make(chan struct{})
		go m.readFirst(m.first)
	}
	first := m.first
	m.mu.Unlock()
	select {
	case <-first:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.newest == nil {
		return nil, m.failed
	}
	return m.newest, nil
}

// readFirst reads everything for the first time. It waits for the types; prices may arrive later.
func (m *market) readFirst(done chan struct{}) {
	defer close(done)
	prices := make(chan func(*offers), 2)
	for _, which := range []section{sectionOnDemand, sectionSpot} {
		go func() { prices <- m.read(which) }()
	}
	late := make(chan struct{})
	timer := m.o.Clock.AfterFunc(priceWait, func() { close(late) })
	defer timer.Stop()
	types, err := m.readTypes(m.ctx)
	next := &offers{generation: 1, zones: map[string]map[string]bool{}, at: map[section]time.Time{sectionTypes: m.now()}}
	if err == nil {
		types(next)
	}
	waiting := 2
wait:
	for ; err == nil && waiting > 0; waiting-- {
		select {
		case apply := <-prices:
			apply(next)
		case <-late:
			break wait
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.first, m.failed = nil, err
	if err != nil {
		return
	}
	m.newest = next
	if region := m.o.AWS.Region; next.borrowed(region) {
		m.log.Warn("on-demand prices of this region are not known; until they are, another region's are used", "region",
			region, "prices", fallbackRegion)
	}
	if waiting > 0 {
		go func() {
			for range waiting {
				m.apply(<-prices)
			}
		}()
	}
}

// refresh starts reading the sections that are old, each only once at a time. The caller holds the lock.
func (m *market) refresh() {
	now := m.now()
	for which, age := range sectionAges {
		if m.reading[which] || now.Sub(m.newest.at[which]) < age {
			continue
		}
		m.reading[which] = true
		go func() {
			change := m.read(which)
			m.apply(change)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.reading[which] = false
		}()
	}
}

// apply applies a change to a copy. The generation grows only if something differs.
func (m *market) apply(change func(*offers)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := *m.newest
	next.at = maps.Clone(m.newest.at)
	change(&next)
	if !m.newest.same(&next) {
		next.generation++
	}
	m.newest = &next
}

func (g *offers) same(o *offers) bool {
	return maps.Equal(g.onDemand, o.onDemand) && maps.Equal(g.spot, o.spot) &&
		maps.EqualFunc(g.zones, o.zones, func(a, b map[string]bool) bool { return maps.Equal(a, b) }) &&
		sameTypes(g.types, o.types)
}

// sameTypes compares names: a type does not change while it keeps its name.
func sameTypes(a, b []ec2types.InstanceTypeInfo) bool {
	return slices.EqualFunc(a, b, func(x, y ec2types.InstanceTypeInfo) bool { return x.InstanceType == y.InstanceType })
}

// read reads one section and returns the change. A failure changes only the time of the next attempt.
func (m *market) read(which section) func(*offers) {
	var change func(*offers)
	var err error
	switch which {
	case sectionTypes:
		change, err = m.readTypes(m.ctx)
	case sectionOnDemand:
		change, err = m.readOnDemand(m.ctx)
	case sectionSpot:
		change, err = m.readSpot(m.ctx)
	}
	at := m.now()
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			m.log.Warn("instance types or prices are out of date; using older or built-in ones", "error", err)
		}
		// Try again in a minute, not at the next use.
		at = at.Add(time.Minute - sectionAges[which])
	}
	return func(g *offers) {
		if err == nil {
			change(g)
		}
		g.at[which] = at
	}
}

func (m *market) readTypes(ctx context.Context) (func(*offers), error) {
	var types []ec2types.InstanceTypeInfo
	pages := ec2.NewDescribeInstanceTypesPaginator(m.ec2, &ec2.DescribeInstanceTypesInput{
		Filters: []ec2types.Filter{
			filter("supported-virtualization-type", "hvm"),
			filter("processor-info.supported-architecture", "x86_64", "arm64"),
		},
		MaxResults: awssdk.Int32(100),
	})
	err := eachPage(ctx, pages, "describe instance types", "ec2:DescribeInstanceTypes",
		func(page *ec2.DescribeInstanceTypesOutput) { types = append(types, page.InstanceTypes...) })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(types, func(a, b ec2types.InstanceTypeInfo) int { return cmp.Compare(a.InstanceType, b.InstanceType) })
	zones := map[string]map[string]bool{}
	offered := ec2.NewDescribeInstanceTypeOfferingsPaginator(m.ec2, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: ec2types.LocationTypeAvailabilityZone, MaxResults: awssdk.Int32(1000),
	})
	err = eachPage(ctx, offered, "describe instance type offerings", "ec2:DescribeInstanceTypeOfferings",
		func(page *ec2.DescribeInstanceTypeOfferingsOutput) {
			for _, o := range page.InstanceTypeOfferings {
				t := string(o.InstanceType)
				if zones[t] == nil {
					zones[t] = map[string]bool{}
				}
				zones[t][awssdk.ToString(o.Location)] = true
			}
		})
	if err != nil {
		return nil, err
	}
	if len(types) == 0 || len(zones) == 0 {
		return nil, fmt.Errorf("region %s offers no instance types", m.o.AWS.Region)
	}
	return func(g *offers) { g.types, g.zones = types, zones }, nil
}
