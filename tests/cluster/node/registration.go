package node

import (
	"context"
	"log"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/version"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"
)

// The kubelet's own figures: a lease of 40 s, renewed every 10 s; the Node is looked at as often.
const (
	leaseSeconds = 40
	heartbeat    = 10 * time.Second
)

// capacity is more than any test asks for.
var capacity = corev1.ResourceList{
	corev1.ResourceCPU:    resource.MustParse("64"),
	corev1.ResourceMemory: resource.MustParse("256Gi"),
	corev1.ResourcePods:   resource.MustParse("200"),
}

// register makes the Node, or brings an old one up to date.
func register(ctx context.Context, config Config, client kubernetes.Interface) error {
	nodes := client.CoreV1().Nodes()
	wanted := wantedNode(config, time.Now())
	found, err := nodes.Get(ctx, config.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		found, err = nodes.Create(ctx, wanted, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	changed := found.DeepCopy()
	changed.Spec.PodCIDR, changed.Spec.PodCIDRs = wanted.Spec.PodCIDR, wanted.Spec.PodCIDRs
	if changed.Labels == nil {
		changed.Labels = map[string]string{}
	}
	for key, value := range wanted.Labels {
		changed.Labels[key] = value
	}
	if !equality.Semantic.DeepEqual(found, changed) {
		if found, err = nodes.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	status := found.DeepCopy()
	status.Status = mergeNodeStatus(found.Status, wanted.Status)
	if equality.Semantic.DeepEqual(found.Status, status.Status) {
		return nil
	}
	_, err = nodes.UpdateStatus(ctx, status, metav1.UpdateOptions{})
	return err
}

// stayRegistered renews the lease and the Node's status until the context ends.
func stayRegistered(ctx context.Context, config Config, client kubernetes.Interface) {
	go lease.NewController(clock.RealClock{}, client, config.Name, leaseSeconds, nil, heartbeat,
		config.Name, corev1.NamespaceNodeLease, nil).Run(ctx)
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := register(ctx, config, client); err != nil && ctx.Err() == nil {
				log.Printf("node %s: its status: %v", config.Name, err)
			}
		}
	}
}

func wantedNode(config Config, now time.Time) *corev1.Node {
	cidr := config.PodCIDR.Masked().String()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: config.Name,
			Labels: map[string]string{
				corev1.LabelHostname:   config.Name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: runtime.GOARCH,
			},
		},
		Spec: corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: []string{cidr}},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: config.Address.String()},
				{Type: corev1.NodeHostName, Address: config.Name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				OperatingSystem: "linux", Architecture: runtime.GOARCH, KubeletVersion: version.Get().GitVersion + "+stand-in",
			},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue,
				Reason: "StandInReady", Message: "the stand-in runs",
				LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
			}},
		},
	}
}

// mergeNodeStatus puts what we say into what is there; a condition that did not change keeps its times.
func mergeNodeStatus(found, wanted corev1.NodeStatus) corev1.NodeStatus {
	merged := *found.DeepCopy()
	merged.Capacity, merged.Allocatable = wanted.Capacity, wanted.Allocatable
	merged.Addresses, merged.NodeInfo = wanted.Addresses, wanted.NodeInfo
	for _, condition := range wanted.Conditions {
		at := -1
		for i, have := range merged.Conditions {
			if have.Type == condition.Type {
				at = i
			}
		}
		switch {
		case at < 0:
			merged.Conditions = append(merged.Conditions, condition)
		case merged.Conditions[at].Status != condition.Status:
			merged.Conditions[at] = condition
		}
	}
	return merged
}
