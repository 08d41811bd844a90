package awsapi

import (
	"maps"
	"slices"

	"github.com/nodeless/nodeless/region"
)

type resourceTagXML struct {
	ResourceID   string `xml:"resourceId" filter:"resource-id"`
	ResourceType string `xml:"resourceType" filter:"resource-type"`
	Key          string `xml:"key" filter:"key"`
	Value        string `xml:"value" filter:"value"`
}

// allTags is every tag in the region.
func allTags(r *region.Region) []resourceTagXML {
	var all []resourceTagXML
	add := func(kind, id string, tags map[string]string) {
		for _, k := range slices.Sorted(maps.Keys(tags)) {
			all = append(all, resourceTagXML{ResourceID: id, ResourceType: kind, Key: k, Value: tags[k]})
		}
	}
	for _, i := range r.Instances() {
		add("instance", i.ID, i.Tags)
	}
	for _, t := range r.LaunchTemplates() {
		add("launch-template", t.ID, t.Tags)
	}
	for _, s := range r.Subnets() {
		add("subnet", s.ID, s.Tags)
	}
	for _, g := range r.SecurityGroups() {
		add("security-group", g.ID, g.Tags)
	}
	for _, i := range r.Images() {
		add("image", i.ID, i.Tags)
	}
	return all
}

func describeTags(c *call) (any, error) {
	return described(c, "tagSet", allTags(c.region), 1000,
		func(t resourceTagXML) string { return t.ResourceID + "/" + t.Key })
}

func createTags(c *call) (any, error) {
	c.form.require("ResourceId", "Tag")
	tags := c.form.tags("Tag")
	if err := c.dryRun(); err != nil {
		return nil, err
	}
	return returned{Return: true}, c.region.CreateTags(c.form.strs("ResourceId"), tags)
}

// deleteTags takes away tags by key, or by key and value where the request has one. Unlike EC2 it does not take a
// request without tags for one to delete them all.
func deleteTags(c *call) (any, error) {
	c.form.require("ResourceId", "Tag")
	tags := map[string]*string{}
	for _, t := range c.form.each("Tag") {
		t.require("Key")
		tags[t.str("Key")] = nil
		if t.has("Value") {
			value := t.str("Value")
			tags[t.str("Key")] = &value
		}
	}
	if err := c.dryRun(); err != nil {
		return nil, err
	}
	return returned{Return: true}, c.region.DeleteTags(c.form.strs("ResourceId"), tags)
}
