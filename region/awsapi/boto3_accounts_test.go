package awsapi

import "testing"

func TestBoto3SeesAccountClusterQueueAndParameters(t *testing.T) { tellBoto3(t, "accounts") }

func TestBoto3CreatesAndDeletesFargateProfiles(t *testing.T) { tellBoto3(t, "fargate") }

func TestBoto3WritesAndReadsLogs(t *testing.T) { tellBoto3(t, "logs") }
