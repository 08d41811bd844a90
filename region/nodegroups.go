package region

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Nodegroup is an EKS managed node group: a launch template and an Auto Scaling group that EKS manages for it.
type Nodegroup struct {
	Name, Cluster, ARN string
	NodegroupSettings
	ImageID, Release string
	Version          string // of Kubernetes
	CreatedAt        time.Time
	ModifiedAt       time.Time
	TemplateID       string // of the launch template that EKS created; "" = none
	Group            string // name of the Auto Scaling group; "" = none
	Invalid          string // what is wrong with the user's template, so that EKS created neither; "" = nothing
	Created          bool   // it has reached its desired capacity once
	Deleting         bool
	Updates          []NodegroupUpdate // newest last
}

// NodegroupSettings holds the parameters of CreateNodegroup.
type NodegroupSettings struct {
	ClientToken                           string `json:"-"` // of CreateNodegroup
	Min, Max, Desired                     int
	InstanceTypes                         []string
	Spot                                  bool
	AMIType                               string
	DiskGiB                               int
	Subnets                               []string
	Role                                  string
	Labels                                map[string]string
	Taints                                []NodegroupTaint
	Tags                                  map[string]string
	Template                              TemplateRef // the user's own
	WantRelease                           string      // of the image, "" for the newest
	MaxUnavailable, MaxUnavailablePercent int
	Drain                                 bool // a client drains nodes and answers DrainHook
}

// NodegroupTaint is a taint of a node group's nodes. Effect is spelt as in Kubernetes.
type NodegroupTaint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// NodegroupUpdate is a change of a node group, which the region applies at once.
type NodegroupUpdate struct {
	ID, Type string
	At       time.Time
	Params   map[string]string
}

// maxNodegroups is EKS's quota per cluster ("Amazon EKS service quotas").
const maxNodegroups = 30

// nodegroups is EKS's managed node groups.
type nodegroups struct {
	*core
	tokens    *tokens
	cluster   *cluster
	scaling   *autoScaling
	templates *templates
	images    *images
	byName    map[string]*Nodegroup
}

func newNodegroups(c *cluster, s *autoScaling, i *images) *nodegroups {
	return &nodegroups{
		core: c.core, tokens: s.launches.launcher.tokens, cluster: c, scaling: s,
		templates: s.launches.launcher.templates, images: i,
		byName: map[string]*Nodegroup{},
	}
}

// status returns the state of a node group whose Auto Scaling group has the capacity serving in service.
func (n *Nodegroup) status(serving int) string {
	switch {
	case n.Deleting:
		return "DELETING"
	case n.Invalid != "":
		return "CREATE_FAILED"
	case !n.Created && serving < n.Desired:
		return "CREATING"
	}
	return "ACTIVE"
}

// NodegroupState is a node group as DescribeNodegroup shows it.
type NodegroupState struct {
	Nodegroup
	Status string // CREATING, CREATE_FAILED, ACTIVE, DEGRADED or DELETING
	Issue  string // why the node group was not created, or why instances cannot be launched; "" if neither
}

// Nodegroups returns a cluster's node groups, by name.
func (s *nodegroups) Nodegroups(cluster string) ([]NodegroupState, error) {
	if _, err := s.cluster.Cluster(cluster); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []NodegroupState
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		if n := s.byName[name]; s.look(n) {
			out = append(out, s.state(n))
		}
	}
	return out, s.commit()
}

// look updates a node group from its Auto Scaling group. It returns false if that is gone, and then removes the node
// group.
func (s *nodegroups) look(n *Nodegroup) bool {
	g := s.scaling.groups[n.Group]
	switch {
	case n.Invalid != "" && !n.Deleting: // it never had one
		return true
	case g == nil: // deleted by EKS or directly
		if t := s.templates.byID[n.TemplateID]; t != nil {
			delete(s.templates.byID, t.ID)
			s.store.remove(bucketTemplates, t.ID)
		}
		delete(s.byName, n.Name)
		s.store.remove(bucketNodegroups, n.Name)
		return false
	case !n.Created && s.scaling.serving(g) >= g.Desired:
		n.Created = true
		s.save(n)
	}
	return true
}

func (s *nodegroups) state(n *Nodegroup) NodegroupState {
	if n.Invalid != "" {
		return NodegroupState{Nodegroup: *n, Status: n.status(0), Issue: n.Invalid}
	}
	g := s.scaling.groups[n.Group]
	out := NodegroupState{Nodegroup: *n, Status: n.status(s.scaling.serving(g))}
	// Sizes come from the Auto Scaling group, where Cluster Autoscaler sets them.
	out.Min, out.Max, out.Desired = g.Min, g.Max, g.Desired
	if g.Failures > 0 {
		list := s.scaling.activities[g.Name]
		out.Issue = list[len(list)-1].Message
		if out.Status == "ACTIVE" {
			out.Status = "DEGRADED"
		}
	}
	return out
}

