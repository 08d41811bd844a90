package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// placeholder is the prefix of text that stands for something needed that the input does not say.
const placeholder = "REPLACE-WITH-"

// rolePlaceholder stands for an unknown role of nodes.
const rolePlaceholder = placeholder + "THE-ROLE-OF-NODES"

// nodeTemplate migrates the spec of an AWSNodeTemplate, or the provider of a Provisioner, which has the same fields.
func (m *migration) nodeTemplate(spec *fields, d *document) {
	o := d.named(classVersion, classKind)
	out := map[string]any{}
	if spec.take("launchTemplate") != nil {
		spec.note(Failed, "launchTemplate", "", "launch templates of one's own are not supported any more: write their "+
			"image, user data and security groups into the EC2NodeClass")
	}
	out["subnetSelectorTerms"] = m.selector(spec, "subnetSelector")
	out["securityGroupSelectorTerms"] = m.selector(spec, "securityGroupSelector")
	m.images(spec, out)
	m.identity(spec, out)
	m.metadataOptions(spec, out)
	m.copyClassFields(spec, out)
	tags, _ := out["tags"].(map[string]any)
	if merged := maps.Clone(m.settings.tags); len(merged) > 0 {
		maps.Copy(merged, tags)
		out["tags"] = merged
	}
	o.Value["spec"] = out
	m.classes[d.name()] = o
}

// copyClassFields copies the fields that have not changed.
func (m *migration) copyClassFields(spec *fields, out map[string]any) {
	for _, key := range []string{
		"userData", "tags", "blockDeviceMappings", "detailedMonitoring", "context", "associatePublicIPAddress",
		"instanceStorePolicy",
	} {
		if v := spec.move(key, "spec."+key); v != nil {
			out[key] = v
		}
	}
	if tags, ok := out["tags"].(map[string]any); ok {
		for k, v := range tags {
			tags[k] = text(v)
		}
	}
}

// selector migrates a selector: all of its tags must match, and a comma in a value means or.
func (m *migration) selector(spec *fields, key string) []any {
	v := spec.object(key)
	if v.value == nil {
		if key != "amiSelector" {
			spec.note(Failed, key, "", "it is required: say which ones nodes have, by their tags")
		}
		return []any{}
	}
	to := "spec." + key + "Terms"
	var ids []any
	terms := []map[string]any{{}}
	for _, tag := range slices.Sorted(maps.Keys(v.value)) {
		values := commas(text(v.move(tag, to)))
		switch tag {
		case "aws-ids", "aws::ids":
			for _, id := range values {
				ids = append(ids, map[string]any{"id": id})
			}
			continue
		case "aws::name", "aws::owners":
			terms = product(terms, strings.TrimSuffix(strings.TrimPrefix(tag, "aws::"), "s"), "", values)
			continue
		}
		terms = product(terms, "tags", tag, values)
	}
	if len(ids) > 0 {
		if len(v.value) > 1 {
			spec.note(Approximated, key, to,
				"IDs and tags had to match both; a term has one or the other, so the IDs count alone")
		}
		return ids
	}
	out := make([]any, 0, len(terms))
	for _, t := range terms {
		out = append(out, t)
	}
	return out
}

// product returns each term with each of the values at a key or, unless tag is "", at that key of an object.
func product(terms []map[string]any, key, tag string, values []string) []map[string]any {
	var out []map[string]any
	for _, term := range terms {
		for _, value := range values {
			next := maps.Clone(term)
			if tag == "" {
				next[key] = value
			} else {
				tags := maps.Clone(child(next, key))
				next[key] = put(tags, tag, value)
			}
			out = append(out, next)
		}
	}
	return out
}

// families are the AMI families that have an alias.
var families = map[string]string{
	"AL2": "al2", "AL2023": "al2023", "Bottlerocket": "bottlerocket", "Windows2019": "windows2019",
	"Windows2022": "windows2022", "Windows2025": "windows2025",
}

// images migrates amiFamily and amiSelector.
func (m *migration) images(spec *fields, out map[string]any) {
	family := text(spec.take("amiFamily"))
	if family == "" {
		family = "AL2"
		spec.note(Added, "amiFamily", "spec.amiSelectorTerms", "AL2 was the default")
	} else {
		spec.note(Mapped, "amiFamily", "spec.amiSelectorTerms", "")
	}
	terms := m.selector(spec, "amiSelector")
	m.familyAndTerms(spec, out, family, terms)
}

