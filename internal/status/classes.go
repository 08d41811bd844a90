package status

import (
	"context"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/internal/lifecycle/latest"
)

// Classes reads EC2NodeClasses from the cache, or as they were just written.
type Classes struct {
	reader client.Reader
	wrote  latest.Objects[*ec2v1.EC2NodeClass]
}

// NewClasses reads from a cache.
func NewClasses(reader client.Reader) *Classes { return &Classes{reader: reader} }

// Get is a class by name; nil if there is none, or the cache does not know yet. It must not be modified.
func (c *Classes) Get(name string) *ec2v1.EC2NodeClass {
	class := &ec2v1.EC2NodeClass{}
	if err := c.reader.Get(context.Background(), client.ObjectKey{Name: name}, class); err != nil {
		return nil
	}
	return c.wrote.Of(class)
}
