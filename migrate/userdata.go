package migrate

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"regexp"
	"slices"
	"strings"
)

// kubeletFlag finds a flag of the kubelet in user data: in bootstrap.sh's --kubelet-extra-args, or in the flags of a
// NodeConfig of nodeadm.
var kubeletFlag = regexp.MustCompile(`--(node-labels|register-with-taints|max-pods|cluster-dns|kube-reserved|` +
	`system-reserved|eviction-hard)[=\s]\s*["']?([^\s"']+)["']?`)

// unreadSettings are the same where a script writes a NodeConfig or settings of Bottlerocket.
var unreadSettings = regexp.MustCompile(`(?m)^\s*(registerWithTaints|maxPods|max-pods)\s*[:=]|` +
	`(kubernetes[.](?:node-labels|node-taints))`)

// readUserData applies what user data tells the kubelet of labels, taints, reserved resources and the number of pods:
// whoever plans nodes has to know it before there are any. It returns the user data without that, "" if nothing else
// is left.
func readUserData(g *group, f *fields, userData string) (rest string) {
	s := &nodeSettings{labels: map[string]string{}, byFlag: map[string]bool{}}
	parts, err := mimeParts(userData)
	if err != nil || parts == nil {
		rest = s.read(userData)
	} else {
		changed := false
		left := slices.DeleteFunc(parts, func(p *mimePart) bool {
			was := p.body
			p.body = s.read(was)
			changed = changed || p.body != was
			return p.body == "" && was != ""
		})
		if rest = userData; changed {
			rest = joined(left)
		}
	}
	s.apply(g, f)
	return rest
}

// read reads one document: a NodeConfig, Bottlerocket's settings, or a script.
func (s *nodeSettings) read(document string) (rest string) {
	if rest, ok := s.nodeConfig(document); ok {
		return rest
	}
	if rest, ok := s.bottlerocket(document); ok {
		return rest
	}
	s.flags(document)
	for _, m := range unreadSettings.FindAllStringSubmatch(document, -1) {
		s.unread = append(s.unread, m[1]+m[2])
	}
	return document
}

// apply puts the settings into the group's pool and class, and notes it.
func (s *nodeSettings) apply(g *group, f *fields) {
	const from = "UserData"
	pool := g.toPool(f)
	for _, key := range slices.Sorted(maps.Keys(s.labels)) {
		g.label(pool, from, key, s.labels[key])
	}
	for _, t := range s.taints {
		if !slices.ContainsFunc(g.taints, func(have any) bool { return sameTaint(have, t) }) {
			g.taints = append(g.taints, t)
		}
		pool.note(Mapped, from, templateSpec+"taints", "")
	}
	for _, key := range slices.Sorted(maps.Keys(s.kubelet)) {
		g.kubelet = put(g.kubelet, key, s.kubelet[key])
		f.note(Mapped, from, "spec.kubelet."+key, "")
	}
	if len(s.kept) > 0 {
		f.note(Mapped, from, "spec.userData", "spec.kubelet has nothing like these settings, which stay here: "+
			unique(s.kept))
	}
	if len(s.unread) > 0 {
		f.note(Warning, from, "spec.userData", "it sets "+unique(s.unread)+" in a form that is not read here: put labels "+
			"and taints into the NodePool too, and what else the kubelet is told into spec.kubelet")
	}
}

// sameTaint reports whether a pool can have only one of two taints.
func sameTaint(a, b any) bool {
	x, y := a.(map[string]any), b.(map[string]any)
	return x["key"] == y["key"] && x["effect"] == y["effect"]
}

func unique(names []string) string {
	names = slices.Sorted(slices.Values(names))
	return strings.Join(slices.Compact(names), ", ")
}

// mimePart is a part of a MIME multipart document.
type mimePart struct{ kind, body string }

// mimeParts splits a MIME multipart document; nil if it is none.
func mimeParts(document string) ([]*mimePart, error) {
	m, err := mail.ReadMessage(strings.NewReader(strings.TrimSpace(document) + "\n"))
	if err != nil {
		return nil, err
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") {
		return nil, err
	}
	var out []*mimePart
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(p.Header.Get("Content-Transfer-Encoding"), "base64") {
			if body, err = base64.StdEncoding.DecodeString(string(bytes.Join(bytes.Fields(body), nil))); err != nil {
				return nil, err
			}
		}
		out = append(out, &mimePart{p.Header.Get("Content-Type"), string(body)})
	}
}

// joined is the inverse of mimeParts; "" without parts.
func joined(parts []*mimePart) string {
	if len(parts) == 0 {
		return ""
	}
	const boundary = "//"
	var b strings.Builder
	fmt.Fprintf(&b, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", boundary)
	for _, p := range parts {
		fmt.Fprintf(&b, "--%s\nContent-Type: %s\n\n%s\n", boundary, p.kind, strings.TrimSuffix(p.body, "\n"))
	}
	fmt.Fprintf(&b, "--%s--\n", boundary)
	return b.String()
}