// familyAndTerms sets the images of a class from its family and from terms, which are empty for the family's newest
// images.
func (m *migration) familyAndTerms(spec *fields, out map[string]any, family string, terms []any) {
	alias, known := families[family]
	switch {
	case family == "":
		spec.note(Failed, "amiFamily", "spec.amiFamily", "it is required: say how the images start")
	case family == "Ubuntu":
		family = "AL2"
		spec.note(Approximated, "amiFamily", "spec.amiFamily",
			"Ubuntu is no family any more: its images start as AL2's do")
		if len(terms) == 0 {
			spec.note(Failed, "amiFamily", "spec.amiSelectorTerms",
				"Ubuntu has no alias: name its images by id, or by name and owner")
		}
	case len(terms) == 0 && known:
		terms, family = []any{map[string]any{"alias": alias + "@latest"}}, ""
	case len(terms) == 0:
		spec.note(Failed, "amiFamily", "spec.amiSelectorTerms",
			"images of the family "+family+" have to be named: by id, by "+
				"name and owner, or by tags")
	}
	if alias == "al2" {
		spec.note(Warning, "amiFamily", "spec.amiSelectorTerms",
			"there are no AL2 images for Kubernetes 1.33 and later: use "+
				"the alias al2023@latest, whose user data is a NodeConfig")
	}
	if family != "" {
		out["amiFamily"] = family
	}
	out["amiSelectorTerms"] = terms
}

// identity migrates instanceProfile. Without one, it uses Options.NodeRole or the settings.
func (m *migration) identity(spec *fields, out map[string]any) {
	profile := spec.move("instanceProfile", "spec.instanceProfile")
	switch {
	case profile != nil:
		out["instanceProfile"] = profile
	case m.o.NodeRole != "":
		out["role"] = m.o.NodeRole
	case m.settings.instanceProfile != "":
		out["instanceProfile"] = m.settings.instanceProfile
		spec.note(Mapped, "instanceProfile", "spec.instanceProfile", "from aws.defaultInstanceProfile of the settings")
	default:
		out["role"] = rolePlaceholder
		spec.note(Warning, "instanceProfile", "spec.role",
			"nodes need a role or an instance profile: name it with --node-role")
	}
}

// metadataOptions writes out the earlier defaults: pods reached the metadata service through one more hop.
func (m *migration) metadataOptions(spec *fields, out map[string]any) {
	options := map[string]any{
		"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 2, "httpTokens": "required",
	}
	old := spec.object("metadataOptions")
	for _, key := range slices.Sorted(maps.Keys(options)) {
		if v := old.move(key, "spec.metadataOptions."+key); v != nil {
			options[key] = v
		} else if key == "httpPutResponseHopLimit" {
			spec.note(Added, "metadataOptions."+key, "spec.metadataOptions."+key,
				"the default was 2 and is now 1, with which pods "+
					"cannot reach the metadata service")
		}
	}
	out["metadataOptions"] = options
}

// nodeClass migrates an EC2NodeClass of v1beta1.
func (m *migration) nodeClass(d *document) {
	f := d.fields(&m.notes)
	spec := f.object("spec")
	o, out := d.named(classVersion, classKind), map[string]any{}
	for _, key := range []string{"subnetSelectorTerms", "securityGroupSelectorTerms"} {
		if v := spec.move(key, "spec."+key); v != nil {
			out[key] = v
		}
	}
	terms := spec.list("amiSelectorTerms")
	if len(terms) > 0 {
		spec.note(Mapped, "amiSelectorTerms", "spec.amiSelectorTerms", "")
	}
	m.familyAndTerms(spec, out, text(spec.move("amiFamily", "spec.amiSelectorTerms")), terms)
	if role := spec.move("role", "spec.role"); role != nil {
		out["role"] = role
	} else {
		m.identity(spec, out)
	}
	m.metadataOptions(spec, out)
	m.copyClassFields(spec, out)
	f.rest()
	o.Value["spec"] = out
	m.classes[d.name()] = o
}

// settings are those of the ConfigMap GlobalSettings that now belong to classes.
type settings struct {
	tags            map[string]any
	instanceProfile string
	morePods        bool // pods are not limited by network interfaces
}

func (s *settings) read(f *fields) {
	f.taken["immutable"] = true
	data := f.object("data")
	s.instanceProfile = text(data.move("aws.defaultInstanceProfile", classKind+" spec.instanceProfile"))
	s.morePods = text(data.move("aws.enableENILimitedPodDensity", classKind+" spec.kubelet.maxPods")) == "false"
	data.drop("aws.enablePodENI", "pod-eni is known from the instance types")
	for _, key := range slices.Sorted(maps.Keys(data.value)) {
		if tag, ok := strings.CutPrefix(key, "aws.tags."); ok {
			s.tags = put(s.tags, tag, text(data.move(key, classKind+" spec.tags")))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(data.value)) {
		if !data.taken[key] {
			data.drop(key,
				"it is a setting of the controller: "+fmt.Sprintf("--%s or the variable %s", flagOf(key), variableOf(key)))
		}
	}
	f.rest()
}

// flagOf returns the flag of "nodeless run" for a global setting: interruption-queue for aws.interruptionQueueName.
func flagOf(setting string) string {
	setting = strings.TrimPrefix(setting, "aws.")
	if setting == "interruptionQueueName" {
		return "interruption-queue"
	}
	var b strings.Builder
	for i, r := range setting {
		if r >= 'A' && r <= 'Z' && i > 0 && setting[i-1] >= 'a' && setting[i-1] <= 'z' {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

func variableOf(setting string) string {
	return strings.ToUpper(strings.ReplaceAll(flagOf(setting), "-", "_"))
}
