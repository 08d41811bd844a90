// Package iam evaluates IAM policies: whether an action on a resource is allowed, by the identity-based policies of
// the caller or by the trust policy of a role. It is pure: the caller provides everything that a policy may refer to.
//
// Parse reads a policy; Evaluate decides. A policy element that the package does not know is an error of Parse, never
// a statement that silently matches nothing.
//
// Source: IAM user guide, "Policy evaluation logic", "IAM JSON policy elements: Condition operators", "Multivalued
// context keys", "Policy variables" (docs.aws.amazon.com/IAM/latest/UserGuide, read 2026-11-26).
package iam
