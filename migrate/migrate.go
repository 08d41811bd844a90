package migrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
)

// GlobalSettings is the ConfigMap that configured Karpenter's controller until v0.32.
const GlobalSettings = "karpenter-global-settings"

// Options supply what manifests do not say.
type Options struct {
	NodeRole string // IAM role of nodes, for classes without an instance profile
	Static   bool   // node groups keep their size: NodePools with replicas
	Widen    bool   // node groups may have other instance types of the same kind, as large or larger
}

// Input is a text with manifests.
type Input struct {
	Name string // of the file
	io.Reader
	Live bool // not a file: Name says where the objects are
}

// Object is a manifest to write.
type Object struct {
	Value map[string]any
	from  string // the object it was made from
}

// Unfinished reports whether the object has a placeholder for something that is needed and that the input does not
// say.
func (o *Object) Unfinished() bool {
	text, err := json.Marshal(o.Value)
	return err != nil || bytes.Contains(text, []byte(placeholder))
}

// MarshalJSON writes only the manifest.
func (o *Object) MarshalJSON() ([]byte, error) { return json.Marshal(o.Value) }

// Workload reports whether the object has pods, which a change to it may restart.
func (o *Object) Workload() bool { return slices.Contains(workloads, text(o.Value["kind"])) }

// Title names the object: "NodePool default".
func (o *Object) Title() string {
	return text(o.Value["kind"]) + " " + text(child(o.Value, "metadata")["name"])
}

// Result is the outcome of a migration.
type Result struct {
	Objects []*Object `json:"objects"`
	Notes   []Note    `json:"notes"`
	Skipped []Note    `json:"skipped,omitempty"` // objects of kinds that are not read
	Nodes   []Nodes   `json:"-"`                 // those that the input launched
}

// Nodes identifies the Nodes of a node group or Provisioner: by a label, or by their instances.
type Nodes struct {
	Label, Value string
	Instances    []string // IDs
}

// Empty reports whether the input has no object.
func (r *Result) Empty() bool { return len(r.Objects)+len(r.Notes)+len(r.Skipped) == 0 }

// Failed reports whether an object could not be migrated.
func (r *Result) Failed() bool {
	return slices.ContainsFunc(r.Notes, func(n Note) bool { return n.Fate == Failed })
}

type migration struct {
	o        Options
	notes    []Note
	settings settings
	classes  map[string]*Object

	kops       map[string]*kopsCluster // by name
	templates  launchTemplates
	managed    map[string]bool // names of managed node groups
	autoscaler *autoscaler     // nil = not among the manifests
	priorities priorities
	pools      []*pool
	others     []*Object // unchanged, or with other labels
	nodes      []Nodes
}

// Run migrates manifests. It fails if a text cannot be read; the Result says what objects lack.
func Run(inputs []Input, o Options) (*Result, error) {
	var documents []*document
	for _, in := range inputs {
		more, err := read(&in)
		if err != nil {
			return nil, err
		}
		documents = append(documents, more...)
	}
	m := &migration{
		o: o, notes: []Note{}, classes: map[string]*Object{}, kops: map[string]*kopsCluster{}, managed: map[string]bool{},
	}
	out := &Result{Objects: []*Object{}}
	documents = slices.DeleteFunc(documents, m.setting)
	for _, d := range documents {
		if !m.object(d) {
			out.Skipped = append(out.Skipped, Note{
				File: d.file, Line: d.line, Object: d.title(), Field: "", Fate: Dropped,
				Why: fmt.Sprintf("%s %s is not read", d.apiVersion(), d.kind()),
			})
		}
	}
	m.settleKubelets()
	for _, name := range slices.Sorted(maps.Keys(m.classes)) {
		out.Objects = append(out.Objects, m.classes[name])
	}
	for _, p := range m.pools {
		out.Objects = append(out.Objects, p.Object)
	}
	out.Objects, out.Notes, out.Nodes = append(out.Objects, m.others...), m.notes, m.nodes
	return out, nil
}

// readers migrate objects, by API group and kind. Objects of v1 are kept unchanged.
var readers = map[string]func(*migration, *document){
	"karpenter.sh/Provisioner":      (*migration).provisioner,
	"karpenter.sh/NodePool":         (*migration).nodePool,
	"karpenter.sh/Machine":          (*migration).claim,
	"karpenter.sh/NodeClaim":        (*migration).claim,
	classGroup + "/AWSNodeTemplate": (*migration).awsNodeTemplate,
	classGroup + "/" + classKind:    (*migration).nodeClass,
	kopsGroup + "/InstanceGroup":    (*migration).instanceGroup,
	eksctlGroup + "/ClusterConfig":  (*migration).clusterConfig,
	awsGroup + "/AutoScalingGroup":  (*migration).autoScalingGroup,
	awsGroup + "/Nodegroup":         (*migration).managedGroup,
	awsGroup + "/FargateProfile":    (*migration).profileAnswer,
}

