package stories

// whyPools are the pools for the pods, each with what makes it refuse them, and the priority classes of some of the
// pods.
const whyPools = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: expendable}
value: -1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: worthwhile}
value: -100
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  disruption: {consolidateAfter: Never, budgets: [{nodes: "0"}]}
  weight: 9
  template:
    metadata: {labels: {team: gpu}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      taints: [{key: gpu, value: "true", effect: NoSchedule}]
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
      - {key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: limited}
spec:
  disruption: {consolidateAfter: Never, budgets: [{nodes: "0"}]}
  weight: 8
  limits: {cpu: "2"}
  template:
    metadata: {labels: {team: limited}}
    spec:
      taints: [{key: limited, effect: NoSchedule}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: none}
spec:
  disruption: {consolidateAfter: Never, budgets: [{nodes: "0"}]}
  weight: 7
  limits: {nodes: "0"}
  template:
    metadata: {labels: {team: none}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: diverse}
spec:
  disruption: {consolidateAfter: Never, budgets: [{nodes: "0"}]}
  weight: 6
  template:
    metadata: {labels: {team: diverse}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, c5, none], minValues: 3}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: unready}
spec:
  disruption: {consolidateAfter: Never, budgets: [{nodes: "0"}]}
  weight: 5
  template:
    metadata: {labels: {team: unready}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: unready}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: zonal}
spec:
  disruption: {consolidateAfter: Never, budgets: [{nodes: "0"}]}
  weight: 4
  template:
    metadata: {labels: {team: zonal}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
      - {key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: burdened}
spec:
  disruption: {consolidateAfter: Never, budgets: [{nodes: "0"}]}
  weight: 3
  template:
    metadata: {labels: {team: burdened}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      taints: [{key: burdened, effect: NoSchedule}]
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: sold-out}
spec:
  disruption: {consolidateAfter: Never, budgets: [{nodes: "0"}]}
  weight: 2
  template:
    metadata: {labels: {team: sold-out}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      taints: [{key: sold-out, effect: NoSchedule}]
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.8xlarge]}
      - {key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a]}
`
