variable "cluster_name" {
  type        = string
  description = "Name of the EKS cluster. Its Pod Identity agent (add-on eks-pod-identity-agent) gives the controller its role."
}

variable "chart" {
  type        = string
  description = "The chart nodeless: an oci:// address, or the path of a chart made by \"make chart\"."
}

variable "chart_version" {
  type        = string
  default     = null
  description = "Version of the chart; null for the newest version, or the version at a path."
}

variable "values" {
  type        = list(string)
  default     = []
  description = "More values for the chart, as YAML; for example, the image's repository and tag."
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
  description = "Name of the SQS queue for EC2's notices; null for the cluster's name."
}

variable "controller_role" {
  type        = string
  default     = null
  description = "Name of the controller's IAM role; null for NodelessController-CLUSTER."
}

variable "node_role" {
  type        = string
  default     = null
  description = "Name of the nodes' IAM role, for spec.role of EC2NodeClasses; null for NodelessNodeRole-CLUSTER."
}

variable "node_groups" {
  type        = bool
  default     = false
  description = "Also grant the permissions that NodeGroups (Auto Scaling groups) need."
}

variable "node_access_entry" {
  type        = bool
  default     = true
  description = "Create the access entry that lets nodes join. If the cluster's authentication mode is CONFIG_MAP, set this to false and map the role in aws-auth. Set it to false, too, if the role already has an entry."
}
