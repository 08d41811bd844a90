"""Stories told to the simulated region by boto3, a client nobody here wrote.

Usage: boto3_story.py ENDPOINT REGION CLUSTER QUEUE STORY...
The stories are the functions at the end. Those that launch need POST /advance?seconds=N beside the AWS calls, which moves
the region's virtual clock.
"""
import base64
import json
import sys
import urllib.request

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

ENDPOINT, REGION, CLUSTER, QUEUE = sys.argv[1:5]


def client(service):
    return boto3.client(
        service, endpoint_url=ENDPOINT, region_name=REGION, aws_access_key_id="any", aws_secret_access_key="any",
        config=Config(retries={"max_attempts": 1}),
    )


def post(path, body=None):
    data = json.dumps(body or {}).encode()
    request = urllib.request.Request(ENDPOINT + path, data=data, method="POST", headers={
        "Content-Type": "application/json", "Authorization": "Bearer token-of-the-tests"})
    return urllib.request.urlopen(request).read()


def advance(seconds):
    post("/advance?seconds=%d" % seconds)


def fails(code, call, **kwargs):
    try:
        call(**kwargs)
    except ClientError as e:
        assert e.response["Error"]["Code"] == code, e.response
        return e
    raise AssertionError("expected %s" % code)


ec2 = client("ec2")


def the_place():
    vpc = ec2.describe_vpcs()["Vpcs"][0]
    ours = {"Name": "tag:karpenter.sh/discovery", "Values": [CLUSTER]}
    subnets = ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc["VpcId"]]}, ours])["Subnets"]
    assert subnets and all(s["AvailableIpAddressCount"] > 0 for s in subnets), subnets
    assert ec2.describe_security_groups(Filters=[ours])["SecurityGroups"][0]["GroupId"].startswith("sg-")
    fails("InvalidParameterValue", ec2.describe_subnets, Filters=[{"Name": "colour", "Values": ["red"]}])
    return subnets


def types_are_found_by_filters_and_pages():
    pages = ec2.get_paginator("describe_instance_types").paginate(
        Filters=[
            {"Name": "processor-info.supported-architecture", "Values": ["arm64"]},
            {"Name": "vcpu-info.default-vcpus", "Values": ["4"]},
            {"Name": "bare-metal", "Values": ["false"]},
        ],
        PaginationConfig={"PageSize": 10},
    )
    found = [t for p in pages for t in p["InstanceTypes"]]
    names = [t["InstanceType"] for t in found]
    assert "m7g.xlarge" in names and len(names) == len(set(names)) and len(names) > 10, names
    assert all(t["VCpuInfo"]["DefaultVCpus"] == 4 and t["MemoryInfo"]["SizeInMiB"] > 0 for t in found)
    wild = ec2.describe_instance_types(Filters=[{"Name": "instance-type", "Values": ["m5.*large"]}])["InstanceTypes"]
    assert "m5.large" in [t["InstanceType"] for t in wild]
    one = ec2.describe_instance_types(InstanceTypes=["m5.large"])["InstanceTypes"][0]
    assert one["VCpuInfo"]["DefaultVCpus"] == 2 and one["MemoryInfo"]["SizeInMiB"] == 8192, one
    assert one["NetworkInfo"]["MaximumNetworkInterfaces"] == 3 and one["NetworkInfo"]["Ipv4AddressesPerInterface"] == 10
    fails("InvalidInstanceType", ec2.describe_instance_types, InstanceTypes=["m5.tiny"])
    offers = ec2.describe_instance_type_offerings(LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": ["m5.large"]}])
    assert len(offers["InstanceTypeOfferings"]) >= 2, offers


def an_image():
    ssm = client("ssm")
    name = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"
    ami = ssm.get_parameter(Name=name)["Parameter"]["Value"]
    assert ssm.get_parameters(Names=[name, "/no/such"])["InvalidParameters"] == ["/no/such"]
    fails("ParameterNotFound", ssm.get_parameter, Name="/no/such")
    image = ec2.describe_images(ImageIds=[ami])["Images"][0]
    assert image["Architecture"] == "x86_64" and image["State"] == "available", image
    return ami


def a_fleet_is_launched_once_and_ends(subnets, ami):
    groups = [ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]]
    template = ec2.create_launch_template(
        LaunchTemplateName="story", LaunchTemplateData={
            "ImageId": ami, "SecurityGroupIds": groups, "UserData": base64.b64encode(b"#!/bin/sh\n").decode(),
            "MetadataOptions": {"HttpTokens": "required"}},
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": [{"Key": "story", "Value": "boto3"}]}],
    )["LaunchTemplate"]
    assert template["LaunchTemplateName"] == "story" and template["LaunchTemplateId"].startswith("lt-")
    version = ec2.describe_launch_template_versions(LaunchTemplateName="story", Versions=["$Latest"])["LaunchTemplateVersions"][0]
    assert version["LaunchTemplateData"]["ImageId"] == ami, version
    request = dict(
        Type="instant", ClientToken="story-token-1",
        LaunchTemplateConfigs=[{
            "LaunchTemplateSpecification": {"LaunchTemplateName": "story", "Version": "$Latest"},
            "Overrides": [{"InstanceType": t, "SubnetId": s["SubnetId"]} for t in ("m5.large", "c5.large") for s in subnets[:2]],
        }],
        TargetCapacitySpecification={"TotalTargetCapacity": 2, "DefaultTargetCapacityType": "on-demand"},
        OnDemandOptions={"AllocationStrategy": "lowest-price"},
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "story", "Value": "boto3"}]}],
    )
    fails("DryRunOperation", ec2.create_fleet, DryRun=True, **request)
    fleet = ec2.create_fleet(**request)
    ids = [i for group in fleet["Instances"] for i in group["InstanceIds"]]
    assert len(ids) == 2 and fleet["Instances"][0]["InstanceType"] in ("m5.large", "c5.large"), fleet
    again = ec2.create_fleet(**request)
    assert again["FleetId"] == fleet["FleetId"]
    assert [i for group in again["Instances"] for i in group["InstanceIds"]] == ids
    advance(120)
    mine = [{"Name": "tag:story", "Values": ["boto3"]}, {"Name": "instance-state-name", "Values": ["running"]}]
    found = [i for r in ec2.describe_instances(Filters=mine)["Reservations"] for i in r["Instances"]]
    assert sorted(i["InstanceId"] for i in found) == sorted(ids), found
    assert all(i["PrivateIpAddress"] and i["Placement"]["AvailabilityZone"] and i["LaunchTime"] for i in found)
    assert len(ec2.describe_instance_status(InstanceIds=ids)["InstanceStatuses"]) == 2
    ec2.create_tags(Resources=ids, Tags=[{"Key": "Name", "Value": "one & <two>"}])
    tags = ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": ids}, {"Name": "key", "Values": ["Name"]}])["Tags"]
    assert [t["Value"] for t in tags] == ["one & <two>"] * 2, tags
    ec2.delete_tags(Resources=ids[:1], Tags=[{"Key": "Name"}])
    gone = ec2.terminate_instances(InstanceIds=ids)["TerminatingInstances"]
    assert all(g["CurrentState"]["Name"] in ("shutting-down", "terminated") for g in gone), gone
    advance(300)
    ec2.get_waiter("instance_terminated").wait(InstanceIds=ids, WaiterConfig={"Delay": 1, "MaxAttempts": 5})
    fails("InvalidInstanceID.NotFound", ec2.describe_instances, InstanceIds=["i-00000000000000000"])
    ec2.delete_launch_template(LaunchTemplateName="story")
    fails("InvalidLaunchTemplateName.NotFoundException", ec2.describe_launch_templates, LaunchTemplateNames=["story"])


