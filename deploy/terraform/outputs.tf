output "controller_role_arn" {
  value = aws_iam_role.controller.arn
}

output "node_role" {
  description = "Name of the nodes' IAM role, for spec.role of EC2NodeClasses."
  value       = aws_iam_role.node.name
}

output "interruption_queue" {
  value = aws_sqs_queue.interruption.name
}
