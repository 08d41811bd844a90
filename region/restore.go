package region

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go.etcd.io/bbolt"
)

// restorer restores one saved record.
type restorer func(key string, value []byte) error

// bucketRestorer restores the records of a bucket.
type bucketRestorer struct {
	bucket  string
	restore restorer
}

// restorers returns the buckets in the order in which they are restored.
func (r *Region) restorers() []bucketRestorer {
	// Subnets come before what is in them, user data and capacity reservations before the instances that use them,
	// instances before their interfaces, interfaces before pods, queues before messages.
	return []bucketRestorer{
		{bucketSubnets, r.network.restoreSubnet},
		{bucketMeta, r.restoreMeta},
		{bucketUserData, into(r.instances.userData)},
		{bucketCapacityReservations, r.capacityReservations.restore},
		{bucketInstances, r.instances.restore},
		{bucketTokens, into(r.tokens.byKey)},
		{bucketTemplates, into(r.templates.byID)},
		{bucketTags, into(r.core.tags)},
		{bucketReservations, r.network.restoreReservation},
		{bucketInterfaces, r.interfaces.restore},
		{bucketPods, r.podAddresses.restore},
		{bucketSizes, r.market.restore},
		{bucketQueues, into(r.queues.byName)},
		{bucketMessages, r.queues.restore},
		{bucketProfiles, into(r.profiles.byName)},
		{bucketFaults, into(r.admission.faults)},
		{bucketSecurityGroups, r.securityGroups.restore},
		{bucketRules, into(r.securityGroups.added)},
		{bucketLoadBalancers, into(r.loadBalancing.balancers)},
		{bucketListeners, into(r.loadBalancing.listeners)},
		{bucketListenerRules, into(r.loadBalancing.rules)},
		{bucketTargetGroups, into(r.targetGroups.byARN)},
		{bucketLogGroups, into(r.logs.groups)},
		{bucketLogStreams, into(r.logs.streams)},
		{bucketLogBatches, r.logs.restoreBatch},
		{bucketGroups, into(r.autoScaling.groups)},
		{bucketConfigurations, into(r.autoScaling.configurations)},
		{bucketActivities, r.autoScaling.restoreActivity},
		{bucketNodegroups, into(r.nodegroups.byName)},
		{bucketPrincipals, into(r.principals.byName)},
		{bucketAccessKeys, into(r.principals.keys)},
		{bucketPlacementGroups, into(r.placementGroups.byID)},
		{bucketZonalShifts, into(r.zonalShifts.byID)},
	}
}

// restore reads the state file and resumes every instance. Steps that fell due in the meantime happen now.
func (r *Region) restore() error {
	if r.store.db == nil {
		return nil
	}
	err := catchPanics(func() error {
		return r.store.db.View(func(tx *bbolt.Tx) error {
			for _, s := range r.restorers() {
				err := tx.Bucket([]byte(s.bucket)).ForEach(func(k, v []byte) error {
					if err := s.restore(string(k), v); err != nil {
						return fmt.Errorf("%s %q: %w", s.bucket, k, err)
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("region %s: state file %s is damaged: %w; delete it, or everything with `nodeless down --wipe`",
			r.config.Name, r.store.db.Path(), err)
	}
	r.queues.sort()
	r.instances.resume()
	r.capacityReservations.resume()
	r.autoScaling.resume()
	r.podAddresses.resumeBranches()
	return r.commit()
}

// into restores records unchanged into a map.
func into[T any](m map[string]T) restorer {
	return func(key string, value []byte) error {
		var v T
		if err := json.Unmarshal(value, &v); err != nil {
			return err
		}
		m[key] = v
		return nil
	}
}

func (r *Region) restoreMeta(key string, value []byte) error {
	switch id, isNext := strings.CutPrefix(key, metaNext); {
	case isNext:
		var next netip.Addr
		if err := json.Unmarshal(value, &next); err != nil {
			return err
		}
		if s := r.network.subnet(id); s != nil && s.CIDR.Contains(next) {
			s.next, _ = s.offset(next)
		}
		return nil
	case key == metaCluster:
		return json.Unmarshal(value, &r.cluster.info)
	}
	return json.Unmarshal(value, &r.core.sequence)
}

func (m *market) restore(key string, value []byte) error {
	f := strings.Fields(key)
	if len(f) != 3 {
		return errors.New("not a pool")
	}
	return json.Unmarshal(value, &m.pool(Pool{f[0], f[1], f[2]}).size)
}

func (s *queues) restore(key string, value []byte) error {
	name, _, _ := strings.Cut(key, "/")
	m := &Message{}
	if err := json.Unmarshal(value, m); err != nil {
		return err
	}
	q := s.byName[name]
	if q == nil {
		return fmt.Errorf("its queue %q is missing", name)
	}
	q.messages = append(q.messages, m)
	return nil
}

// sort sorts restored messages in sending order.
func (s *queues) sort() {
	for _, q := range s.byName {
		slices.SortFunc(q.messages, func(a, b *Message) int { return cmp.Compare(a.Sequence, b.Sequence) })
	}
}

// savedInstance is an instance in the state file. Instances with the same user data, such as those of one template,
// share one saved copy of it.
type savedInstance struct {
	*Instance
	UserData string // hash; shadows the instance's
}

func (s *instances) save(i *instance) {
	if s.store.db == nil {
		return
	}
	x := savedInstance{Instance: &i.Instance}
	if len(i.UserData) > 0 {
		x.UserData = hashOf(i.UserData)
		if _, ok := s.userData[x.UserData]; !ok {
			s.userData[x.UserData] = i.UserData
			s.store.put(bucketUserData, x.UserData, i.UserData)
		}
	}
	s.store.put(bucketInstances, i.ID, x)
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

func (s *instances) restore(_ string, value []byte) error {
	x := savedInstance{Instance: &Instance{}}
	if err := json.Unmarshal(value, &x); err != nil {
		return err
	}
	if x.UserData != "" {
		data, ok := s.userData[x.UserData]
		if !ok {
			return fmt.Errorf("user data %s is missing", x.UserData)
		}
		x.Instance.UserData = data
	}
	s.take(*x.Instance)
	if x.State != Terminated {
		s.network.occupy(x.SubnetID, x.PrivateIP)
	}
	return nil
}

// resume performs the steps that are due, and drops user data that no restored instance uses.
func (s *instances) resume() {
	slices.SortFunc(s.order, func(a, b *instance) int { return cmp.Compare(sequencePart(a.ID), sequencePart(b.ID)) })
	kept := map[string]bool{}
	for _, i := range s.order {
		kept[hashOf(i.UserData)] = true
	}
	for hash := range s.userData {
		if !kept[hash] {
			delete(s.userData, hash)
			s.store.remove(bucketUserData, hash)
		}
	}
	for _, i := range s.order {
		s.catchUp(i)
	}
}