def no_capacity_is_told_per_override(subnets, ami):
    ec2.create_launch_template(LaunchTemplateName="dry", LaunchTemplateData={"ImageId": ami})
    for zone in {s["AvailabilityZone"] for s in subnets}:
        post("/_nodeless/capacity", {"type": "m5.large", "zone": zone, "capacityType": "spot", "count": 0})
    fleet = ec2.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[{"LaunchTemplateSpecification": {"LaunchTemplateName": "dry", "Version": "$Latest"},
                                "Overrides": [{"InstanceType": "m5.large", "SubnetId": s["SubnetId"]} for s in subnets]}],
        TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "spot"},
        SpotOptions={"AllocationStrategy": "price-capacity-optimized"},
    )
    assert fleet["Instances"] == [] and fleet["Errors"], fleet
    assert {e["ErrorCode"] for e in fleet["Errors"]} <= {"InsufficientInstanceCapacity", "UnfulfillableCapacity"}, fleet
    assert fleet["Errors"][0]["LaunchTemplateAndOverrides"]["Overrides"]["InstanceType"] == "m5.large"


def one_instance_without_a_fleet(subnets, ami):
    out = ec2.run_instances(ImageId=ami, InstanceType="t3.small", MinCount=1, MaxCount=1, SubnetId=subnets[0]["SubnetId"],
                            InstanceMarketOptions={"MarketType": "spot"},
                            TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "story", "Value": "run"}]}])
    instance = out["Instances"][0]
    assert instance["InstanceLifecycle"] == "spot" and instance["SubnetId"] == subnets[0]["SubnetId"], instance
    sqs = client("sqs")
    url = sqs.get_queue_url(QueueName=QUEUE)["QueueUrl"]
    post("/_nodeless/interrupt", {"instanceId": instance["InstanceId"]})
    seen = []
    for _ in range(10):
        for m in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["SentTimestamp"]).get("Messages", []):
            seen.append(json.loads(m["Body"]))
            assert int(m["Attributes"]["SentTimestamp"]) > 0
            sqs.delete_message(QueueUrl=url, ReceiptHandle=m["ReceiptHandle"])
    warning = [e for e in seen if e["detail-type"] == "EC2 Spot Instance Interruption Warning"]
    assert warning and warning[0]["detail"]["instance-id"] == instance["InstanceId"], seen
    sqs.send_message(QueueUrl=url, MessageBody="hello <world>")
    assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "hello <world>"
    assert "ApproximateNumberOfMessages" in sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    fails("AWS.SimpleQueueService.NonExistentQueue", sqs.get_queue_url, QueueName="nobody")