func (s *nodegroups) save(n *Nodegroup) { s.store.put(bucketNodegroups, n.Name, n) }

// find finds a node group that still exists.
func (s *nodegroups) find(name string) (*Nodegroup, error) {
	if n := s.byName[name]; n != nil && s.look(n) {
		return n, nil
	}
	return nil, apiError("ResourceNotFoundException", "No node group found for name: %s.", name)
}

// CreateNodegroup creates a node group. Its instances boot as nodes of the cluster. The same client token returns the
// same node group again.
func (s *nodegroups) CreateNodegroup(cluster, name string, want NodegroupSettings) (NodegroupState, error) {
	if _, err := s.cluster.Cluster(cluster); err != nil {
		return NodegroupState{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	arn, remember, err := s.tokens.created("nodegroup/"+cluster+"/", want.ClientToken, []any{name, want})
	if err != nil {
		return NodegroupState{}, err
	}
	if old := s.byName[name]; old != nil && s.look(old) {
		if old.ARN == arn {
			return s.state(old), s.commit()
		}
		return NodegroupState{}, apiError("ResourceInUseException",
			"NodeGroup already exists with name %s and cluster name %s", name, cluster)
	}
	n := &Nodegroup{
		Name: name, Cluster: cluster, NodegroupSettings: want, CreatedAt: s.clock.Now(), ModifiedAt: s.clock.Now(),
		Version: MinorVersion(s.cluster.info.Version),
	}
	if err := s.check(n); err != nil {
		return NodegroupState{}, err
	}
	// EKS looks up the default version once: later defaults do not change the node group.
	if _, number, err := s.templates.number(n.Template.ID, n.Template.Name, n.Template.Version); err == nil {
		n.Template.Version = strconv.Itoa(number)
	}
	id := s.scaling.newUUID()
	n.ARN = fmt.Sprintf("arn:aws:eks:%s:%s:nodegroup/%s/%s/%s", s.config.Name, AccountID, cluster, name, id)
	n.Group = "eks-" + name + "-" + id
	if err := s.build(n); err != nil {
		return NodegroupState{}, err
	}
	s.byName[name] = n
	s.save(n)
	remember(n.ARN)
	return s.state(n), s.commit()
}

// MinorVersion returns the version of a cluster's node groups: 1.34 of 1.34.2, and the newest that has images of "".
func MinorVersion(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return kubernetesVersions[len(kubernetesVersions)-1]
	}
	return parts[0] + "." + parts[1]
}

// check validates a node group and sets its instance types and image.
func (s *nodegroups) check(n *Nodegroup) error {
	invalid := func(format string, args ...any) error { return apiError("InvalidParameterException", format, args...) }
	if len(s.byName) >= maxNodegroups {
		return apiError("ResourceLimitExceededException", "The cluster has %d node groups, its maximum", maxNodegroups)
	}
	if err := checkSizes(n.Min, n.Max, n.Desired); err != nil {
		return err
	}
	switch {
	case n.Name == "" || len(n.Name) > 63:
		return invalid("nodegroupName must have 1 to 63 characters")
	case len(n.Subnets) == 0:
		return invalid("Subnets must not be empty")
	case !strings.HasPrefix(n.Role, "arn:aws:iam::"):
		return invalid("The provided role '%s' is not the ARN of a role", n.Role)
	}
	for key := range n.Labels {
		if strings.HasPrefix(key, "eks.amazonaws.com/") {
			return invalid("Label cannot contain reserved prefix eks.amazonaws.com: %s", key)
		}
	}
	n.InstanceTypes = s.typesOf(n)
	for _, t := range n.InstanceTypes {
		if s.scaling.launches.launcher.market.Type(t) == nil {
			return invalid("The following supplied instance types do not exist: [%s]", t)
		}
	}
	return s.findImage(n)
}

func checkSizes(least, most, desired int) error {
	switch {
	case least < 0 || most < 1:
		return apiError("InvalidParameterException", "minSize must not be negative and maxSize must be at least 1")
	case least > desired:
		return apiError("InvalidParameterException", "Minimum capacity %d can't be greater than desired size %d", least,
			desired)
	case desired > most:
		return apiError("InvalidParameterException", "desired capacity %d can't be greater than max size %d", desired, most)
	}
	return nil
}

// typesOf returns the instance types of a node group: its own, its template's, or t3.medium.
func (s *nodegroups) typesOf(n *Nodegroup) []string {
	if len(n.InstanceTypes) > 0 {
		return n.InstanceTypes
	}
	if _, data, err := s.templates.version(n.Template.ID, n.Template.Name, n.Template.Version); err == nil &&
		data.InstanceType != "" {
		return []string{data.InstanceType}
	}
	return []string{"t3.medium"}
}

// amiTypes maps the AMI types that both EKS and the region have to the prefixes of their images' names.
var amiTypes = map[string]string{
	"AL2023_x86_64_STANDARD": "amazon-eks-node-al2023-x86_64-standard-",
	"AL2023_ARM_64_STANDARD": "amazon-eks-node-al2023-arm64-standard-",
	"AL2023_x86_64_NVIDIA":   "amazon-eks-node-al2023-x86_64-nvidia-",
	"AL2023_ARM_64_NVIDIA":   "amazon-eks-node-al2023-arm64-nvidia-",
	"AL2023_x86_64_NEURON":   "amazon-eks-node-al2023-x86_64-neuron-",
}

// findImage sets the image that a node group boots.
func (s *nodegroups) findImage(n *Nodegroup) error {
	_, data, err := s.templates.version(n.Template.ID, n.Template.Name, n.Template.Version)
	switch {
	case n.Template != TemplateRef{} && err != nil:
		return apiError("InvalidRequestException", "%s", err.Error())
	case err == nil && data.ImageID != "":
		n.AMIType, n.ImageID = "CUSTOM", data.ImageID
		return nil
	case n.AMIType == "":
		n.AMIType = "AL2023_x86_64_STANDARD"
		if t := s.scaling.launches.launcher.market.Type(n.InstanceTypes[0]); t.Arch == "arm64" {
			n.AMIType = "AL2023_ARM_64_STANDARD"
		}
	}
	prefix, known := amiTypes[n.AMIType]
	if !known {
		return apiError("InvalidParameterException", "The simulated region has no images of amiType %s; there are %v",
			n.AMIType, slices.Sorted(maps.Keys(amiTypes)))
	}
	for _, image := range s.images.all {
		if strings.HasPrefix(image.Name, prefix+n.Version+"-") {
			n.ImageID, n.Release = image.ID, n.Version+"."+strings.TrimPrefix(image.Name, prefix+n.Version+"-v")
		}
	}
	if n.ImageID == "" {
		return apiError("InvalidParameterException", "The simulated region has no images of Kubernetes %s", n.Version)
	}
	if n.WantRelease != "" && n.WantRelease != n.Release {
		return apiError("InvalidParameterException", "The simulated region has of amiType %s only the releaseVersion %s",
			n.AMIType, n.Release)
	}
	for _, t := range n.InstanceTypes {
		if !s.images.fits(n.ImageID, s.scaling.launches.launcher.market.Type(t)) {
			return apiError("InvalidParameterException", "[%s] is not a valid instance type for requested amiType %s", t,
				n.AMIType)
		}
	}
	return nil
}

// build creates the launch template and the Auto Scaling group of a node group, or says in n.Invalid why EKS does not.
func (s *nodegroups) build(n *Nodegroup) error {
	t := &LaunchTemplate{
		ID: "lt-" + s.newID(), Name: n.Group, CreatedAt: s.clock.Now(), CreatedBy: "eks.amazonaws.com", Default: 1,
		Tags: n.systemTags(),
	}
	n.TemplateID = t.ID
	data, err := s.data(n)
	if err != nil {
		e := err.(*APIError) //nolint:errorlint,forcetypeassert // the region's own errors are not wrapped
		n.TemplateID, n.Group, n.Invalid = "", "", e.Message
		return nil //nolint:nilerr // the node group says it
	}
	t.Versions = []TemplateData{data}
	s.templates.replace(*t)
	mixed := &MixedInstances{
		Template: TemplateRef{ID: t.ID, Version: "$Latest"}, OnDemandPercentage: 100, OnDemandStrategy: Prioritized,
		SpotStrategy: PriceCapacityOptimized,
	}
	if n.Spot {
		mixed.OnDemandPercentage = 0
	}
	for _, name := range n.InstanceTypes {
		mixed.Overrides = append(mixed.Overrides, GroupOverride{InstanceType: name})
	}
	want := GroupSettings{
		Min: n.Min, Max: n.Max, Desired: n.Desired, Launch: GroupLaunch{Mixed: mixed}, Subnets: n.Subnets,
		Cooldown: 5 * time.Minute, HealthCheckType: "EC2", HealthCheckGrace: 15 * time.Second, CapacityRebalance: n.Spot,
		TerminationPolicies: []string{"AllocationStrategy", "OldestLaunchTemplate", "OldestInstance"},
	}
	var tags []GroupTag
	for key, value := range merged(n.systemTags(), map[string]string{
		"k8s.io/cluster-autoscaler/enabled": "true", "k8s.io/cluster-autoscaler/" + n.Cluster: "owned",
		"kubernetes.io/cluster/" + n.Cluster: "owned",
	}) {
		tags = append(tags, GroupTag{Key: key, Value: value, Propagate: true})
	}
	var hooks []LifecycleHook
	if n.Drain {
		hooks = append(hooks, LifecycleHook{
			Name: DrainHook, Transition: TransitionTerminating, DefaultResult: HookContinue, Heartbeat: 30 * time.Minute,
		})
	}
	if err := s.scaling.create(n.Group, want, tags, hooks); err != nil {
		delete(s.templates.byID, t.ID)
		s.store.remove(bucketTemplates, t.ID)
		e := err.(*APIError) //nolint:errorlint,forcetypeassert // the region's own errors are not wrapped
		return apiError("InvalidRequestException", "%s", e.Message)
	}
	return nil
}

// DrainHook is the lifecycle hook through which EKS drains a node before its instance terminates.
const DrainHook = "Terminate-LC-Hook"

// managedProfile is the prefix of the instance profiles that EKS creates for node groups. IAM does not list them here.
const managedProfile = "eks-"

func (n *Nodegroup) systemTags() map[string]string {
	return map[string]string{"eks:cluster-name": n.Cluster, "eks:nodegroup-name": n.Name}
}

// data returns the template data of a node group: the user's, plus what makes its instances join as nodes. It fails if
// the user's cannot be used.
func (s *nodegroups) data(n *Nodegroup) (TemplateData, error) {
	d := TemplateData{}
	if _, own, err := s.templates.version(n.Template.ID, n.Template.Name, n.Template.Version); err == nil {
		d = *own
	}
	d.ImageID, d.InstanceType = n.ImageID, n.InstanceTypes[0]
	if n.DiskGiB > 0 && d.Devices == nil {
		d.Devices = []BlockDevice{{Name: linuxRoot, SizeGiB: int64(n.DiskGiB)}}
	}
	if n.AMIType != "CUSTOM" {
		var err error
		if d.UserData, err = withPart(d.UserData, s.userData(n)); err != nil {
			return d, err
		}
	}
	if d.InstanceProfile == "" {
		d.InstanceProfile = managedProfile + n.Group[len("eks-"+n.Name+"-"):]
	}
	d.Tags = maps.Clone(d.Tags)
	if d.Tags == nil {
		d.Tags = map[string]map[string]string{}
	}
	d.Tags["instance"] = merged(d.Tags["instance"], n.systemTags())
	d.Raw = maps.Clone(d.Raw)
	maps.DeleteFunc(d.Raw, func(path, _ string) bool { return strings.HasPrefix(path, "TagSpecification.") })
	return d, nil
}

// withPart adds a NodeConfig to the user data of a launch template, which must be a MIME multipart document, as its
// last part (EKS user guide, "Customize managed nodes with launch templates"). Without user data it returns the
// NodeConfig alone.
func withPart(userData, nodeConfig []byte) ([]byte, error) {
	if len(userData) == 0 {
		return nodeConfig, nil
	}
	end, boundary, newline := -1, "", "\n"
	if m, err := mail.ReadMessage(bytes.NewReader(userData)); err == nil {
		kind, params, _ := mime.ParseMediaType(m.Header.Get("Content-Type")) // an error leaves no kind
		if boundary = params["boundary"]; boundary != "" && kind == "multipart/mixed" {
			end = bytes.LastIndex(userData, []byte("\n--"+boundary+"--"))
		}
	}
	if end < 0 {
		return nil, apiError("InvalidRequestException", "User data was not in the MIME multipart format.")
	}
	if before, ok := bytes.CutSuffix(userData[:end], []byte("\r")); ok {
		end, newline = len(before), "\r\n"
	}
	part := strings.Join([]string{"", "--" + boundary, "Content-Type: application/node.eks.aws", "", ""}, newline)
	return slices.Concat(userData[:end], []byte(part), nodeConfig, userData[end:]), nil
}

// userData returns the nodeadm NodeConfig with which an instance joins the cluster. JSON is valid YAML.
func (s *nodegroups) userData(n *Nodegroup) []byte {
	info, capacity := s.cluster.info, "ON_DEMAND"
	if n.Spot {
		capacity = "SPOT"
	}
	labels := merged(n.Labels, map[string]string{
		"eks.amazonaws.com/nodegroup": n.Name, "eks.amazonaws.com/nodegroup-image": n.ImageID,
		"eks.amazonaws.com/capacityType": capacity, "eks.amazonaws.com/sourceLaunchTemplateId": n.TemplateID,
	})
	var list []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, key+"="+labels[key])
	}
	config := map[string]any{}
	if len(n.Taints) > 0 {
		config["registerWithTaints"] = n.Taints
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig",
		"spec": map[string]any{
			"cluster": map[string]any{
				"name": info.Name, "apiServerEndpoint": info.Endpoint, "cidr": info.ServiceCIDR,
				"certificateAuthority": base64.StdEncoding.EncodeToString([]byte(info.CA)),
			},
			"kubelet": map[string]any{"config": config, "flags": []string{"--node-labels=" + strings.Join(list, ",")}},
		},
	})
	if err != nil { // strings always have a JSON form
		return nil
	}
	return text
}

