package node

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cluster.signpost.test/scratch"
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
	// adopted: the first server is of an earlier stand-in.
	adopted bool
	// server is the newest, and servers is whose container is which one, by the containers' names.
	server  *server
	servers map[string]*server
}

func (s *labSandbox) prepare(ctx context.Context, pod *corev1.Pod) (err error) {
	config := s.agent.config
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
		s.server, err = watchServer(config.netnsPath(member))
		return err
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
	config := s.agent.config
	if err := config.addPod(ctx, s.record.Member, pod.Name, s.record.Address, ports(pod)); err != nil {
		return err
	}
	server, err := watchServer(config.netnsPath(s.record.Member))
	s.server = server
	return err
}

// replace makes a new server at the same address, whether there is an old one or not.
func (s *labSandbox) replace(ctx context.Context, pod *corev1.Pod) error {
	if s.agent.config.inLab(s.record.Member) {
		if err := s.agent.config.removePod(ctx, s.record.Member); err != nil {
			return err
		}
	}
	return s.add(ctx, pod)
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
	name := c.spec.Name
	// The server that it was has ended, or was found bad. If there is a newer one already, another container of
	// the Pod was started again before: all end with their server.
	if was := s.servers[name]; was != nil && was == s.server {
		if err := s.replace(ctx, pod); err != nil {
			return nil, false, err
		}
	}
	if s.servers == nil {
		s.servers = map[string]*server{}
	}
	s.servers[name] = s.server
	return newLabProcess(s.record.Member+"/"+name, s.server), s.adopted && c.begun.IsZero(), nil
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
	if s.record.Member == "" {
		// What an earlier stand-in left is on record, also if this one never came to prepare.
		var err error
		if s.record, err = s.agent.config.readRecord(s.uid); err != nil {
			return err
		}
	}
	if err := s.agent.config.forget(ctx, s.uid, s.record); err != nil {
		return err
	}
	s.agent.addresses.free(s.record.Address)
	return nil
}

// labProcess is a container of an ordinary Pod. It ends when it is told to, or with its server.
type labProcess struct {
	name string
	once sync.Once
	end  chan struct{}
	// lost: it ended with its server.
	lost bool
}

func newLabProcess(name string, server *server) *labProcess {
	p := &labProcess{name: name, end: make(chan struct{})}
	go func() {
		select {
		case <-p.end:
		case <-server.ended:
			p.finish(true)
		}
	}()
	return p
}

func (p *labProcess) finish(lost bool) {
	p.once.Do(func() {
		p.lost = lost
		close(p.end)
	})
}

func (p *labProcess) id() string { return "signpost-lab://" + p.name }

func (p *labProcess) signal(syscall.Signal) { p.finish(false) }

func (p *labProcess) exited() <-chan struct{} { return p.end }

// exitCode is the one of an orderly end for a container whose Pod goes. Any other lost its server, or has it killed
// before it is started again, and how it would have ended is not to be known.
func (p *labProcess) exitCode(deleted bool) int32 {
	if deleted && !p.lost {
		return 0
	}
	return scratch.UnknownCode
}

// exec is for containers with a root of their own: here the command would be this machine's.
func (p *labProcess) exec(_ context.Context, argv []string) error {
	return fmt.Errorf("%q: a pod of the lab runs no commands", argv)
}
