variable "cluster_name" {
  type        = string
  description = "Name of the EKS cluster. Its Pod Identity agent (add-on eks-pod-identity-agent) gives the controller its role."
}

variable "chart" {
  type        = string
  description = "The chart nodeless: an oci:// address, or the path of what \"make chart\" makes."
}

variable "chart_version" {
  type        = string
  default     = null
  description = "Version of the chart; null for that of a path, or the newest."
}

variable "values" {
  type        = list(string)
  default     = []
  description = "More values of the chart, as YAML; such as the image's repository and tag."
}

variable "namespace" {
  type        = string
  default     = "kube-system"
  description = "Namespace of the controller."
}

variable "service_account" {
  type        = string
  default     = "nodeless"
  description = "Name of the controller's service account."
}

variable "interruption_queue" {
  type        = string
  default     = null
  description = "Name of the SQS queue with EC2's notices; null for the cluster's name."
}

variable "controller_role" {
  type        = string
  default     = null
  description = "Name of the controller's IAM role; null for NodelessController-CLUSTER."
}

variable "node_role" {
  type        = string
  default     = null
  description = "Name of the IAM role of nodes, which EC2NodeClasses name in spec.role; null for NodelessNodeRole-CLUSTER."
}

variable "node_groups" {
  type        = bool
  default     = false
  description = "Also allow what NodeGroups (Auto Scaling groups) need."
}

variable "node_access_entry" {
  type        = bool
  default     = true
  description = "Make the access entry by which nodes join. Set it to false where the authentication mode is CONFIG_MAP, and map the role in aws-auth."
}
