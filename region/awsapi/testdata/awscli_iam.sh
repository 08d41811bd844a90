#!/bin/sh
# Users, keys and policies with the AWS CLI: awscli_iam.sh AWS URL, with the administrator's key in the environment.
set -eu
cli=$1
export AWS_DEFAULT_REGION=us-west-2 AWS_EC2_METADATA_DISABLED=true AWS_PAGER=
unset AWS_PROFILE AWS_SESSION_TOKEN
url=$2
aws() { "$cli" --endpoint-url "$url" --output text "$@"; }

# refused CODE COMMAND…: the command fails with the code.
refused() {
	want=$1; shift
	if out=$("$@" 2>&1); then echo "not refused: $*"; exit 1; fi
	case $out in *"($want)"*) ;; *) echo "want $want: $out"; exit 1 ;; esac
}

aws iam create-user --user-name ann --query User.Arn | grep -qx arn:aws:iam::123456789012:user/ann
aws iam put-user-policy --user-name ann --policy-name look --policy-document \
	'{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "ec2:DescribeSubnets", "Resource": "*"}]}'
aws iam get-user-policy --user-name ann --policy-name look --query PolicyDocument.Statement[0].Action |
	grep -qx ec2:DescribeSubnets
keys=$(aws iam create-access-key --user-name ann --query '[AccessKey.AccessKeyId, AccessKey.SecretAccessKey]')
AWS_ACCESS_KEY_ID=$(echo "$keys" | cut -f1) AWS_SECRET_ACCESS_KEY=$(echo "$keys" | cut -f2)
aws sts get-caller-identity --query Arn | grep -qx arn:aws:iam::123456789012:user/ann
aws ec2 describe-subnets --query 'Subnets[].SubnetId' | grep -q subnet-
refused UnauthorizedOperation aws ec2 describe-instances
refused AccessDenied aws iam create-user --user-name eve
refused AccessDeniedException aws eks describe-cluster --name nodeless

AWS_SECRET_ACCESS_KEY=wrong
refused AuthFailure aws ec2 describe-subnets
refused SignatureDoesNotMatch aws sts get-caller-identity
refused InvalidSignatureException aws eks describe-cluster --name nodeless
AWS_ACCESS_KEY_ID=AKIAFOREIGN
refused AuthFailure aws ec2 describe-subnets
refused InvalidClientTokenId aws sts get-caller-identity
refused UnrecognizedClientException aws ssm get-parameter --name /aws/service/eks
