package awsapi

// operations holds what each service answers, by action. The refusal of any other service or action names it.
var operations = map[string]map[string]operation{
	serviceEC2: {
		"AuthorizeSecurityGroupIngress":  authorizeSecurityGroupIngress,
		"CreateFleet":                    createFleet,
		"CreateLaunchTemplate":           createLaunchTemplate,
		"CreateTags":                     createTags,
		"DeleteLaunchTemplate":           deleteLaunchTemplate,
		"DeleteTags":                     deleteTags,
		"DescribeInstanceStatus":         describeInstanceStatus,
		"DescribeInstances":              describeInstances,
		"TerminateInstances":             terminateInstances,
		"DescribeAvailabilityZones":      describeAvailabilityZones,
		"DescribeCapacityReservations":   describeCapacityReservations,
		"DescribeInstanceTypeOfferings":  describeInstanceTypeOfferings,
		"DescribeInstanceTypes":          describeInstanceTypes,
		"DescribeImages":                 describeImages,
		"DescribeLaunchTemplateVersions": describeLaunchTemplateVersions,
		"DescribeLaunchTemplates":        describeLaunchTemplates,
		"DescribeNetworkInterfaces":      describeNetworkInterfaces,
		"DescribePlacementGroups":        describePlacementGroups,
		"DescribeRegions":                describeRegions,
		"DescribeSecurityGroups":         describeSecurityGroups,
		"DescribeSpotPriceHistory":       describeSpotPriceHistory,
		"DescribeSubnets":                describeSubnets,
		"DescribeTags":                   describeTags,
		"DescribeVpcs":                   describeVpcs,
		"RevokeSecurityGroupIngress":     revokeSecurityGroupIngress,
		"RunInstances":                   runInstances,
	},
	servicePricing: {
		"GetProducts": getProducts,
	},
	serviceIAM: {
		"AddRoleToInstanceProfile":      addRoleToInstanceProfile,
		"CreateInstanceProfile":         createInstanceProfile,
		"DeleteInstanceProfile":         deleteInstanceProfile,
		"GetInstanceProfile":            getInstanceProfile,
		"GetRole":                       getRole,
		"ListInstanceProfiles":          listInstanceProfiles,
		"RemoveRoleFromInstanceProfile": removeRoleFromInstanceProfile,
		"TagInstanceProfile":            tagInstanceProfile,
	},
	serviceSTS: {
		"GetCallerIdentity": getCallerIdentity,
	},
	serviceSSM: {
		"GetParameter":        getParameter,
		"GetParameters":       getParameters,
		"GetParametersByPath": getParametersByPath,
	},
	serviceSQS: {
		"DeleteMessage":      sqsJSON(deleteMessage),
		"DeleteMessageBatch": sqsJSON(deleteMessageBatch),
		"GetQueueAttributes": sqsJSON(getQueueAttributes),
		"GetQueueUrl":        sqsJSON(getQueueURL),
		"ReceiveMessage":     sqsJSON(receiveMessage),
		"SendMessage":        sqsJSON(sendMessage),
	},
	serviceEKS: {
		"DescribeCluster": describeCluster,
		"ListClusters":    listClusters,
	},
}

// sqsQueryOperations is SQS as older clients call it.
var sqsQueryOperations = map[string]operation{
	"DeleteMessage":      sqsQuery(deleteForm, deleteMessage),
	"DeleteMessageBatch": sqsQuery(deleteBatchForm, deleteMessageBatch),
	"GetQueueAttributes": sqsQuery(attributesForm, getQueueAttributes),
	"GetQueueUrl":        sqsQuery(queueURLForm, getQueueURL),
	"ReceiveMessage":     sqsQuery((*call).receiveForm, receiveMessage),
	"SendMessage":        sqsQuery(sendForm, sendMessage),
}