def who_and_what():
    iam = client("iam")
    role = "nodeless-node"
    iam.create_instance_profile(InstanceProfileName="story", Path="/karpenter/", Tags=[{"Key": "a", "Value": "b"}])
    fails("EntityAlreadyExists", iam.create_instance_profile, InstanceProfileName="story")
    assert iam.get_role(RoleName=role)["Role"]["RoleName"] == role
    iam.add_role_to_instance_profile(InstanceProfileName="story", RoleName=role)
    iam.tag_instance_profile(InstanceProfileName="story", Tags=[{"Key": "c", "Value": "d"}])
    profile = iam.get_instance_profile(InstanceProfileName="story")["InstanceProfile"]
    assert profile["Roles"][0]["RoleName"] == role and {t["Key"] for t in profile["Tags"]} == {"a", "c"}, profile
    listed = iam.list_instance_profiles(PathPrefix="/karpenter/")["InstanceProfiles"]
    assert [p["InstanceProfileName"] for p in listed] == ["story"], listed
    iam.remove_role_from_instance_profile(InstanceProfileName="story", RoleName=role)
    iam.delete_instance_profile(InstanceProfileName="story")
    fails("NoSuchEntity", iam.get_instance_profile, InstanceProfileName="story")
    assert client("sts").get_caller_identity()["Account"].isdigit()
    eks = client("eks")
    assert CLUSTER in eks.list_clusters()["clusters"]
    cluster = eks.describe_cluster(name=CLUSTER)["cluster"]
    assert cluster["endpoint"] and cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"], cluster
    assert cluster["createdAt"].year > 2000 and cluster["platformVersion"] == "eks.1", cluster
    fails("ResourceNotFoundException", eks.describe_cluster, name="nobody")


def the_price_list():
    pricing = client("pricing")
    where = [{"Type": "TERM_MATCH", "Field": f, "Value": v} for f, v in (
        ("regionCode", REGION), ("operatingSystem", "Linux"), ("tenancy", "Shared"), ("productFamily", "Compute Instance"), ("capacitystatus", "Used"))]
    prices = {}
    for p in pricing.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=where):
        for text in p["PriceList"]:
            product = json.loads(text)
            term = next(iter(product["terms"]["OnDemand"].values()))
            dimension = next(iter(term["priceDimensions"].values()))
            prices[product["product"]["attributes"]["instanceType"]] = float(dimension["pricePerUnit"]["USD"])
    assert len(prices) > 100 and 0.05 < prices["m5.large"] < 0.3, len(prices)


def types():
    zones = [z["ZoneName"] for z in ec2.describe_availability_zones()["AvailabilityZones"]]
    assert len(zones) >= 3, zones
    assert [r["RegionName"] for r in ec2.describe_regions()["Regions"]] == [REGION]
    assert ec2.describe_capacity_reservations()["CapacityReservations"] == []
    assert ec2.describe_placement_groups()["PlacementGroups"] == []
    types_are_found_by_filters_and_pages()


def prices():
    the_price_list()


def launches():
    subnets, ami = the_place(), an_image()
    spot = ec2.describe_spot_price_history(InstanceTypes=["m5.large"], ProductDescriptions=["Linux/UNIX"])["SpotPriceHistory"]
    assert spot and float(spot[0]["SpotPrice"]) > 0, spot
    a_fleet_is_launched_once_and_ends(subnets, ami)
    no_capacity_is_told_per_override(subnets, ami)
    one_instance_without_a_fleet(subnets, ami)