// UpdateNodegroupConfig changes sizes, labels, taints and the update configuration of a node group. New labels and
// taints apply to instances launched from then on.
func (s *nodegroups) UpdateNodegroupConfig(
	cluster, name string, params map[string]string, change func(*NodegroupSettings) error,
) (NodegroupUpdate, error) {
	if _, err := s.cluster.Cluster(cluster); err != nil {
		return NodegroupUpdate{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.find(name)
	if err != nil {
		return NodegroupUpdate{}, err
	}
	if n.Deleting {
		return NodegroupUpdate{}, apiError("ResourceInUseException", "Nodegroup %s is being deleted", name)
	}
	if n.Invalid != "" {
		return NodegroupUpdate{}, apiError("ResourceInUseException",
			"Nodegroup cannot be updated as it is currently not in Active State")
	}
	g := s.scaling.groups[n.Group]
	want := n.NodegroupSettings
	want.Min, want.Max, want.Desired = g.Min, g.Max, g.Desired
	if err := change(&want); err != nil {
		return NodegroupUpdate{}, err
	}
	if err := checkSizes(want.Min, want.Max, want.Desired); err != nil {
		return NodegroupUpdate{}, err
	}
	if !maps.Equal(want.Labels, n.Labels) || !slices.Equal(want.Taints, n.Taints) {
		if err := s.addVersion(n, want); err != nil {
			return NodegroupUpdate{}, err
		}
	}
	n.NodegroupSettings, n.ModifiedAt = want, s.clock.Now()
	sizes := g.GroupSettings
	sizes.Min, sizes.Max, sizes.Desired = want.Min, want.Max, want.Desired
	s.scaling.set(g, sizes, "a user request update of AutoScalingGroup constraints to")
	u := NodegroupUpdate{ID: s.scaling.newUUID(), Type: "ConfigUpdate", At: s.clock.Now(), Params: params}
	n.Updates = append(n.Updates, u)
	n.Updates = n.Updates[max(len(n.Updates)-20, 0):]
	s.save(n)
	return u, s.commit()
}

// addVersion adds a version with new settings to the launch template that EKS created for a node group.
func (s *nodegroups) addVersion(n *Nodegroup, want NodegroupSettings) error {
	changed := *n
	changed.NodegroupSettings = want
	data, err := s.data(&changed)
	if err != nil {
		return err
	}
	if t := s.templates.byID[n.TemplateID]; t != nil {
		next := *t
		next.Versions = append(slices.Clone(t.Versions), data)
		next.Default = len(next.Versions)
		s.templates.replace(next)
	}
	return nil
}

// DeleteNodegroup deletes a node group with its instances.
func (s *nodegroups) DeleteNodegroup(cluster, name string) (NodegroupState, error) {
	if _, err := s.cluster.Cluster(cluster); err != nil {
		return NodegroupState{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.find(name)
	if err != nil {
		return NodegroupState{}, err
	}
	g := s.scaling.groups[n.Group]
	if !n.Deleting {
		n.Deleting = true
		out := s.state(n)
		if g != nil {
			s.scaling.deleteGroup(g) // keeps its hooks: EKS drains the nodes
		}
		s.save(n)
		return out, s.commit()
	}
	return s.state(n), nil
}
