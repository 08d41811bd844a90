package nodesim

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/vpcresources/v1beta1"
)

// A Windows image interprets its PowerShell user data, also in the form of the EKS user guide.
func TestAnInstanceOfWindowsRegistersAsItsScriptSays(t *testing.T) {
	const args = `'--node-labels="karpenter.sh/nodepool=win,team=data" ` +
		`--register-with-taints="a=x:NoSchedule,karpenter.sh/unregistered:NoExecute" --max-pods=20 --kube-reserved="cpu=100m" ` +
		`--eviction-hard="memory.available<5%"'`
	for name, script := range map[string]string{
		"Nodeless": `<powershell>
Write-Host hello
& "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1" -EKSClusterName 'prod' -KubeletExtraArgs ` + args + `
</powershell>`,
		"the user guide": `<powershell>
[string]$EKSBinDir = "$env:ProgramFiles\Amazon\EKS"
[string]$EKSBootstrapScriptName = 'Start-EKSBootstrap.ps1'
[string]$EKSBootstrapScriptFile = "$EKSBinDir\$EKSBootstrapScriptName"
& $EKSBootstrapScriptFile -EKSClusterName "prod" -KubeletExtraArgs ` + args + ` 3>&1 4>&1 5>&1 6>&1
</powershell>`,
	} {
		m := &Instance{Name: "ip-10-0-0-4", Type: typeNamed("m5.large"), Windows: "2022", UserData: []byte(script)}
		k, err := kubeletOf(*m)
		if err != nil || k.Cluster != "prod" {
			t.Fatalf("%s: cluster %q, %v", name, k.Cluster, err)
		}
		node := newNode(m, k, metav1.Now())
		for key, want := range map[string]string{
			"karpenter.sh/nodepool": "win", "team": "data", "kubernetes.io/os": "windows",
			"node.kubernetes.io/windows-build": "10.0.20348",
		} {
			if node.Labels[key] != want {
				t.Errorf("%s: label %s is %q, want %q", name, key, node.Labels[key], want)
			}
		}
		taints := []corev1.Taint{
			{Key: "a", Value: "x", Effect: corev1.TaintEffectNoSchedule},
			{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute},
		}
		info := node.Status.NodeInfo
		if !slices.Equal(node.Spec.Taints, taints) || info.OperatingSystem != "windows" || info.KernelVersion != "10.0.20348" ||
			!strings.HasPrefix(info.OSImage, "Windows Server 2022") {
			t.Errorf("%s: taints %v, info %+v", name, node.Spec.Taints, info)
		}
		if a := node.Status.Allocatable; a.Pods().Value() != 20 || a.Cpu().MilliValue() != 1900 {
			t.Errorf("%s: allocatable %v", name, a)
		}
		if _, offered := node.Status.Capacity[v1beta1.PrivateIPv4Address]; offered {
			t.Errorf("%s: it registers with addresses, which the VPC resource controller adds", name)
		}
	}
}

func TestUserDataWithWhichWindowsJoinsNoCluster(t *testing.T) {
	for data, want := range map[string]string{
		"": "no <powershell>", "#!/bin/sh\necho": "no <powershell>",
		"<powershell>\nWrite-Host hello\n</powershell>":                                                                        "-EKSClusterName",
		"<powershell>\n& Start-EKSBootstrap.ps1 -DNSClusterIP '10.0.0.9'\n</powershell>":                                       "-EKSClusterName",
		"kind: NodeConfig\nspec: {cluster: {name: c}}\n":                                                                       "no <powershell>",
		"<powershell>\n& Start-EKSBootstrap.ps1 -EKSClusterName c -KubeletExtraArgs '--max-pods=x'\n</powershell>":             "--max-pods",
		"<powershell>\n& Start-EKSBootstrap.ps1 -EKSClusterName c -KubeletExtraArgs '--register-with-taints=a'\n</powershell>": "KEY=VALUE:EFFECT",
	} {
		_, err := kubeletOf(Instance{Type: typeNamed("m5.large"), Windows: "2022", UserData: []byte(data)})
		if err == nil || !strings.Contains(err.Error(), "user data") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", data, err, want)
		}
	}
}
