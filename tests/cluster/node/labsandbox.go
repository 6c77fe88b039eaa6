package node

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cluster.signpost.test/netns"
)

// stopAfterAnnotation is how long the server of an ordinary Pod goes on after it was told to stop.
const stopAfterAnnotation = "signpost.test/stop-after"

// defaultPort is served by a Pod that names no port.
const defaultPort = 8080

// labSandbox is an ordinary Pod: a pod of the lab. Its containers are one server, which each of them "is".
type labSandbox struct {
	agent  *agent
	uid    types.UID
	record record
	// adopted: the server is of an earlier stand-in.
	adopted bool
}

func (s *labSandbox) prepare(ctx context.Context, pod *corev1.Pod) (err error) {
	config := s.agent.config
	s.uid = pod.UID
	if s.record, err = config.readRecord(pod.UID); err != nil {
		return err
	}
	member := memberName(pod.Namespace, pod.Name)
	switch {
	case !config.inLab(member):
	case s.record.Member != member:
		return fmt.Errorf("the lab %s has a member %s already: give the Pod another name", config.Lab, member)
	case s.record.Serving:
		s.adopted = true
		return nil
	default:
		// A stand-in ended in the middle of making it.
		if err := config.removePod(ctx, member); err != nil {
			return err
		}
	}
	if !s.record.Address.IsValid() {
		if s.record.Address, err = s.pickAddress(pod); err != nil {
			return err
		}
	}
	s.record.Namespace, s.record.Name, s.record.Member = pod.Namespace, pod.Name, member
	if err := config.writeRecord(pod.UID, s.record); err != nil {
		return err
	}
	if err := s.add(ctx, pod); err != nil {
		return err
	}
	s.record.Serving = true
	return config.writeRecord(pod.UID, s.record)
}

// pickAddress takes the one that the status says, as far as it is one of this node's, else a free one.
func (s *labSandbox) pickAddress(pod *corev1.Pod) (netip.Addr, error) {
	if address, err := netip.ParseAddr(pod.Status.PodIP); err == nil && s.agent.config.PodCIDR.Contains(address) {
		return address, nil // it was marked as taken at the start
	}
	return s.agent.addresses.give()
}

func (s *labSandbox) add(ctx context.Context, pod *corev1.Pod) error {
	return s.agent.config.addPod(ctx, s.record.Member, pod.Name, s.record.Address, ports(pod))
}

func ports(pod *corev1.Pod) []int32 {
	var ports []int32
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if !slices.Contains(ports, port.ContainerPort) {
				ports = append(ports, port.ContainerPort)
			}
		}
	}
	if len(ports) == 0 {
		ports = append(ports, defaultPort)
	}
	return ports
}

func (s *labSandbox) start(ctx context.Context, pod *corev1.Pod, c *container) (process, bool, error) {
	first := c.begun.IsZero()
	if !first {
		// Its server was found bad: a new one, in the same place.
		if err := s.agent.config.removePod(ctx, s.record.Member); err != nil {
			return nil, false, err
		}
		if err := s.add(ctx, pod); err != nil {
			return nil, false, err
		}
	}
	return &labProcess{
		netns: s.agent.config.netnsPath(s.record.Member), name: s.record.Member + "/" + c.spec.Name, end: make(chan struct{}),
	}, first && s.adopted, nil
}

func (s *labSandbox) refresh(context.Context, *corev1.Pod) (time.Time, error) {
	return time.Time{}, nil
}

func (s *labSandbox) address() string { return s.record.Address.String() }

func (s *labSandbox) linger(pod *corev1.Pod) time.Duration {
	duration, err := time.ParseDuration(pod.Annotations[stopAfterAnnotation])
	if err != nil {
		return 0 // refuse has looked at it
	}
	return duration
}

func (s *labSandbox) remove(ctx context.Context) error {
	if s.uid == "" {
		return nil // it was never prepared
	}
	if err := s.agent.config.forget(ctx, s.uid, s.record); err != nil {
		return err
	}
	s.agent.addresses.free(s.record.Address)
	return nil
}

// labProcess is a container of an ordinary Pod. It ends when it is told to.
type labProcess struct {
	netns string
	name  string
	once  sync.Once
	end   chan struct{}
}

func (p *labProcess) id() string { return "signpost-lab://" + p.name }

func (p *labProcess) signal(syscall.Signal) { p.once.Do(func() { close(p.end) }) }

func (p *labProcess) exited() <-chan struct{} { return p.end }

func (p *labProcess) exitCode() int32 { return 0 }

// exec runs a command of this machine in the pod's network namespace.
func (p *labProcess) exec(ctx context.Context, argv []string) error {
	return netns.Do(p.netns, func() error {
		output, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%q: %w: %.200s", argv, err, output)
		}
		return nil
	})
}
