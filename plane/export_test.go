package plane

import "context"

// CheckObjects lets tests ask what is asked when a start takes long.
func (p *Plane) CheckObjects(ctx context.Context) error { return p.etcd.checkObjects(ctx) }
