package awsapi

import "testing"

func TestBoto3SeesAccountClusterQueueAndParameters(t *testing.T) { tellBoto3(t, "accounts") }
