package region

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go.etcd.io/bbolt"
)

// restore reads the state file and takes up every instance where it was: what fell due meanwhile happens now. The caller
// holds the lock.
func (r *Region) restore() error {
	if r.store.db == nil {
		return nil
	}
	err := sturdy(func() error { return r.store.db.View(r.read) })
	if err != nil {
		return fmt.Errorf("region %s: state file %s is damaged: %w; delete it, or everything with `nodeless down --wipe`", r.c.Name, r.store.db.Path(), err)
	}
	slices.SortFunc(r.order, func(a, b string) int { return cmp.Compare(sequencePart(a), sequencePart(b)) })
	for _, q := range r.queues {
		slices.SortFunc(q.messages, func(a, b *Message) int { return cmp.Compare(a.Sequence, b.Sequence) })
	}
	r.dropUserData()
	for _, id := range r.order {
		r.catchUp(r.instances[id])
	}
	return r.commit()
}

func (r *Region) read(tx *bbolt.Tx) error {
	for _, b := range buckets {
		err := tx.Bucket([]byte(b)).ForEach(func(k, v []byte) error {
			if err := r.restoreRecord(b, string(k), v); err != nil {
				return fmt.Errorf("%s %q: %w", b, k, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Region) restoreRecord(bucket, key string, value []byte) error {
	switch bucket {
	case bucketMeta:
		return r.restoreMeta(key, value)
	case bucketUserData:
		return unmarshalInto(r.userData, key, value)
	case bucketInstances:
		return r.restoreInstance(key, value)
	case bucketTokens:
		return unmarshalInto(r.tokens, key, value)
	case bucketTemplates:
		return unmarshalInto(r.templates, key, value)
	case bucketTags:
		return unmarshalInto(r.tags, key, value)
	case bucketQueues:
		return unmarshalInto(r.queues, key, value)
	case bucketMessages:
		return r.restoreMessage(key, value)
	case bucketProfiles:
		return unmarshalInto(r.profiles, key, value)
	case bucketFaults:
		return unmarshalInto(r.faults, key, value)
	case bucketRules:
		return unmarshalInto(r.rules, key, value)
	case bucketSizes:
		f := strings.Fields(key)
		if len(f) != 3 {
			return errors.New("not a pool")
		}
		return unmarshalInto(r.sizes, Pool{f[0], f[1], f[2]}, value)
	case bucketPods:
		if err := unmarshalInto(r.podIPs, key, value); err != nil {
			return err
		}
		p := r.podIPs[key]
		r.holdPod(key, p.InstanceID)
		r.occupy(p.SubnetID, p.IP)
	}
	return nil
}

func (r *Region) restoreMeta(key string, value []byte) error {
	if subnet, ok := strings.CutPrefix(key, metaNext); ok {
		var next netip.Addr
		if err := json.Unmarshal(value, &next); err != nil {
			return err
		}
		if a := r.addresses[subnet]; a != nil && a.prefix.Contains(next) {
			a.next = next
		}
		return nil
	}
	if key == metaCluster {
		return json.Unmarshal(value, &r.cluster)
	}
	return json.Unmarshal(value, &r.sequence)
}

func (r *Region) restoreInstance(id string, value []byte) error {
	x := record{Instance: &Instance{}}
	if err := json.Unmarshal(value, &x); err != nil {
		return err
	}
	i := x.Instance
	if x.UserData != "" {
		data, ok := r.userData[x.UserData]
		if !ok {
			return fmt.Errorf("user data %s is missing", x.UserData)
		}
		i.UserData = data
	}
	r.instances[id] = i
	r.order = append(r.order, id)
	if i.active() {
		r.pools[i.pool()]++
	}
	if i.State != Terminated {
		r.occupy(i.SubnetID, i.PrivateIP)
	}
	return nil
}

func (r *Region) restoreMessage(key string, value []byte) error {
	name, _, _ := strings.Cut(key, "/")
	m := &Message{}
	if err := json.Unmarshal(value, m); err != nil {
		return err
	}
	q := r.queues[name]
	if q == nil {
		return fmt.Errorf("its queue %q is missing", name)
	}
	q.messages = append(q.messages, m)
	return nil
}

// dropUserData forgets user data that no instance has any more.
func (r *Region) dropUserData() {
	kept := map[string]bool{}
	for _, i := range r.instances {
		kept[hashOf(i.UserData)] = true
	}
	for hash := range r.userData {
		if !kept[hash] {
			delete(r.userData, hash)
			r.store.remove(bucketUserData, hash)
		}
	}
}

func unmarshalInto[K comparable, T any](m map[K]T, key K, value []byte) error {
	var v T
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	m[key] = v
	return nil
}

// occupy marks an address of a subnet as taken.
func (r *Region) occupy(subnet string, ip netip.Addr) {
	if a := r.addresses[subnet]; a != nil {
		a.used[ip] = true
	}
}
