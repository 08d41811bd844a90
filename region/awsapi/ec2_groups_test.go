package awsapi

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
)

func TestRulesAreAddedToldAndTakenFromTheClustersSecurityGroup(t *testing.T) {
	_, _, config := memoryRegion(t)
	client := ec2.NewFromConfig(config)
	cluster := must[*eks.DescribeClusterOutput](t)(eks.NewFromConfig(config).DescribeCluster(t.Context(),
		&eks.DescribeClusterInput{Name: aws.String("prod")})).Cluster
	group := cluster.ResourcesVpcConfig.ClusterSecurityGroupId
	if len(cluster.ResourcesVpcConfig.SubnetIds) < 3 || *cluster.ResourcesVpcConfig.VpcId == "" {
		t.Errorf("the cluster's network is %+v", cluster.ResourcesVpcConfig)
	}
	https := ec2types.IpPermission{
		IpProtocol: aws.String("tcp"), FromPort: aws.Int32(443), ToPort: aws.Int32(443),
		IpRanges: []ec2types.IpRange{{CidrIp: aws.String("10.0.0.0/8"), Description: aws.String("office")}},
	}
	add := &ec2.AuthorizeSecurityGroupIngressInput{GroupId: group, IpPermissions: []ec2types.IpPermission{https}}
	added := must[*ec2.AuthorizeSecurityGroupIngressOutput](t)(client.AuthorizeSecurityGroupIngress(t.Context(), add))
	if rule := added.SecurityGroupRules[0]; *rule.CidrIpv4 != "10.0.0.0/8" || *rule.FromPort != 443 ||
		*rule.GroupId != *group || *rule.SecurityGroupRuleId == "" {
		t.Errorf("added %+v", rule)
	}
	_, err := client.AuthorizeSecurityGroupIngress(t.Context(), add)
	wantCode(t, err, "InvalidPermission.Duplicate")

	rules := func() []ec2types.IpPermission {
		t.Helper()
		out := must[*ec2.DescribeSecurityGroupsOutput](t)(client.DescribeSecurityGroups(t.Context(),
			&ec2.DescribeSecurityGroupsInput{Filters: []ec2types.Filter{
				{Name: aws.String("tag:aws:eks:cluster-name"), Values: []string{"prod"}},
			}}))
		if len(out.SecurityGroups) != 1 || *out.SecurityGroups[0].GroupId != *group {
			t.Fatalf("groups of the cluster: %+v", out.SecurityGroups)
		}
		return out.SecurityGroups[0].IpPermissions
	}
	if got := rules(); len(got) != 2 || *got[0].IpProtocol != "-1" || *got[0].UserIdGroupPairs[0].GroupId != *group ||
		*got[1].ToPort != 443 || *got[1].IpRanges[0].Description != "office" {
		t.Errorf("rules %+v", got)
	}
	for code, bad := range map[string]*ec2.AuthorizeSecurityGroupIngressInput{
		"InvalidGroup.NotFound": {GroupId: aws.String("sg-0"), IpPermissions: add.IpPermissions},
		"InvalidParameterValue": {
			GroupId: group, IpProtocol: aws.String("tcp"), FromPort: aws.Int32(1),
			ToPort: aws.Int32(1), CidrIp: aws.String("10.0.0.1/8"),
		},
		"MissingParameter": {GroupId: group},
	} {
		_, err := client.AuthorizeSecurityGroupIngress(t.Context(), bad)
		wantCode(t, err, code)
	}
	take := &ec2.RevokeSecurityGroupIngressInput{GroupId: group, IpPermissions: add.IpPermissions}
	must[*ec2.RevokeSecurityGroupIngressOutput](t)(client.RevokeSecurityGroupIngress(t.Context(), take))
	if got := rules(); len(got) != 1 {
		t.Errorf("after the rule was taken: %+v", got)
	}
	_, err = client.RevokeSecurityGroupIngress(t.Context(), take)
	wantCode(t, err, "InvalidPermission.NotFound")
}

