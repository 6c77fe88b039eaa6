package node

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestANodeIsMadeAndKept(t *testing.T) {
	ctx, client := context.Background(), fake.NewClientset()
	if err := register(ctx, testConfig, client); err != nil {
		t.Fatal(err)
	}
	node := nodeOf(t, client)
	if node.Spec.PodCIDR != "198.19.1.0/24" || node.Labels[corev1.LabelHostname] != "node-a" || node.Status.Addresses[0].Address != "192.0.2.11" {
		t.Errorf("%+v", node)
	}
	// Somebody adds a label and a condition, and finds the node dead.
	node.Labels["zone"] = "z"
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "Other", Status: corev1.ConditionTrue})
	if _, err := client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := register(ctx, testConfig, client); err != nil {
		t.Fatal(err)
	}
	node = nodeOf(t, client)
	if node.Labels["zone"] != "z" || len(node.Status.Conditions) != 2 || node.Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("%+v", node)
	}
	// A third time changes nothing, and so writes nothing.
	client.ClearActions()
	if err := register(ctx, testConfig, client); err != nil {
		t.Fatal(err)
	}
	for _, action := range client.Actions() {
		if action.GetVerb() != "get" {
			t.Errorf("%s", action.GetVerb())
		}
	}
}

func nodeOf(t *testing.T, client *fake.Clientset) *corev1.Node {
	t.Helper()
	node, err := client.CoreV1().Nodes().Get(context.Background(), "node-a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func TestAConditionKeepsItsTimeUntilItChanges(t *testing.T) {
	begin := time.Unix(1000, 0)
	found := wantedNode(testConfig, begin).Status
	same := mergeNodeStatus(found, wantedNode(testConfig, begin.Add(time.Hour)).Status)
	if !same.Conditions[0].LastTransitionTime.Time.Equal(begin) {
		t.Errorf("%v", same.Conditions[0].LastTransitionTime)
	}
	found.Conditions[0].Status = corev1.ConditionFalse
	changed := mergeNodeStatus(found, wantedNode(testConfig, begin.Add(time.Hour)).Status)
	if !changed.Conditions[0].LastTransitionTime.Time.Equal(begin.Add(time.Hour)) {
		t.Errorf("%v", changed.Conditions[0].LastTransitionTime)
	}
}
