// Package scenario reads clusters for tests and for nodeless simulate: as scenarios, a text format for people, and as
// JSON, for cases that programs save. FormatPlan formats the plan that a scenario expects.
//
// A scenario is a cluster, a line of dashes, and the expected plan. Each line of the cluster starts with the kind of
// the declaration, followed by words, amounts as name=value, and groups in parentheses. # starts a comment. A line
// that starts with white space continues the previous one. Names, values and sentences that contain special
// characters are enclosed in double quotes. Duplicate and unknown words are errors, which name the line and the
// field.
//
//	now 2026-01-02T03:04:05Z                     # only if it matters
//	resource example.com/fpga                    # a resource that is not well known
//	namespace shop labels(team=a)
//	type c2 cpu=2 memory=4Gi pods=29 allocatable(cpu=1900m) labels(arch=amd64) offers(a spot 0.04, b on-demand 0.1
//	     out, c spot 0.04 out=45s, d spot 0.03 shifted=2h)
//	     attach(ebs=25) only(general)            # only these pools offer this type
//	     addresses(5=12, 15=18) unaddressed=93   # addresses per node in its subnet; pods without one
//	     single-addresses                        # its nodes can use scattered addresses
//	subnet s-a zone=a free=100 scattered=20     # scattered are free, too, but outside the blocks that pods get
//	reservation cr-1 type=c2 zone=a free=3 price=0.002 # its nodes have the label reservation=cr-1
//	unsettled "why no pods should be moved"      # takes effect with preflight=enforce
//	pool general weight=10 require(capacity-type=spot|on-demand) taint(gpu=true:NoSchedule) startup-taint(…)
//	     limit(cpu=10, nodes=3) usage(cpu=4, nodes=2) types(c2, c4) not-ready("why")
//	     reservations(cr-1) unread                 # its node class was not read yet
//	     disrupt(after=30s, never, when-empty, balanced, empty=1, drifted=2, underused=3) replicas=3 min-nodes=1
//	     of-group
//	     annotations(window=empty|drifted|underused, open, until=2h, unclear="why", saving=0.05, saving-percent=10,
//	     soft-expire=720h, replace-crowded,
//	     wait-for-jobs)
//	daemon proxy cpu=100m tolerate(*)            # in kube-system; otherwise namespace/name
//	pods 100 web cpu=1 memory=1Gi ns=shop labels(app=web) priority=5 age=30s …    # web-001 to web-100
//	pods 3 more as=web priority=9                # pods with the shape declared as web
//	pod shop/web-7f9c as=web uid=… priority=5 age=30s from=n1 nominated=n2 virtual
//	pods 2 next as=web expected                  # pods not created yet: Snapshot.Expected
//	pods 2 other expected template               # of which only a template is known
//	shape db cpu=4 …                             # declares no pods; for as=db and for nodes
//	node n1 pool=general type=c2 zone=a capacity-type=spot price=0.04 state=initialized labels(team=red) attach(ebs=25)
//	     taint(…) age=1h ready=10m event=5m claim=claim-n1 drifted="why" drifted-for=5m used(cpu=1) deleting
//	     cordoned do-not-disrupt
//	     unaddressed=93
//	     daemon-ports(8080)                       # of daemon pods that are yet to start there
//	     unmanaged deadline expires=2h lacks(kube-system/agent=5m) nominated=5s command=… runs(web-1 as web, proxy
//	     daemon, job terminal, db do-not-disrupt,
//	     shop/x uid=… priority=5 age=1h held="PodDisruptionBudget …" cost=2000,
//	     calc-1 as calc job=5m|10m|12m job-ends=1h)   # a Job's pod: running for 5m; earlier ones ran for 10m and 12m
//	policy max-types=3 max-steps=100 solver=first-fit preferences=respect preference-price=0.01 node-fee=0.02
//
//	     min-values=best-effort cutoff=0 spot-to-spot
//	     preflight=enforce
//	     wait-price=0.6 move-price=0.001 max-what-ifs=20 after=n7
//	     after-drifted=general=2026-01-02T03:04:05Z/n7
//
// Lines of the kinds pods, pod, shape and daemon may contain these constraints:
//
//	require(arch=arm64, node=n1) any(zone=a) any(zone=b) prefer(10 zone=c) tolerate(gpu, gpu=true:NoSchedule, *)
//	affinity(zone: app=web)                      # near pods with these labels in the same namespace
//	affinity(zone: app=web in shop|{team=a})     # in namespace shop and those with the label; {} is every namespace
//	anti(hostname: *)                            # away from every pod; - matches no pod
//	prefer-pods(+50 zone: app=web) prefer-pods(-50 hostname: app=web)
//	spread(zone skew=1 min=3 soft any-node untainted: app=web)
//	ports(8080, 10.0.0.1:53/UDP)
//	volume(data driver=ebs alone: zone=a|b, rack=1; zone=c)   # after the colon: alternative topologies
//	volume(data short="a has 5Gi": zone=b)       # its driver has too little storage elsewhere
//	blocked("why") unmodelled(resourceClaims)
//
// A requirement is key=a|b (In), key!=a|b (NotIn), key (Exists), !key (DoesNotExist), key>4, key>=4, key<4 or key<=4,
// each with an optional @n for minValues n; several requirements on one key must all hold. In requirements on nodes,
// the keys arch, os, zone, region, hostname, capacity-type, type and pool stand for the well-known labels, and node
// for the node's name; a quoted key stands for itself, as do all keys in labels of pods and namespaces.
//
// A pool without types(…) has all declared types. A node has the resources and attach limits of its type, and the
// labels of its type, pool, zone and capacity type; a node in flight has only the given labels. used(…) is the sum of
// the requests of all pods of the node; the default is the sum over the pods in runs(…) that have a shape. age, ready
// and event are durations before now; none means never. A type, pool or node with the word bare has only the labels
// (a node also only the resources) on the line.
package scenario
