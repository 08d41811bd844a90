# Installs Nodeless in an EKS cluster: its IAM roles, the interruption queue with its rules, and the Helm release.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws  = { source = "hashicorp/aws", version = ">= 6.0" }
    helm = { source = "hashicorp/helm", version = ">= 3.0" }
  }
}

data "aws_region" "current" {}
data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}

locals {
  interruption_queue = coalesce(var.interruption_queue, var.cluster_name)
  node_role          = coalesce(var.node_role, "NodelessNodeRole-${var.cluster_name}")
  controller_role    = coalesce(var.controller_role, "NodelessController-${var.cluster_name}")
  # The principal's name does not follow the partition's DNS suffix.
  ec2_service = data.aws_partition.current.partition == "aws-cn" ? "ec2.amazonaws.com.cn" : "ec2.amazonaws.com"
}

resource "helm_release" "nodeless" {
  name      = "nodeless"
  namespace = var.namespace
  chart     = var.chart
  version   = var.chart_version
  values = concat([yamlencode({
    settings       = { clusterName = var.cluster_name, interruptionQueue = aws_sqs_queue.interruption.name }
    serviceAccount = { name = var.service_account }
    rbac           = { nodeGroups = var.node_groups }
  })], var.values)

  # The controller calls AWS as soon as it starts.
  depends_on = [aws_iam_role_policy.controller, aws_eks_pod_identity_association.controller, aws_sqs_queue_policy.interruption]
}
