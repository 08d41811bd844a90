package plane

import (
	"fmt"
	"path/filepath"
)

// auditPolicy notes writes with what was written, except leases and events, which are many and say little; of reads only
// that they were. What is in secrets, and tokens, are not written down.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  resources:
  - {group: coordination.k8s.io, resources: [leases]}
- level: Metadata
  verbs: [get, list, watch]
- level: Metadata
  resources:
  - {group: "", resources: [secrets, serviceaccounts/token]}
  - {group: authentication.k8s.io}
- level: Metadata
  resources:
  - {group: "", resources: [events]}
  - {group: events.k8s.io, resources: [events]}
- level: Request
`

// auditFlags are kube-apiserver's, if requests are to be noted; they come after the policy has been written.
func (p *Plane) auditFlags() ([]string, error) {
	if p.o.AuditLog == "" {
		return nil, nil
	}
	policy := filepath.Join(p.dir, "audit-policy.yaml")
	if err := writeFile(policy, []byte(auditPolicy)); err != nil {
		return nil, fmt.Errorf("audit policy: %w", err)
	}
	return []string{
		"--audit-policy-file=" + policy, "--audit-log-path=" + p.o.AuditLog,
		"--audit-log-maxsize=512", "--audit-log-maxbackup=1", // megabytes, files
	}, nil
}