def the_queue():
    sqs = client("sqs")
    url = sqs.get_queue_url(QueueName=QUEUE)["QueueUrl"]
    sent = [sqs.send_message(QueueUrl=url, MessageBody="hello <%d>" % n)["MessageId"] for n in range(3)]
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=20, AttributeNames=["All"])["Messages"]
    assert [m["MessageId"] for m in got] == sent and got[0]["Body"] == "hello <0>", got
    assert int(got[0]["Attributes"]["SentTimestamp"]) > 0 and got[0]["Attributes"]["ApproximateReceiveCount"] == "1", got
    depth = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert depth["ApproximateNumberOfMessagesNotVisible"] == "3" and depth["QueueArn"].endswith(":" + QUEUE), depth
    sqs.delete_message(QueueUrl=url, ReceiptHandle=got[0]["ReceiptHandle"])
    entries = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(got[1:])]
    assert len(sqs.delete_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == 2
    depth = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessagesNotVisible"])["Attributes"]
    assert depth == {"ApproximateNumberOfMessagesNotVisible": "0"}, depth
    fails("AWS.SimpleQueueService.NonExistentQueue", sqs.get_queue_url, QueueName="nobody")
    fails("AWS.SimpleQueueService.EmptyBatchRequest", sqs.delete_message_batch, QueueUrl=url, Entries=[])


def accounts():
    who_and_what()
    the_queue()
    ssm_parameters()


def ssm_parameters():
    ssm = client("ssm")
    base = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended"
    ami = ssm.get_parameter(Name=base + "/image_id")["Parameter"]["Value"]
    assert ami.startswith("ami-"), ami
    assert ssm.get_parameters(Names=[base + "/image_id", "/no/such"])["InvalidParameters"] == ["/no/such"]
    below = ssm.get_parameters_by_path(Path=base)["Parameters"]
    assert [p["Value"] for p in below] == [ami], below
    fails("ParameterNotFound", ssm.get_parameter, Name="/no/such")


def balancers():
    """A load balancer from its creation to its end, as the AWS Load Balancer Controller makes it."""
    elb = client("elbv2")
    subnets = [s["SubnetId"] for s in the_place()[:2]]
    made = elb.create_load_balancer(Name="game", Subnets=subnets, Tags=[{"Key": "a", "Value": "b"}])["LoadBalancers"][0]
    assert made["State"]["Code"] == "provisioning" and made["DNSName"].endswith(".elb.localhost"), made
    advance(60)
    elb.get_waiter("load_balancer_available").wait(Names=["game"])
    group = elb.create_target_group(Name="pods", Protocol="HTTP", Port=80, TargetType="ip", HealthCheckPath="/up",
                                    Matcher={"HttpCode": "200"})["TargetGroups"][0]
    action = {"Type": "forward", "TargetGroupArn": group["TargetGroupArn"]}
    listener = elb.create_listener(LoadBalancerArn=made["LoadBalancerArn"], Port=80, Protocol="HTTP",
                                   DefaultActions=[action])["Listeners"][0]
    host = {"Field": "host-header", "HostHeaderConfig": {"Values": ["game.example.com"]}}
    elb.create_rule(ListenerArn=listener["ListenerArn"], Priority=7, Conditions=[host], Actions=[action])
    rules = elb.describe_rules(ListenerArn=listener["ListenerArn"])["Rules"]
    assert [r["Priority"] for r in rules] == ["7", "default"], rules
    assert rules[0]["Conditions"][0]["HostHeaderConfig"] == {"Values": ["game.example.com"]}, rules
    elb.register_targets(TargetGroupArn=group["TargetGroupArn"], Targets=[{"Id": "10.0.0.9", "Port": 8080}])
    health = elb.describe_target_health(TargetGroupArn=group["TargetGroupArn"])["TargetHealthDescriptions"][0]
    assert health["TargetHealth"]["State"] == "initial" and health["HealthCheckPort"] == "8080", health
    fails("ResourceInUse", elb.delete_target_group, TargetGroupArn=group["TargetGroupArn"])
    fails("LoadBalancerNotFound", elb.describe_load_balancers, Names=["nobody"])
    tags = elb.describe_tags(ResourceArns=[made["LoadBalancerArn"]])["TagDescriptions"][0]["Tags"]
    assert tags == [{"Key": "a", "Value": "b"}], tags
    elb.delete_load_balancer(LoadBalancerArn=made["LoadBalancerArn"])
    elb.delete_target_group(TargetGroupArn=group["TargetGroupArn"])
    assert elb.describe_listeners(ListenerArns=[])["Listeners"] == []


def scaling():
    """An Auto Scaling group from its creation to its end, as Cluster Autoscaler and a person treat it."""
    asg, ssm = client("autoscaling"), client("ssm")
    subnets = [s["SubnetId"] for s in the_place()[:2]]
    image = ssm.get_parameter(
        Name="/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id")["Parameter"]["Value"]
    ec2.create_launch_template(LaunchTemplateName="scaled", LaunchTemplateData={"ImageId": image, "InstanceType": "m5.large"})
    requirements = {"VCpuCount": {"Min": 2, "Max": 2}, "MemoryMiB": {"Min": 8192, "Max": 8192}, "CpuManufacturers": ["intel"]}
    found = ec2.get_instance_types_from_instance_requirements(
        ArchitectureTypes=["x86_64"], VirtualizationTypes=["hvm"], InstanceRequirements=requirements)["InstanceTypes"]
    assert "m5.large" in [t["InstanceType"] for t in found] and "t3.large" not in [t["InstanceType"] for t in found], found
    tags = [{"Key": "k8s.io/cluster-autoscaler/enabled", "Value": "true", "PropagateAtLaunch": False},
            {"Key": "k8s.io/cluster-autoscaler/node-template/label/tier", "Value": "web", "PropagateAtLaunch": True}]
    asg.create_auto_scaling_group(
        AutoScalingGroupName="web", MinSize=0, MaxSize=4, VPCZoneIdentifier=",".join(subnets), Tags=tags,
        LaunchTemplate={"LaunchTemplateName": "scaled", "Version": "$Latest"})
    asg.create_auto_scaling_group(
        AutoScalingGroupName="mixed", MinSize=0, MaxSize=9, DesiredCapacity=2, VPCZoneIdentifier=subnets[0],
        MixedInstancesPolicy={
            "LaunchTemplate": {"LaunchTemplateSpecification": {"LaunchTemplateName": "scaled"},
                               "Overrides": [{"InstanceRequirements": requirements}]},
            "InstancesDistribution": {"OnDemandPercentageAboveBaseCapacity": 0}})
    named = asg.describe_auto_scaling_groups(
        Filters=[{"Name": "tag:k8s.io/cluster-autoscaler/enabled", "Values": ["true"]}])["AutoScalingGroups"]
    assert [g["AutoScalingGroupName"] for g in named] == ["web"] and named[0]["DesiredCapacity"] == 0, named
    assert {t["Key"]: t["PropagateAtLaunch"] for t in named[0]["Tags"]} == {t["Key"]: t["PropagateAtLaunch"] for t in tags}
    fails("ValidationError", asg.set_desired_capacity, AutoScalingGroupName="web", DesiredCapacity=5)
    asg.set_desired_capacity(AutoScalingGroupName="web", DesiredCapacity=3, HonorCooldown=False)
    advance(60)
    web = asg.describe_auto_scaling_groups(AutoScalingGroupNames=["web"])["AutoScalingGroups"][0]
    assert sorted(i["LifecycleState"] for i in web["Instances"]) == ["InService"] * 3, web["Instances"]
    assert {i["LaunchTemplate"]["Version"] for i in web["Instances"]} == {"1"}
    ids = [i["InstanceId"] for i in web["Instances"]]
    machines = [i for r in ec2.describe_instances(InstanceIds=ids)["Reservations"] for i in r["Instances"]]
    tag = {"Key": "k8s.io/cluster-autoscaler/node-template/label/tier", "Value": "web"}
    assert all(tag in i["Tags"] and {"Key": "aws:autoscaling:groupName", "Value": "web"} in i["Tags"] for i in machines)
    mixed = asg.describe_auto_scaling_groups(AutoScalingGroupNames=["mixed"])["AutoScalingGroups"][0]
    override = mixed["MixedInstancesPolicy"]["LaunchTemplate"]["Overrides"][0]
    assert override["InstanceRequirements"]["VCpuCount"] == {"Min": 2, "Max": 2}, override
    assert [i["InstanceId"] for i in mixed["Instances"]] and not set(ids) & {i["InstanceId"] for i in mixed["Instances"]}
    paged = [g["AutoScalingGroupName"] for p in asg.get_paginator("describe_auto_scaling_groups").paginate(
        PaginationConfig={"PageSize": 1}) for g in p["AutoScalingGroups"]]
    assert paged == ["mixed", "web"], paged
    gone = asg.terminate_instance_in_auto_scaling_group(InstanceId=ids[0], ShouldDecrementDesiredCapacity=True)["Activity"]
    assert gone["Description"] == "Terminating EC2 instance: " + ids[0] and gone["StatusCode"] == "InProgress", gone
    advance(60)
    activities = asg.describe_scaling_activities(AutoScalingGroupName="web")["Activities"]
    assert activities[0]["StatusCode"] == "Successful" and len(activities) == 4, activities
    assert len(asg.describe_auto_scaling_instances()["AutoScalingInstances"]) == 4
    asg.suspend_processes(AutoScalingGroupName="web", ScalingProcesses=["AZRebalance"])
    asg.put_lifecycle_hook(AutoScalingGroupName="web", LifecycleHookName="drain", HeartbeatTimeout=60,
                           LifecycleTransition="autoscaling:EC2_INSTANCE_TERMINATING", DefaultResult="CONTINUE")
    assert asg.describe_lifecycle_hooks(AutoScalingGroupName="web")["LifecycleHooks"][0]["GlobalTimeout"] == 6000
    ec2.create_launch_template_version(LaunchTemplateName="scaled", SourceVersion="1", LaunchTemplateData={"InstanceType": "c5.large"})
    asg.start_instance_refresh(AutoScalingGroupName="web", Preferences={"MinHealthyPercentage": 50, "InstanceWarmup": 0})
    for _ in range(5):
        advance(120)
    refresh = asg.describe_instance_refreshes(AutoScalingGroupName="web")["InstanceRefreshes"][0]
    assert refresh["Status"] == "Successful" and refresh["PercentageComplete"] == 100, refresh
    web = asg.describe_auto_scaling_groups(AutoScalingGroupNames=["web"])["AutoScalingGroups"][0]
    assert [i["InstanceType"] for i in web["Instances"]] == ["c5.large"] * 2, web["Instances"]
    assert web["SuspendedProcesses"][0]["ProcessName"] == "AZRebalance"
    asg.create_launch_configuration(LaunchConfigurationName="old", ImageId=image, InstanceType="m5.large", KeyName="mine",
                                    BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 50}}])
    asg.create_auto_scaling_group(AutoScalingGroupName="old", MinSize=1, MaxSize=1, LaunchConfigurationName="old",
                                  AvailabilityZones=[web["AvailabilityZones"][0]])
    old = asg.describe_launch_configurations(LaunchConfigurationNames=["old"])["LaunchConfigurations"][0]
    assert (old["KeyName"], old["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"]) == ("mine", 50), old
    fails("ResourceInUse", asg.delete_launch_configuration, LaunchConfigurationName="old")
    fails("ResourceInUse", asg.delete_auto_scaling_group, AutoScalingGroupName="web")
    fails("ValidationError", asg.create_auto_scaling_group, AutoScalingGroupName="x", MinSize=0, MaxSize=1,
          VPCZoneIdentifier=subnets[0], LaunchTemplate={"LaunchTemplateName": "scaled"}, TargetGroupARNs=["arn:aws:x"])
    for name in ("web", "mixed", "old"):
        asg.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)
    for _ in range(3):
        advance(60)
    assert asg.describe_auto_scaling_groups()["AutoScalingGroups"] == []
    asg.delete_launch_configuration(LaunchConfigurationName="old")