func TestInterfacesAreToldWithTheirInstanceAndItsPodsAddresses(t *testing.T) {
	b := newBuyer(t)
	id := b.buy(t, b.fleet("claim-1", "m5.large"))
	b.buy(t, b.fleet("claim-2", "m5.large"))
	b.clock.Advance(2 * time.Minute)
	pod, err := b.region.AssignPodIP(id, "uid-1")
	if err != nil {
		t.Fatal(err)
	}
	all := must[*ec2.DescribeNetworkInterfacesOutput](t)(b.DescribeNetworkInterfaces(t.Context(),
		&ec2.DescribeNetworkInterfacesInput{}))
	if len(all.NetworkInterfaces) != 2 {
		t.Fatalf("%d interfaces of 2 instances", len(all.NetworkInterfaces))
	}
	out := must[*ec2.DescribeNetworkInterfacesOutput](t)(b.DescribeNetworkInterfaces(t.Context(),
		&ec2.DescribeNetworkInterfacesInput{
			Filters: []ec2types.Filter{{Name: aws.String("addresses.private-ip-address"), Values: []string{pod.String()}}},
		}))
	if len(out.NetworkInterfaces) != 1 {
		t.Fatalf("interfaces with the pod's address: %+v", out.NetworkInterfaces)
	}
	own, i := out.NetworkInterfaces[0], b.claimed(t, "claim-1")
	if *own.Attachment.InstanceId != id || *own.NetworkInterfaceId != *i.NetworkInterfaces[0].NetworkInterfaceId ||
		own.Status != "in-use" ||
		*own.AvailabilityZone != *i.Placement.AvailabilityZone || *own.MacAddress == "" ||
		!*own.PrivateIpAddresses[0].Primary || *own.PrivateIpAddresses[0].PrivateIpAddress != *i.PrivateIpAddress {
		t.Errorf("the interface is told as %+v of %+v", own, i)
	}
	_, err = b.DescribeNetworkInterfaces(t.Context(),
		&ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{"eni-0"}})
	wantCode(t, err, "InvalidNetworkInterfaceID.NotFound")
}

func TestAnInstanceTellsItsBlockDevicesAndItsMonitoring(t *testing.T) {
	b := newBuyer(t)
	b.buy(t, b.fleet("claim-1", "m5.large"))
	plain := b.claimed(t, "claim-1")
	if len(plain.BlockDeviceMappings) != 1 || *plain.BlockDeviceMappings[0].DeviceName != "/dev/xvda" ||
		*plain.BlockDeviceMappings[0].Ebs.VolumeId == "" ||
		!*plain.BlockDeviceMappings[0].Ebs.DeleteOnTermination || plain.Monitoring.State != "disabled" {
		t.Errorf("devices %+v, monitoring %s", plain.BlockDeviceMappings, plain.Monitoring.State)
	}
	bottlerocket, err := b.region.Parameter("/aws/service/bottlerocket/aws-k8s-1.34/x86_64/latest/image_id")
	if err != nil {
		t.Fatal(err)
	}
	out := must[*ec2.RunInstancesOutput](t)(b.RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: aws.String(bottlerocket), InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		Monitoring: &ec2types.RunInstancesMonitoringEnabled{Enabled: aws.Bool(true)},
		BlockDeviceMappings: []ec2types.BlockDeviceMapping{
			{
				DeviceName: aws.String("/dev/xvdb"),
				Ebs:        &ec2types.EbsBlockDevice{VolumeSize: aws.Int32(50), DeleteOnTermination: aws.Bool(false)},
			},
			{DeviceName: aws.String("/dev/xvdc"), Ebs: &ec2types.EbsBlockDevice{VolumeSize: aws.Int32(5)}},
		},
	})).Instances[0]
	var names, kept []string
	volumes := map[string]bool{}
	for _, d := range out.BlockDeviceMappings {
		names, volumes[*d.Ebs.VolumeId] = append(names, *d.DeviceName), true
		if !*d.Ebs.DeleteOnTermination {
			kept = append(kept, *d.DeviceName)
		}
	}
	if !slices.Equal(names, []string{"/dev/xvda", "/dev/xvdb", "/dev/xvdc"}) ||
		!slices.Equal(kept, []string{"/dev/xvdb"}) || len(volumes) != 3 || out.Monitoring.State != "enabled" {
		t.Errorf("devices %v, of which %v outlive it, volumes %v, monitoring %s", names, kept, volumes, out.Monitoring.State)
	}
}
