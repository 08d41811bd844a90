package region

import "time"

// ClusterInfo is what EKS knows about the cluster.
type ClusterInfo struct {
	Name, Version, Endpoint, CA /* PEM */, ServiceCIDR string
	Issuer                                             string    // of service accounts' tokens; "" = unknown
	CreatedAt                                          time.Time // SetCluster keeps that of a known cluster
	AutoMode                                           *AutoMode // nil = off
}

// AutoMode is the EKS Auto Mode configuration of a cluster.
type AutoMode struct {
	NodePools []string // the built-in ones that are enabled
	NodeRole  string   // name
}

// cluster is EKS, which has at most one cluster.
type cluster struct {
	*core
	queues *queues
	info   ClusterInfo
}

func newCluster(c *core, q *queues) *cluster { return &cluster{core: c, queues: q} }

// SetCluster sets the cluster that EKS knows and creates its interruption queue. A cluster of the same name keeps its
// creation time.
func (s *cluster) SetCluster(info ClusterInfo) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if info.CreatedAt = s.info.CreatedAt; info.Name != s.info.Name || info.CreatedAt.IsZero() {
		info.CreatedAt = s.clock.Now()
	}
	s.info = info
	s.queues.ensure(info.Name)
	s.store.put(bucketMeta, metaCluster, info)
	return s.commit()
}

// Cluster is EKS's DescribeCluster.
func (s *cluster) Cluster(name string) (ClusterInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.info.Name == "" || s.info.Name != name {
		return ClusterInfo{}, apiError("ResourceNotFoundException", "No cluster found for name: %s.", name)
	}
	return s.info, nil
}

// Clusters returns the names of EKS's clusters.
func (s *cluster) Clusters() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.info.Name == "" {
		return nil
	}
	return []string{s.info.Name}
}
