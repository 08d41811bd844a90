package why

import (
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
)

// foreign reports whether another controller manages the NodePools and NodeClaims of a node class. A kind that Nodeless
// never serves is another's. EKS Auto Mode is run by AWS if Nodeless launches nodes of other classes here, and Auto
// Mode's NodeClaims are not of its making. Without any NodeClaim of Nodeless, answers are about what it would do.
func (q *question) foreign(class *karpv1.NodeClassReference) bool {
	if class == nil || !capture.KnownGroup(class.Group) {
		return class != nil
	}
	if class.Group != eksv1.GroupVersion.Group {
		return false
	}
	here, elsewhere, theirs := false, false, false
	for _, claim := range q.c.State.Claims() {
		same := cluster.ClassRef(claim.Spec.NodeClassRef).Group == class.Group
		ours := claim.Annotations[translate.AnnotationLaunch] != ""
		here = here || ours && same
		elsewhere = elsewhere || ours && !same
		theirs = theirs || !ours && same
	}
	return theirs && elsewhere && !here
}

// onForeign reports whether another controller manages the NodeClaim of a node.
func (q *question) onForeign(n *model.Node) bool {
	claim := q.c.State.Claim(n.Claim)
	return claim != nil && q.foreign(claim.Spec.NodeClassRef)
}

// leave answers about an object that another controller manages.
func (q *question) leave(state string, class *karpv1.NodeClassReference) {
	ref := cluster.ClassRef(class)
	q.conclude(state, NotManaged,
		"it belongs to another controller, that of %s in group %s: Nodeless neither changes nor removes it",
		ref.Kind, ref.Group)
	q.sayf("node class", "%s %s", ref.Kind, ref.Name)
	if ref.Group == eksv1.GroupVersion.Group {
		q.say("assumed", "AWS runs EKS Auto Mode here, as Nodeless has launched nodes of other classes and none of "+
			"Auto Mode's")
	}
	q.say("who can", "the controller of its node class; its log and events say more")
}
