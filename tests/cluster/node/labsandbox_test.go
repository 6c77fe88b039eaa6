package node

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// labProgram stands in for the program that builds labs: it makes namespaces without anything in them, and
// writes down what it was asked. It needs root.
const labProgram = `#!/bin/sh
echo "$@" >> "$0.log"
case "$2" in
add-pod) ip netns add "signpost-lab.$4.$5" ;;
remove-pod) ip netns del "signpost-lab.$4.$5" ;;
esac
`

// ground is a node whose lab is empty at first.
type ground struct {
	t       *testing.T
	agent   *agent
	program string
}

func groundOf(t *testing.T) *ground {
	t.Helper()
	program := filepath.Join(t.TempDir(), "signpost")
	if err := os.WriteFile(program, []byte(labProgram), 0o755); err != nil {
		t.Fatal(err)
	}
	config := testConfig
	config.Lab, config.Signpost, config.Directory = "standintest", program, t.TempDir()
	t.Cleanup(func() {
		left, _ := filepath.Glob(config.netnsPath("*"))
		for _, path := range left {
			exec.Command("ip", "netns", "del", filepath.Base(path)).Run()
		}
	})
	return &ground{t, &agent{config: config, addresses: newAddresses(config.PodCIDR)}, program}
}

// again is the same node, of a stand-in that was started later.
func (g *ground) again() *ground {
	return &ground{g.t, &agent{config: g.agent.config, addresses: newAddresses(g.agent.config.PodCIDR)}, g.program}
}

// asked is what the program was asked for since the last time.
func (g *ground) asked() string {
	g.t.Helper()
	bytes, err := os.ReadFile(g.program + ".log")
	if err != nil {
		g.t.Fatal(err)
	}
	if err := os.Truncate(g.program+".log", 0); err != nil {
		g.t.Fatal(err)
	}
	return string(bytes)
}

func (g *ground) prepare(pod *corev1.Pod) (*labSandbox, error) {
	s := &labSandbox{agent: g.agent}
	return s, s.prepare(context.Background(), pod)
}

func podNamed(t *testing.T, namespace, name, uid string) *corev1.Pod {
	t.Helper()
	pod := podOf(t, "{containers: [{name: c, image: x, ports: [{containerPort: 80}, {containerPort: 81}]}, {name: d, image: x, ports: [{containerPort: 80}]}]}")
	pod.Namespace, pod.Name, pod.UID = namespace, name, types.UID(uid)
	return pod
}

func TestAPodIsMadeInTheLabAndTakenOverLater(t *testing.T) {
	g := groundOf(t)
	pod := podNamed(t, "other", "web", "1")
	s, err := g.prepare(pod)
	if err != nil {
		t.Fatal(err)
	}
	if asked := g.asked(); asked != "lab add-pod --name standintest other.web --node node-a --address 198.19.1.16 --port 80 --port 81 --answers web\n" {
		t.Errorf("%q", asked)
	}
	// Another stand-in, which has not read the status of the Pod: the record is enough.
	g = g.again()
	if err := g.agent.sweep(context.Background(), map[types.UID]bool{"1": true}); err != nil {
		t.Fatal(err)
	}
	s, err = g.prepare(pod)
	if err != nil || s.address() != "198.19.1.16" || !s.adopted {
		t.Fatalf("%+v, %v", s, err)
	}
	if asked := g.asked(); asked != "" {
		t.Errorf("%q", asked)
	}
	if next, err := g.agent.addresses.give(); err != nil || next != netip.MustParseAddr("198.19.1.17") {
		t.Errorf("%v, %v", next, err)
	}
	if _, resumed, err := s.start(context.Background(), pod, newContainers(pod)[0]); err != nil || !resumed {
		t.Errorf("%t, %v", resumed, err)
	}
	if err := s.remove(context.Background()); err != nil {
		t.Fatal(err)
	}
	if asked := g.asked(); asked != "lab remove-pod --name standintest other.web\n" {
		t.Errorf("%q", asked)
	}
	if uids, err := g.agent.config.recorded(); err != nil || len(uids) != 0 {
		t.Errorf("%v, %v", uids, err)
	}
}

func TestAMemberOfTheLabIsNotTaken(t *testing.T) {
	g := groundOf(t)
	if output, err := exec.Command("ip", "netns", "add", "signpost-lab.standintest.client").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	s, err := g.prepare(podNamed(t, "default", "client", "1"))
	if err == nil || !strings.Contains(err.Error(), "has a member client already") {
		t.Fatal(err)
	}
	// Nor is it removed with the Pod.
	if err := s.remove(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !g.agent.config.inLab("client") {
		t.Error("the lab's member is gone")
	}
}

func TestAPodThatWasMadeHalfIsMadeAgain(t *testing.T) {
	g := groundOf(t)
	pod := podNamed(t, "default", "web", "1")
	s, err := g.prepare(pod)
	if err != nil {
		t.Fatal(err)
	}
	s.record.Serving = false
	if err := g.agent.config.writeRecord("1", s.record); err != nil {
		t.Fatal(err)
	}
	g.asked()
	if s, err = g.again().prepare(pod); err != nil || s.adopted || s.address() != "198.19.1.16" {
		t.Fatalf("%+v, %v", s, err)
	}
	if asked := strings.Split(g.asked(), "\n"); len(asked) != 3 || !strings.Contains(asked[0], "remove-pod") || !strings.Contains(asked[1], "add-pod") {
		t.Errorf("%q", asked)
	}
}

func TestWhatWentMeanwhileIsRemoved(t *testing.T) {
	g := groundOf(t)
	for _, name := range []string{"stays", "goes"} {
		if _, err := g.prepare(podNamed(t, "default", name, name)); err != nil {
			t.Fatal(err)
		}
	}
	g = g.again()
	if err := g.agent.sweep(context.Background(), map[types.UID]bool{"stays": true}); err != nil {
		t.Fatal(err)
	}
	if !g.agent.config.inLab("stays") || g.agent.config.inLab("goes") {
		t.Error("the wrong one went")
	}
}
