// Package manifest reads Kubernetes objects from text, as people and kubectl write them: YAML documents, JSON, and Lists of any
// length, which are read object by object, so that a dump of a large cluster costs no more memory than its largest object.
package manifest