def nodegroups():
    """A managed node group as eksctl and Terraform make it, and as Cluster Autoscaler scales it."""
    eks, asg = client("eks"), client("autoscaling")
    subnets = [s["SubnetId"] for s in the_place()[:2]]
    role = "arn:aws:iam::123456789012:role/nodes"

    def drained(count):  # what EKS does with the nodes of a group, here by hand
        advance(60)
        waiting = [i["InstanceId"] for i in asg.describe_auto_scaling_instances()["AutoScalingInstances"]
                   if i["LifecycleState"] == "Terminating:Wait"]
        assert len(waiting) == count, waiting
        for instance in waiting:
            asg.complete_lifecycle_action(AutoScalingGroupName=name, LifecycleHookName="Terminate-LC-Hook",
                                          InstanceId=instance, LifecycleActionResult="CONTINUE")
        advance(60)

    made = eks.create_nodegroup(
        clusterName=CLUSTER, nodegroupName="web", subnets=subnets, nodeRole=role, instanceTypes=["m5.large", "m5a.large"],
        scalingConfig={"minSize": 1, "maxSize": 3, "desiredSize": 2}, labels={"tier": "web"}, diskSize=40,
        taints=[{"key": "web", "value": "only", "effect": "NO_SCHEDULE"}], capacityType="SPOT")["nodegroup"]
    assert made["status"] == "CREATING" and made["amiType"] == "AL2023_x86_64_STANDARD", made
    fails("ResourceInUseException", eks.create_nodegroup, clusterName=CLUSTER, nodegroupName="web", subnets=subnets, nodeRole=role)
    fails("InvalidParameterException", eks.create_nodegroup, clusterName=CLUSTER, nodegroupName="x", subnets=subnets, nodeRole=role,
          instanceTypes=["zz9.large"])
    advance(60)
    eks.get_waiter("nodegroup_active").wait(clusterName=CLUSTER, nodegroupName="web", WaiterConfig={"Delay": 1, "MaxAttempts": 1})
    assert eks.list_nodegroups(clusterName=CLUSTER)["nodegroups"] == ["web"]
    name = made["resources"]["autoScalingGroups"][0]["name"]
    group = asg.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"][0]
    tags = {t["Key"]: t["Value"] for t in group["Tags"]}
    assert tags["eks:nodegroup-name"] == "web" and tags["k8s.io/cluster-autoscaler/" + CLUSTER] == "owned", tags
    template = group["MixedInstancesPolicy"]["LaunchTemplate"]["LaunchTemplateSpecification"]["LaunchTemplateId"]
    data = ec2.describe_launch_template_versions(LaunchTemplateId=template)["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    config = json.loads(base64.b64decode(data["UserData"]))["spec"]
    assert config["cluster"]["name"] == CLUSTER and "tier=web" in config["kubelet"]["flags"][0], config
    assert config["kubelet"]["config"]["registerWithTaints"] == [{"key": "web", "value": "only", "effect": "NoSchedule"}]
    asg.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=3)
    assert eks.describe_nodegroup(clusterName=CLUSTER, nodegroupName="web")["nodegroup"]["scalingConfig"]["desiredSize"] == 3
    update = eks.update_nodegroup_config(
        clusterName=CLUSTER, nodegroupName="web", scalingConfig={"minSize": 0, "maxSize": 5, "desiredSize": 1},
        labels={"addOrUpdateLabels": {"team": "a"}, "removeLabels": ["tier"]})["update"]
    assert eks.describe_update(name=CLUSTER, nodegroupName="web", updateId=update["id"])["update"]["status"] == "Successful"
    drained(1)
    group = asg.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"][0]
    assert (group["MaxSize"], len(group["Instances"])) == (5, 1), group
    assert eks.describe_nodegroup(clusterName=CLUSTER, nodegroupName="web")["nodegroup"]["labels"] == {"team": "a"}
    fails("InvalidParameterException", eks.update_nodegroup_config, clusterName=CLUSTER, nodegroupName="web",
          scalingConfig={"minSize": 4, "maxSize": 3})
    assert eks.delete_nodegroup(clusterName=CLUSTER, nodegroupName="web")["nodegroup"]["status"] == "DELETING"
    drained(1)
    eks.get_waiter("nodegroup_deleted").wait(clusterName=CLUSTER, nodegroupName="web", WaiterConfig={"Delay": 1, "MaxAttempts": 1})
    assert ec2.describe_launch_templates(LaunchTemplateIds=[])["LaunchTemplates"] == []


