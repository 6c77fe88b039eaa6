package node

import (
	"context"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"
)

// kind is when a container runs.
type kind int

const (
	// initial: to its end, before the next one starts.
	initial kind = iota
	// sidecar: before the next one starts, and until the main ones have ended.
	sidecar
	main
)

// state of a container.
type state int

const (
	waiting state = iota
	running
	// stopping: it runs, and was told to stop.
	stopping
	// completed: it ended and does not start again.
	completed
)

// The kubelet's figures of the pause before a restart.
const (
	backOffFirst = 10 * time.Second
	backOffMost  = 5 * time.Minute
	// backOffReset: one that ran this long begins with the first pause again.
	backOffReset = 10 * time.Minute
)

// container is one container of a Pod, through all its restarts.
type container struct {
	spec *corev1.Container
	kind kind

	state   state
	process process
	begun   metav1.Time
	// started and ready are what the status says: see the probes.
	started, ready bool
	restarts       int32
	// again: the next start is a restart.
	again bool
	// last is how it ended last.
	last *corev1.ContainerStateTerminated
	// failure is why it could not be started.
	failure error
	// notBefore is when it may start again.
	notBefore time.Time
	backOff   time.Duration

	// stopVital ends the probes that would restart it, stopProbes all.
	stopVital, stopProbes context.CancelFunc
	// hurry brings the end of the grace forward.
	hurry func(time.Time)
}

// process is a container that runs.
type process interface {
	id() string
	signal(syscall.Signal)
	// exited is closed when it has ended; exitCode is known from then on.
	exited() <-chan struct{}
	exitCode() int32
	// exec runs a command inside.
	exec(ctx context.Context, argv []string) error
}

// newContainers puts the containers in the order of their start, and remembers what the status says of them.
func newContainers(pod *corev1.Pod) []*container {
	var containers []*container
	add := func(spec *corev1.Container, kind kind, statuses []corev1.ContainerStatus) {
		c := &container{spec: spec, kind: kind}
		at := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == spec.Name })
		if at >= 0 {
			c.restarts = statuses[at].RestartCount
			c.last = statuses[at].LastTerminationState.Terminated
			// One that ran, and is not there any more when it is looked for, is started again.
			c.again = statuses[at].State.Running != nil
			if ended := statuses[at].State.Terminated; kind == initial && ended != nil && ended.ExitCode == 0 {
				c.state, c.last = completed, ended
			}
		}
		containers = append(containers, c)
	}
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		if podutil.IsRestartableInitContainer(spec) {
			add(spec, sidecar, pod.Status.InitContainerStatuses)
		} else {
			add(spec, initial, pod.Status.InitContainerStatuses)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i], main, pod.Status.ContainerStatuses)
	}
	return containers
}

func (w *worker) start(ctx context.Context, c *container) {
	process, resumed, err := w.sandbox.start(ctx, w.pod, c)
	if c.failure = err; err != nil {
		w.log("container %s: %v", c.spec.Name, err)
		c.pause()
		w.wakeAt(c.notBefore)
		return
	}
	c.state, c.process, c.begun = running, process, metav1.Now()
	switch {
	case resumed:
		c.resume(w.pod)
	case c.again:
		c.restarts++
	}
	w.probe(c)
	go func() {
		<-process.exited()
		w.post(func() { w.exited(c) })
	}()
}

// resume makes a container what its status says that it was.
func (c *container) resume(pod *corev1.Pod) {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name == c.spec.Name && status.State.Running != nil {
			c.begun = status.State.Running.StartedAt
			c.started, c.ready = ptr.Deref(status.Started, false), status.Ready
		}
	}
}

// exited takes note of a container's end.
func (w *worker) exited(c *container) {
	c.stopProbes()
	ran := time.Since(c.begun.Time)
	code := c.process.exitCode()
	c.last = &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: "Completed", StartedAt: c.begun, FinishedAt: metav1.Now(), ContainerID: c.process.id(),
	}
	if code != 0 {
		c.last.Reason = "Error"
	}
	c.process, c.started, c.ready, c.hurry = nil, false, false, nil
	if c.kind == initial && code == 0 || w.gone || w.pod.DeletionTimestamp != nil {
		c.state = completed
		return
	}
	c.state, c.again = waiting, true
	if ran >= backOffReset {
		c.backOff = 0
	}
	c.pause()
}

// pause makes the next start wait: not at all the first time, then longer and longer.
func (c *container) pause() {
	c.notBefore = time.Now().Add(c.backOff)
	c.backOff = min(max(2*c.backOff, backOffFirst), backOffMost)
}

func (w *worker) stopProbes() {
	for _, c := range w.containers {
		if c.stopProbes != nil {
			c.stopProbes()
		}
	}
}
