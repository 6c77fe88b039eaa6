package node

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"cluster.signpost.test/scratch"
)

// entrypoint is where a container has the program under test, and what it runs if it is told nothing else.
const entrypoint = "/signpost"

// syncTimeout bounds the wait for the Secrets and ConfigMaps that a Pod names, also if a rule forbids them.
const syncTimeout = 10 * time.Second

// hostSandbox is a Pod in the node's network that runs the program under test.
type hostSandbox struct {
	agent      *agent
	uid        types.UID
	changed    func()
	record     record
	references *references
	volumes    *volumes
}

func newHostSandbox(a *agent, pod *corev1.Pod, changed func()) *hostSandbox {
	return &hostSandbox{agent: a, uid: pod.UID, changed: changed}
}

func (s *hostSandbox) prepare(ctx context.Context, pod *corev1.Pod) error {
	config := s.agent.config
	left, err := config.readRecord(s.uid)
	if err != nil {
		return err
	}
	s.record = record{Namespace: pod.Namespace, Name: pod.Name, Processes: map[string]processID{}}
	maps.Copy(s.record.Processes, left.Processes)
	if err := config.writeRecord(s.uid, s.record); err != nil {
		return err
	}
	if s.references == nil {
		s.references = reference(s.agent.client, pod, s.changed)
		s.volumes = &volumes{config, s.references, &tokens{s.agent.client, map[tokenKey]token{}}}
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	return s.references.wait(ctx)
}

func (s *hostSandbox) refresh(ctx context.Context, pod *corev1.Pod) (time.Time, error) {
	return s.volumes.write(ctx, pod)
}

func (s *hostSandbox) start(_ context.Context, pod *corev1.Pod, c *container) (process, bool, error) {
	spec, err := s.spec(pod, c.spec)
	if err != nil {
		return nil, false, err
	}
	// Until a container was started here, the process on record is of an earlier stand-in.
	if id, ok := s.record.Processes[c.spec.Name]; ok && c.begun.IsZero() && id.runs() {
		running, err := scratch.Adopt(spec, s.agent.config.netnsPath(s.agent.config.Name), id.PID)
		return s.process(running, c.spec.Name, id), true, err
	}
	running, err := s.launch(pod, c.spec.Name, spec)
	if err != nil {
		return nil, false, err
	}
	id, err := identify(running.PID())
	if err == nil {
		s.record.Processes[c.spec.Name] = id
		err = s.agent.config.writeRecord(s.uid, s.record)
	}
	if err != nil {
		running.Signal(syscall.SIGKILL)
		return nil, false, err
	}
	return s.process(running, c.spec.Name, id), false, nil
}

func (s *hostSandbox) process(running *scratch.Process, container string, id processID) *hostProcess {
	return &hostProcess{running, fmt.Sprintf("signpost-stand-in://%s/%s/%d-%d", s.uid, container, id.PID, id.Start)}
}

// launch starts the program, with its output at the end of its log.
func (s *hostSandbox) launch(pod *corev1.Pod, container string, spec *scratch.Spec) (*scratch.Process, error) {
	config := s.agent.config
	logs := filepath.Join(config.Directory, config.Name, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(logs, fmt.Sprintf("%s_%s_%s.log", pod.Namespace, pod.Name, container)),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	return scratch.Start(spec, config.netnsPath(config.Name), log)
}

// spec says all that a container is.
func (s *hostSandbox) spec(pod *corev1.Pod, c *corev1.Container) (*scratch.Spec, error) {
	config := s.agent.config
	argv, environment, err := commandLine(config, pod, c, s.references)
	if err != nil {
		return nil, err
	}
	spec := &scratch.Spec{
		Hostname: config.Name,
		Root:     filepath.Join(config.podFolder(s.uid), "roots", c.Name),
		Argv:     argv, Environment: environment, Directory: c.WorkingDir,
		Mounts: []scratch.Mount{{Source: config.Signpost, Target: entrypoint, ReadOnly: true}},
	}
	variables, err := variables(config, pod, c, s.references)
	if err != nil {
		return nil, err
	}
	for _, mount := range c.VolumeMounts {
		m, err := s.mount(pod, mount, variables)
		if err != nil {
			return nil, fmt.Errorf("volumeMounts %s: %w", mount.Name, err)
		}
		spec.Mounts = append(spec.Mounts, m)
	}
	if err := os.MkdirAll(spec.Root, 0o755); err != nil {
		return nil, err
	}
	return spec, privileges(spec, pod, c)
}

func (s *hostSandbox) mount(pod *corev1.Pod, mount corev1.VolumeMount, variables map[string]string) (scratch.Mount, error) {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.Name != mount.Name {
			continue
		}
		below := mount.SubPath
		if mount.SubPathExpr != "" {
			below = expansion.Expand(mount.SubPathExpr, expansion.MappingFuncFor(variables))
		}
		if !filepath.IsLocal(below) && below != "" {
			return scratch.Mount{}, fmt.Errorf("subPath %q leads out of the volume: correct it", below)
		}
		source := filepath.Join(s.volumes.source(pod, volume), below)
		if _, err := os.Stat(source); os.IsNotExist(err) && below != "" {
			if err := os.MkdirAll(source, 0o755); err != nil {
				return scratch.Mount{}, err
			}
		}
		// What comes from objects is read-only, whatever the mount says: so it is with the kubelet.
		writable := volume.EmptyDir != nil || volume.HostPath != nil
		return scratch.Mount{Source: source, Target: mount.MountPath, ReadOnly: mount.ReadOnly || !writable}, nil
	}
	return scratch.Mount{}, fmt.Errorf("the Pod has no such volume: add it to spec.volumes")
}

func (s *hostSandbox) address() string { return s.agent.config.Address.String() }

// linger is for the servers of ordinary Pods: a program takes its own time.
func (s *hostSandbox) linger(*corev1.Pod) time.Duration { return 0 }

func (s *hostSandbox) remove(ctx context.Context) error {
	if s.references != nil {
		s.references.stop()
	}
	// What an earlier stand-in left is on record, also if this one never came to prepare.
	record, err := s.agent.config.readRecord(s.uid)
	if err != nil {
		return err
	}
	return s.agent.config.forget(ctx, s.uid, record)
}

// hostProcess is a container that runs the program under test.
type hostProcess struct {
	running *scratch.Process
	name    string
}

func (p *hostProcess) id() string { return p.name }

func (p *hostProcess) signal(signal syscall.Signal) { p.running.Signal(signal) }

func (p *hostProcess) exited() <-chan struct{} { return p.running.Exited() }

func (p *hostProcess) exitCode() int32 { return int32(p.running.ExitCode()) }

func (p *hostProcess) exec(ctx context.Context, argv []string) error {
	output, err := p.running.Exec(ctx, argv)
	if err != nil {
		return fmt.Errorf("%q: %w: %.200s", argv, err, strings.TrimSpace(string(output)))
	}
	return nil
}
