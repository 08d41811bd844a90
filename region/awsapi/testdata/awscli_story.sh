#!/bin/sh
# An Auto Scaling group and a managed node group as people make them, with the AWS CLI.
# Usage: awscli_story.sh AWS ENDPOINT CLUSTER
set -eu
tool=$1 endpoint=$2 cluster=$3
export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_DEFAULT_REGION=us-west-2 AWS_PAGER= AWS_CONFIG_FILE=/dev/null
aws() { "$tool" --endpoint-url "$endpoint" --output text "$@"; }
advance() { curl -fsS -X POST -H 'Authorization: Bearer token-of-the-tests' "$endpoint/advance?seconds=$1"; }
is() { [ "$1" = "$2" ] || { echo "got '$1', want '$2'" >&2; exit 1; }; }

image=$(aws ssm get-parameter --query Parameter.Value \
	--name /aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id)
subnet=$(aws ec2 describe-subnets --query 'Subnets[0].SubnetId')
aws ec2 create-launch-template --launch-template-name web \
	--launch-template-data "ImageId=$image,InstanceType=m5.large" >/dev/null
aws autoscaling create-auto-scaling-group --auto-scaling-group-name web --min-size 0 --max-size 3 --desired-capacity 1 \
	--launch-template LaunchTemplateName=web,Version='$Latest' --vpc-zone-identifier "$subnet" \
	--tags Key=k8s.io/cluster-autoscaler/enabled,Value=true,PropagateAtLaunch=false
aws autoscaling set-desired-capacity --auto-scaling-group-name web --desired-capacity 2
advance 60
is "$(aws autoscaling describe-auto-scaling-groups --filters Name=tag-key,Values=k8s.io/cluster-autoscaler/enabled \
	--query 'AutoScalingGroups[].[AutoScalingGroupName,DesiredCapacity,Instances[].LifecycleState|join(`,`,@)]')" \
	"web	2	InService,InService"
one=$(aws autoscaling describe-auto-scaling-instances --query 'AutoScalingInstances[0].InstanceId')
is "$(aws autoscaling terminate-instance-in-auto-scaling-group --instance-id "$one" --should-decrement-desired-capacity \
	--query Activity.StatusCode)" InProgress
advance 60
is "$(aws autoscaling describe-scaling-activities --auto-scaling-group-name web --query 'Activities[0].StatusCode')" Successful
if aws autoscaling set-desired-capacity --auto-scaling-group-name web --desired-capacity 4 2>/tmp/refusal.$$; then exit 1; fi
grep -q 'New SetDesiredCapacity value 4 is above max value 3' /tmp/refusal.$$
rm -f /tmp/refusal.$$
aws autoscaling delete-auto-scaling-group --auto-scaling-group-name web --force-delete
advance 60
is "$(aws autoscaling describe-auto-scaling-groups --query 'length(AutoScalingGroups)')" 0

is "$(aws eks create-nodegroup --cluster-name "$cluster" --nodegroup-name web --subnets "$subnet" \
	--node-role arn:aws:iam::123456789012:role/nodes --scaling-config minSize=0,maxSize=2,desiredSize=1 \
	--query nodegroup.status)" CREATING
advance 60
aws eks wait nodegroup-active --cluster-name "$cluster" --nodegroup-name web
is "$(aws eks list-nodegroups --cluster-name "$cluster" --query nodegroups)" web