// settingReaders read the kinds of objects that others depend on.
var settingReaders = map[string]func(*migration, *document){
	kopsGroup + "/Cluster":       (*migration).kopsCluster,
	awsGroup + "/LaunchTemplate": func(m *migration, d *document) { m.templates.read(d.fields(&m.notes)) },
	awsGroup + "/LaunchConfiguration": func(m *migration, d *document) {
		m.templates.readConfiguration(d.fields(&m.notes))
	},
	"/ConfigMap/" + GlobalSettings:   func(m *migration, d *document) { m.settings.read(d.fields(&m.notes)) },
	"/ConfigMap/" + PriorityExpander: func(m *migration, d *document) { m.priorities.read(d.fields(&m.notes)) },
}

// settingReader returns what reads an object that others depend on; nil if d is another one.
func settingReader(d *document) func(*migration, *document) {
	group, _ := d.group()
	kind := group + "/" + d.kind()
	if kind == "/ConfigMap" {
		kind += "/" + d.name()
	}
	return settingReaders[kind]
}

// setting reads an object that other objects depend on, and reports whether d is one.
func (m *migration) setting(d *document) bool {
	if read := settingReader(d); read != nil {
		read(m, d)
		return true
	}
	group, _ := d.group()
	switch group + "/" + d.kind() {
	case awsGroup + "/Nodegroup":
		m.managed[text(d.object["nodegroupName"])] = true
	case "apps/Deployment":
		return m.clusterAutoscaler(d)
	}
	return false
}

// object migrates one object, and reports whether its kind is read.
func (m *migration) object(d *document) bool {
	group, version := d.group()
	read := readers[group+"/"+d.kind()]
	switch {
	case group == "nodeless.sh":
		m.others = append(m.others, &Object{Value: d.object, from: d.title()})
	case read == nil:
		return m.workload(d)
	case version == "v1" && d.kind() == classKind:
		m.classes[d.name()] = &Object{Value: d.object, from: d.title()}
	case version == "v1" && d.kind() == "NodePool":
		m.others = append(m.others, &Object{Value: d.object, from: d.title()})
	default:
		read(m, d)
	}
	return true
}

// claim drops a Machine or NodeClaim.
func (m *migration) claim(d *document) {
	d.fields(&m.notes).note(Dropped, "", "",
		"Karpenter made it, and the controller makes its own: it is no manifest to apply")
}

func (m *migration) awsNodeTemplate(d *document) {
	f := d.fields(&m.notes)
	m.nodeTemplate(f.object("spec"), d)
	f.rest()
}

// named returns an object with the name, labels and annotations of d.
func (d *document) named(apiVersion, kind string) *Object {
	metadata := map[string]any{"name": d.name()}
	for _, key := range []string{"labels", "annotations"} {
		kept := maps.Clone(child(child(d.object, "metadata"), key))
		maps.DeleteFunc(kept, func(k string, _ any) bool {
			return slices.Contains([]string{
				"karpenter.sh/provisioner-hash", "karpenter.sh/nodepool-hash",
				"karpenter.k8s.aws/nodetemplate-hash", "karpenter.k8s.aws/ec2nodeclass-hash",
				"karpenter.sh/nodepool-hash-version", "karpenter.k8s.aws/ec2nodeclass-hash-version",
				"compatibility.karpenter.sh/v1beta1-kubelet-conversion",
			}, k)
		})
		if len(kept) > 0 {
			metadata[key] = kept
		}
	}
	return &Object{Value: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}, from: d.title()}
}

// settleKubelets moves the kubelet settings of pools to their classes. Pools with different settings get their own
// classes.
func (m *migration) settleKubelets() {
	settled := map[string]bool{}
	for _, p := range m.pools {
		if m.settings.morePods && p.kubelet["maxPods"] == nil {
			p.kubelet = put(p.kubelet, "maxPods", 110)
		}
		class := m.classes[p.class]
		f := &fields{from: p.from, notes: &m.notes}
		if class == nil {
			if len(p.kubelet) > 0 {
				f.note(Approximated, "kubelet", classKind+" "+p.class+": spec.kubelet",
					"the class is not among the manifests: give it these settings")
			}
			continue
		}
		have := child(child(class.Value, "spec"), "kubelet")
		switch {
		case !settled[p.class] && len(have) == 0:
			set(class.Value, p.kubelet, "spec", "kubelet")
		case !reflect.DeepEqual(have, p.kubelet) && len(have)+len(p.kubelet) > 0:
			own := p.class + "-" + p.from.name()
			f.note(Approximated, "kubelet", classKind+" "+own, "another pool of "+classKind+" "+p.class+
				" has other kubelet settings, so this one has a class of its own")
			m.classes[own] = copyOf(class, own, p.kubelet)
			set(p.Value, classRef(own), "spec", "template", "spec", "nodeClassRef")
		}
		settled[p.class] = true
	}
}

// copyOf returns a copy of a class with another name and other kubelet settings.
func copyOf(class *Object, name string, kubelet map[string]any) *Object {
	value, spec := maps.Clone(class.Value), maps.Clone(child(class.Value, "spec"))
	metadata := maps.Clone(child(class.Value, "metadata"))
	metadata["name"] = name
	delete(spec, "kubelet")
	value["metadata"], value["spec"] = metadata, spec
	set(value, kubelet, "spec", "kubelet")
	return &Object{Value: value, from: class.from}
}
