//go:build !noplane

package up

import "context"

// installAddons creates the add-ons that every EKS cluster starts with, and those of --cluster-addons. Existing
// objects stay as they are: their owner may have changed them, or they may be older than this cluster's add-ons.
func (l *local) installAddons(_, start context.Context) error {
	for _, set := range []struct {
		wanted     bool
		file, what string
	}{
		{l.o.addons, "addons.yaml", "Add-ons aws-node, kube-proxy and coredns"},
		{l.o.clusterAddons, "cluster-addons.yaml", "DaemonSets node-exporter, fluent-bit and ebs-csi-node"},
	} {
		if !set.wanted {
			continue
		}
		l.p.Begin("%s", set.what)
		created, err := createMissing(start, l.client, set.file, nil)
		if err != nil {
			return err
		}
		if created == 0 {
			l.p.Done("kept as they were")
			continue
		}
		l.p.Done("")
	}
	return nil
}
