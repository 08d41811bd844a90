package aws

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"golang.org/x/sync/singleflight"
)

// templateAge is how long a template is kept after its last use.
const templateAge = time.Hour

// templateCache remembers which templates exist, and deletes those that no launch uses any more: new images and
// settings need new templates, and a region holds 5,000 (Amazon EC2 user guide, "Restrictions for Amazon EC2
// launch templates").
type templateCache struct {
	*account
	creating singleflight.Group // by name

	mu     sync.Mutex
	known  map[string]time.Time // their last use
	pruned time.Time
}

// newTemplateCache returns an empty cache. It deletes nothing in its first hour, when it does not know yet which
// templates are in use.
func newTemplateCache(a *account) *templateCache {
	return &templateCache{account: a, known: map[string]time.Time{}, pruned: a.now()}
}

func (c *templateCache) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, name)
}

// ensure ensures that a template exists. Concurrent callers share one call.
func (c *templateCache) ensure(ctx context.Context, t template) error {
	select {
	case created := <-c.creating.DoChan(t.name, func() (any, error) { return nil, c.create(t) }):
		return created.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// create creates a template unless it exists. One of the same name has the same content, from which the name is
// derived.
func (c *templateCache) create(t template) error {
	c.mu.Lock()
	_, known := c.known[t.name]
	c.mu.Unlock()
	if !known {
		_, err := c.ec2.CreateLaunchTemplate(c.ctx, t.in)
		if err != nil && code(err) != "InvalidLaunchTemplateName.AlreadyExistsException" {
			return wrapLaunch("create launch template", "ec2:CreateLaunchTemplate", err)
		}
	}
	c.noteUse(t.name)
	return nil
}

// noteUse notes that a launch uses a template. Once an hour it starts to delete the unused ones.
func (c *templateCache) noteUse(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.known[name] = now
	if now.Sub(c.pruned) < templateAge {
		return
	}
	c.pruned = now
	go func() {
		if err := c.delete(c.ctx, "*", c.unused); err != nil {
			c.log.Warn("unused launch templates are left; retrying in an hour", "error", err)
		}
	}()
}

// unused reports whether no launch has used a template for an hour. A younger template may be another process's. A
// launch that begins now creates its template again if EC2 does not find it.
func (c *templateCache) unused(t *ec2types.LaunchTemplate) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, before := awssdk.ToString(t.LaunchTemplateName), c.now().Add(-templateAge)
	return strings.HasPrefix(name, ec2v1.LaunchTemplateNamePrefix+"/") &&
		awssdk.ToTime(t.CreateTime).Before(before) && c.known[name].Before(before)
}

// deleteAll deletes the templates of a class.
func (c *templateCache) deleteAll(ctx context.Context, class string) error {
	return c.delete(ctx, class, func(*ec2types.LaunchTemplate) bool { return true })
}

// delete deletes the cluster's templates of a class, "*" for all classes, for which which returns true.
func (c *templateCache) delete(ctx context.Context, class string, which func(*ec2types.LaunchTemplate) bool) error {
	pages := ec2.NewDescribeLaunchTemplatesPaginator(c.ec2, &ec2.DescribeLaunchTemplatesInput{
		Filters: tagFilters(map[string]string{ec2v1.EKSClusterNameTagKey: c.o.ClusterName, ec2v1.LabelNodeClass: class}),
	})
	var failed []error
	err := eachPage(ctx, pages, "describe launch templates", "ec2:DescribeLaunchTemplates",
		func(page *ec2.DescribeLaunchTemplatesOutput) {
			for i := range page.LaunchTemplates {
				t := &page.LaunchTemplates[i]
				if !which(t) {
					continue
				}
				name := awssdk.ToString(t.LaunchTemplateName)
				_, err := c.ec2.DeleteLaunchTemplate(ctx,
					&ec2.DeleteLaunchTemplateInput{LaunchTemplateId: t.LaunchTemplateId})
				if err != nil && !isMissingTemplate(code(err)) {
					failed = append(failed, wrap("delete launch template "+name, "ec2:DeleteLaunchTemplate", err))
				}
				c.forget(name)
			}
		})
	return errors.Join(append(failed, err)...)
}
