package region_test

import (
	"maps"
	"testing"

	"github.com/nodeless/nodeless/region"
)

// tagsByID returns the tags of all resources other than instances.
func (p place) tagsByID() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, s := range p.Subnets() {
		out[s.ID] = s.Tags
	}
	for _, e := range p.NetworkInterfaces() {
		out[e.ID] = e.Tags
	}
	for _, g := range p.SecurityGroups() {
		out[g.ID] = g.Tags
	}
	for _, t := range p.LaunchTemplates() {
		out[t.ID] = t.Tags
	}
	for _, r := range p.CapacityReservations() {
		out[r.ID] = r.Tags
	}
	for _, g := range p.PlacementGroups() {
		out[g.ID] = g.Tags
	}
	return out
}

func TestTagsThatAResourceIsCreatedWithAreDeleted(t *testing.T) {
	c := region.Config{Dir: t.TempDir()}
	p := seeded(t, c)
	subnet, tags := p.Subnets()[0], map[string]string{"Name": "a", "team": "web", "kept": "yes"}
	e, err1 := p.CreateNetworkInterface(region.InterfaceRequest{SubnetID: subnet.ID, Tags: tags})
	g, err2 := p.CreateSecurityGroup(region.SecurityGroupRequest{Name: "web", Description: "d", Tags: tags})
	l, err3 := p.CreateLaunchTemplate("web", region.TemplateData{}, tags)
	r, err4 := p.CreateCapacityReservation(
		region.CapacityReservationRequest{Type: "m5.large", Zone: p.zone(0), Count: 1, Tags: tags})
	pg, err5 := p.CreatePlacementGroup(region.PlacementGroup{Name: "web", Tags: tags})
	ids := []string{subnet.ID, e.ID, g.ID, l.ID, r.ID, pg.ID}
	other, web := "other", "web"
	for _, err := range []error{
		err1, err2, err3, err4, err5,
		p.CreateTags([]string{subnet.ID}, tags),
		p.CreateTags(ids, map[string]string{"added": "later"}),
		p.DeleteTags(ids, map[string]*string{"Name": nil, "team": &web, "kept": &other, "nothing": nil}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"kept": "yes", "added": "later"}
	own := maps.Clone(subnet.Tags)
	delete(own, "Name")
	maps.Copy(own, want)
	for range 2 {
		for id, have := range p.tagsByID() {
			switch {
			case id == subnet.ID && !maps.Equal(have, own):
				t.Errorf("tags of %s: %v, want %v", id, have, own)
			case id != subnet.ID && have["added"] != "" && !maps.Equal(have, want):
				t.Errorf("tags of %s: %v, want %v", id, have, want)
			}
		}
		p = p.crash(c)
	}
	if err := p.CreateTags(ids, map[string]string{"Name": "again"}); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if have := p.tagsByID()[id]; have["Name"] != "again" || have["added"] != "later" || have["team"] != "" {
			t.Errorf("tags of %s that is named again: %v", id, have)
		}
	}
}
