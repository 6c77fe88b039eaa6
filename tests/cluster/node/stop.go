package node

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	probehttp "k8s.io/kubernetes/pkg/probe/http"
)

// leastGrace is what a program gets between SIGTERM and SIGKILL, however short the grace: the kubelet's figure.
const leastGrace = 2 * time.Second

// stop tells a container to stop, and has it ended when the grace is over. It returns at once.
func (w *worker) stop(c *container, grace time.Duration) {
	c.state = stopping
	// The kubelet goes on with readiness probes in the grace, and with no others.
	c.stopVital()
	ctx, cancel := context.WithCancel(context.Background())
	end := time.AfterFunc(grace, cancel)
	c.hurry = func(at time.Time) { end.Reset(time.Until(at)) }
	pod, process, linger := w.pod, c.process, w.sandbox.linger(w.pod)
	go func() {
		<-process.exited()
		cancel()
	}()
	go func() {
		defer end.Stop()
		if err := w.preStop(ctx, pod, c.spec, process); err != nil {
			w.post(func() { w.log("container %s: its preStop hook: %v", c.spec.Name, err) })
		}
		sleep(ctx, linger)
		process.signal(syscall.SIGTERM)
		told := time.Now()
		<-ctx.Done()
		select {
		case <-process.exited():
		case <-time.After(leastGrace - time.Since(told)):
			process.signal(syscall.SIGKILL)
		}
	}()
}

// preStop runs the hook to its end, or to the end of the grace.
func (w *worker) preStop(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, process process) error {
	if spec.Lifecycle == nil || spec.Lifecycle.PreStop == nil {
		return nil
	}
	switch hook := spec.Lifecycle.PreStop; {
	case hook.Sleep != nil:
		sleep(ctx, time.Duration(hook.Sleep.Seconds)*time.Second)
		return nil
	case hook.Exec != nil:
		return process.exec(ctx, hook.Exec.Command)
	case hook.HTTPGet != nil:
		request, err := probehttp.NewRequestForHTTPGetAction(hook.HTTPGet, spec, w.sandbox.address(), "lifecycle")
		if err != nil {
			return err
		}
		answer, err := (&http.Client{Transport: w.transport()}).Do(request.WithContext(ctx))
		if err != nil {
			return err
		}
		return answer.Body.Close()
	default:
		return fmt.Errorf("Pod %s has a hook of an unknown kind", pod.Name)
	}
}

// sleep waits, or until the context ends.
func sleep(ctx context.Context, duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
