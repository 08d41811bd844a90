package region_test

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/nodeless/nodeless/region"
)

// nodegroup creates launch template "web" and node group "web" of it.
func (p place) nodegroup(userData string) region.NodegroupState {
	p.t.Helper()
	_, err := p.CreateLaunchTemplate("web", region.TemplateData{UserData: []byte(userData)}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	n, err := p.CreateNodegroup("prod", "web", region.NodegroupSettings{
		Max: 3, Desired: 1, Subnets: []string{p.Subnets()[0].ID}, Role: "arn:aws:iam::123456789012:role/nodes",
		Template: region.TemplateRef{Name: "web"},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// Earlier releases stored no version for a node group whose template was named without one.
func TestANodeGroupOfAnEarlierReleaseIsScaledThoughItsTemplateHasAScript(t *testing.T) {
	c := region.Config{Dir: t.TempDir()}
	p := seeded(t, c)
	n := p.nodegroup("").Nodegroup
	if _, _, err := p.CreateLaunchTemplateVersion("", "web", "",
		region.TemplateData{UserData: []byte("#!/bin/bash\n")}); err != nil {
		t.Fatal(err)
	}
	_, err := p.SetDefaultVersion("", "web", "2")
	if err := cmp.Or(err, p.Close()); err != nil {
		t.Fatal(err)
	}
	n.Template.Version = ""
	record, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(filepath.Join(c.Dir, "us-west-2.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("node-groups")).Put([]byte("web"), record) })
	if err := cmp.Or(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	c.Clock = p.clock
	p = open(t, c)
	_, err = p.UpdateNodegroupConfig("prod", "web", nil, func(s *region.NodegroupSettings) error {
		s.Desired = 3
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p.clock.Advance(time.Minute)
	if all := p.Instances(); len(all) != 3 || !strings.Contains(string(all[2].UserData), `"kind":"NodeConfig"`) {
		t.Errorf("%d instances: %+v", len(all), all)
	}
}

func TestTheDataDirectoryKeepsANodeGroupThatCouldNotBeCreated(t *testing.T) {
	c := region.Config{Dir: t.TempDir()}
	p := seeded(t, c)
	p.nodegroup("#!/bin/bash\n")
	c.Clock = p.clock
	reopened := func() []region.NodegroupState {
		t.Helper()
		err := p.Close()
		p = open(t, c)
		all, failure := p.Nodegroups("prod")
		if err := cmp.Or(err, failure); err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := reopened()
	if len(all) != 1 || all[0].Status != "CREATE_FAILED" || !strings.Contains(all[0].Issue, "MIME multipart") {
		t.Fatalf("%+v", all)
	}
	if _, err := p.DeleteNodegroup("prod", "web"); err != nil {
		t.Fatal(err)
	}
	if all := reopened(); len(all) > 0 {
		t.Errorf("after its deletion: %+v", all)
	}
}