def fargate():
    eks = client("eks")
    role = "arn:aws:iam::123456789012:role/AmazonEKSFargatePodExecutionRole"
    subnets = [s["SubnetId"] for s in the_place()]
    made = eks.create_fargate_profile(
        clusterName=CLUSTER, fargateProfileName="study_wildcard", podExecutionRoleArn=role, subnets=subnets,
        selectors=[{"namespace": "study-*", "labels": {"app": "w?b"}}], tags={"team": "shop"})["fargateProfile"]
    assert made["status"] == "CREATING" and made["createdAt"].year == 2026, made
    assert made["fargateProfileArn"].startswith("arn:aws:eks:%s:123456789012:fargateprofile/%s/study_wildcard/" % (REGION, CLUSTER)), made
    selectors = [{"namespace": "kube-system"}]
    busy = fails("ResourceInUseException", eks.create_fargate_profile, clusterName=CLUSTER, fargateProfileName="kube-system",
                 podExecutionRoleArn=role, selectors=selectors)
    assert busy.response["Error"]["Message"] == (
        "Cannot create Fargate Profile kube-system because cluster %s currently has Fargate profile study_wildcard in status CREATING" % CLUSTER)
    advance(60)
    eks.get_waiter("fargate_profile_active").wait(
        clusterName=CLUSTER, fargateProfileName="study_wildcard", WaiterConfig={"Delay": 1, "MaxAttempts": 1})
    eks.create_fargate_profile(clusterName=CLUSTER, fargateProfileName="kube-system", podExecutionRoleArn=role, selectors=selectors)
    advance(60)
    assert eks.list_fargate_profiles(clusterName=CLUSTER)["fargateProfileNames"] == ["kube-system", "study_wildcard"]
    first = eks.list_fargate_profiles(clusterName=CLUSTER, maxResults=1)
    rest = eks.list_fargate_profiles(clusterName=CLUSTER, maxResults=1, nextToken=first["nextToken"])
    assert first["fargateProfileNames"] + rest["fargateProfileNames"] == ["kube-system", "study_wildcard"]
    found = eks.describe_fargate_profile(clusterName=CLUSTER, fargateProfileName="study_wildcard")["fargateProfile"]
    assert found["selectors"] == [{"namespace": "study-*", "labels": {"app": "w?b"}}] and found["subnets"] == subnets, found
    arn = found["fargateProfileArn"]
    eks.tag_resource(resourceArn=arn, tags={"cost": "1"})
    eks.untag_resource(resourceArn=arn, tagKeys=["team"])
    assert eks.list_tags_for_resource(resourceArn=arn)["tags"] == {"cost": "1"}
    fails("ResourceNotFoundException", eks.describe_fargate_profile, clusterName=CLUSTER, fargateProfileName="nobody")
    assert eks.list_nodegroups(clusterName=CLUSTER)["nodegroups"] == []
    assert eks.list_addons(clusterName=CLUSTER)["addons"] == ["coredns"]
    assert eks.describe_addon(clusterName=CLUSTER, addonName="coredns")["addon"]["status"] == "DEGRADED"
    versions = eks.describe_addon_versions(addonName="coredns", kubernetesVersion="1.34")["addons"]
    assert versions[0]["addonVersions"][0]["addonVersion"] == "v1.11.4-eksbuild.2", versions
    assert eks.describe_addon_versions(addonName="coredns", kubernetesVersion="1.20")["addons"] == []
    gone = eks.delete_fargate_profile(clusterName=CLUSTER, fargateProfileName="study_wildcard")["fargateProfile"]
    assert gone["status"] == "DELETING", gone
    fails("ResourceInUseException", eks.delete_fargate_profile, clusterName=CLUSTER, fargateProfileName="kube-system")
    advance(60)
    eks.get_waiter("fargate_profile_deleted").wait(
        clusterName=CLUSTER, fargateProfileName="study_wildcard", WaiterConfig={"Delay": 1, "MaxAttempts": 1})


