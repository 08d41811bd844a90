package pipeline

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"
)

// Annotations with which a pod selects how its lines are processed, if the filter allows it.
const (
	annotationParser  = "fluentbit.io/parser"
	annotationExclude = "fluentbit.io/exclude"
)

// newKubernetes returns the filter kubernetes, which adds the pod's metadata, and merges lines that are JSON into
// their records.
func newKubernetes(s *section, parsers map[string]*parser) func(*Record) bool {
	merge, keep, trim := s.on("merge_log", false), s.on("keep_log", true), s.on("merge_log_trim", true)
	labels, annotations := s.on("labels", true), s.on("annotations", true)
	parse, exclude := s.on("k8s-logging.parser", false), s.on("k8s-logging.exclude", false)
	under := s.text("merge_log_key", "")
	s.ignore("buffer_size", "kube_meta_cache_ttl", "kube_meta_preload_cache_dir", "kube_tag_prefix", "use_journal",
		"dummy_meta", "use_kubelet", "kubelet_port", "kubelet_host", "cache_use_docker_id", "regex_parser", "tls.verify",
		"tls.debug", "kube_meta_namespace_cache_ttl", "dns_retries", "dns_wait_time")
	merger := &parser{}
	if name := s.text("merge_parser", ""); name != "" {
		if merger = parsers[name]; merger == nil {
			s.fail("Merge_Parser: there is no [PARSER] with the name %s", name)
		}
	}
	return func(r *Record) bool {
		from := r.Source
		if exclude && strings.EqualFold(from.Annotations[annotationExclude], "true") {
			return false
		}
		chosen, doMerge := merger, merge
		if p := parsers[from.Annotations[annotationParser]]; parse && p != nil {
			chosen, doMerge = p, true
		}
		if text, ok := r.Fields["log"].(string); ok && doMerge {
			if fields, _, ok := chosen.parse(strings.TrimSpace(text)); ok {
				mergeInto(r.Fields, fields, under, trim)
				if _, own := fields["log"]; !keep && (!own || under != "") {
					delete(r.Fields, "log")
				}
			}
		}
		r.Fields["kubernetes"] = from.fields(labels, annotations)
		return true
	}
}

// mergeInto adds the fields of a line to its record.
func mergeInto(record, line map[string]any, under string, trim bool) {
	if trim {
		for key, v := range line {
			if text, ok := v.(string); ok {
				line[key] = strings.TrimRight(text, "\r\n")
			}
		}
	}
	if under != "" {
		record[under] = line
		return
	}
	maps.Copy(record, line)
}

// fields returns the metadata of a container that the filter kubernetes adds.
func (s *Source) fields(labels, annotations bool) map[string]any {
	f := map[string]any{
		"pod_name": s.Pod, "namespace_name": s.Namespace, "pod_id": s.UID, "host": s.Node, "pod_ip": s.IP,
		"container_name": s.Container, "container_image": s.Image,
		"docker_id": fmt.Sprintf("%x", sha256.Sum256([]byte(s.UID+"/"+s.Container))),
	}
	if labels && len(s.Labels) > 0 {
		f["labels"] = anyMap(s.Labels)
	}
	if annotations && len(s.Annotations) > 0 {
		f["annotations"] = anyMap(s.Annotations)
	}
	return f
}

func anyMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