def logs():
    logs = client("logs")
    group = "/aws/eks/nodeless/pods"
    logs.create_log_group(logGroupName=group)
    fails("ResourceAlreadyExistsException", logs.create_log_group, logGroupName=group)
    logs.put_retention_policy(logGroupName=group, retentionInDays=7)
    fails("InvalidParameterException", logs.put_retention_policy, logGroupName=group, retentionInDays=8)
    found = logs.describe_log_groups(logGroupNamePrefix="/aws/eks")["logGroups"]
    assert [(g["logGroupName"], g["retentionInDays"]) for g in found] == [(group, 7)], found
    now = found[0]["creationTime"]
    streams = ["web-%d" % n for n in range(3)]
    for n, stream in enumerate(streams):
        logs.create_log_stream(logGroupName=group, logStreamName=stream)
        out = logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=[
            {"timestamp": now + 10 * i + n, "message": "%s line %d %s" % (stream, i, "\u00e9\u2028" if i == 7 else "ok")} for i in range(20)])
        assert "rejectedLogEventsInfo" not in out, out
    # as aws logs tail reads
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=group, startTime=now, interleaved=True, PaginationConfig={"PageSize": 7})
    events = [e for p in pages for e in p["events"]]
    assert len(events) == 60 and len({e["eventId"] for e in events}) == 60, len(events)
    assert [e["timestamp"] for e in events] == sorted(e["timestamp"] for e in events)
    assert events[0]["logStreamName"] == "web-0" and "web-0 line 7 \u00e9\u2028" in [e["message"] for e in events]
    some = logs.filter_log_events(logGroupName=group, logStreamNamePrefix="web-1", filterPattern='"line 19" -web-2')["events"]
    assert [e["message"] for e in some] == ["web-1 line 19 ok"], some
    # forwards and backwards through a stream
    page = logs.get_log_events(logGroupName=group, logStreamName="web-1", startFromHead=True, limit=15)
    assert page["events"][0]["message"] == "web-1 line 0 ok" and len(page["events"]) == 15
    page = logs.get_log_events(logGroupName=group, logStreamName="web-1", limit=15, nextToken=page["nextForwardToken"])
    assert [e["message"] for e in page["events"]][-1] == "web-1 line 19 ok" and len(page["events"]) == 5
    end = logs.get_log_events(logGroupName=group, logStreamName="web-1", nextToken=page["nextForwardToken"])
    assert end["events"] == [] and end["nextForwardToken"] == page["nextForwardToken"], end
    back = logs.get_log_events(logGroupName=group, logStreamName="web-1", limit=3, nextToken=page["nextBackwardToken"])
    assert [e["message"] for e in back["events"]] == ["web-1 line %d ok" % n for n in (12, 13, 14)], back
    last = logs.get_log_events(logGroupName=group, logStreamName="web-1", limit=1)["events"]
    assert last[0]["message"] == "web-1 line 19 ok"
    listed = logs.describe_log_streams(logGroupName=group, orderBy="LastEventTime", descending=True, limit=2)
    assert [s["logStreamName"] for s in listed["logStreams"]] == ["web-2", "web-1"], listed
    rest = logs.describe_log_streams(logGroupName=group, orderBy="LastEventTime", descending=True, nextToken=listed["nextToken"])
    assert [s["logStreamName"] for s in rest["logStreams"]] == ["web-0"], rest
    fails("ResourceNotFoundException", logs.put_log_events, logGroupName=group, logStreamName="nobody",
          logEvents=[{"timestamp": now, "message": "x"}])
    fails("ResourceNotFoundException", logs.filter_log_events, logGroupName="nobody")
    fails("InvalidParameterException", logs.filter_log_events, logGroupName=group, filterPattern="{ $.a = 1 }")
    too_new = logs.put_log_events(logGroupName=group, logStreamName="web-0", logEvents=[{"timestamp": now + 3 * 3600 * 1000, "message": "x"}])
    assert too_new["rejectedLogEventsInfo"]["tooNewLogEventStartIndex"] == 0, too_new
    large = logs.put_log_events(logGroupName=group, logStreamName="web-0", logEvents=[{"timestamp": now, "message": "\u0001" * 1048550}])
    assert "rejectedLogEventsInfo" not in large, large
    logs.delete_retention_policy(logGroupName=group)
    logs.delete_log_stream(logGroupName=group, logStreamName="web-0")
    logs.delete_log_group(logGroupName=group)
    assert logs.describe_log_groups()["logGroups"] == []


for story in sys.argv[5:]:
    {"types": types, "prices": prices, "launches": launches, "accounts": accounts,
     "fargate": fargate, "logs": logs, "balancers": balancers, "scaling": scaling, "nodegroups": nodegroups}[story]()
print("ok")
