package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	statusutil "k8s.io/kubernetes/pkg/util/pod"
	"k8s.io/utils/ptr"
)

// readyAnnotation with the value "false" makes a Pod unready, as a failing readiness probe would.
const readyAnnotation = "signpost.test/ready"

// Reasons of containers that wait, as the kubelet has them.
const (
	reasonConfig   = "CreateContainerConfigError"
	reasonCreating = "ContainerCreating"
	reasonInit     = "PodInitializing"
	reasonBackOff  = "CrashLoopBackOff"
)

// report writes the Pod's status if it is not what the API has.
func (w *worker) report(ctx context.Context) {
	if w.gone {
		return
	}
	status := w.status(metav1.Now())
	written, _, unchanged, err := statusutil.PatchPodStatus(ctx, w.agent.client, w.pod.Namespace, w.pod.Name, w.uid, w.pod.Status, status)
	switch {
	case unchanged, ctx.Err() != nil:
	case err != nil:
		// The error begins with the whole patch, and does not tell one that is gone from others: that, the
		// informer will tell.
		text := err.Error()
		if at := strings.LastIndex(text, ": "); at >= 0 {
			text = text[at+2:]
		}
		w.log("its status: %s", text)
		w.wakeAt(time.Now().Add(retry))
	default:
		w.pod = written
	}
}

// status is what is to be said of the Pod now. It reads the worker and changes nothing.
func (w *worker) status(now metav1.Time) corev1.PodStatus {
	status := *w.pod.Status.DeepCopy()
	status.ObservedGeneration = w.pod.Generation
	host := w.agent.config.Address.String()
	status.HostIP, status.HostIPs = host, []corev1.HostIP{{IP: host}}
	if status.StartTime == nil {
		status.StartTime = &now
	}
	if w.prepared {
		status.PodIP = w.sandbox.address()
		status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	}
	initialized, ready := w.containerStatuses(&status)
	status.Phase = w.phase()
	set := func(kind corev1.PodConditionType, holds bool, reason, message string) {
		setCondition(&status, now, w.pod.Generation, kind, holds, reason, message)
	}
	if at, _ := podutil.GetPodCondition(&status, corev1.PodScheduled); at < 0 {
		set(corev1.PodScheduled, true, "", "")
	}
	set(corev1.PodReadyToStartContainers, w.prepared && !w.ended, "", "")
	switch {
	case initialized:
		set(corev1.PodInitialized, true, "", "")
	default:
		set(corev1.PodInitialized, false, "ContainersNotInitialized", "not all init containers have done their work")
	}
	switch gate := w.missingGate(); {
	case w.ended:
		set(corev1.ContainersReady, false, "PodCompleted", "")
		set(corev1.PodReady, false, "PodCompleted", "")
	case !ready:
		set(corev1.ContainersReady, false, "ContainersNotReady", "not all containers are ready")
		set(corev1.PodReady, false, "ContainersNotReady", "not all containers are ready")
	case gate != "":
		set(corev1.ContainersReady, true, "", "")
		set(corev1.PodReady, false, "ReadinessGatesNotReady", fmt.Sprintf("the condition %q of a readiness gate is not True", gate))
	default:
		set(corev1.ContainersReady, true, "", "")
		set(corev1.PodReady, true, "", "")
	}
	return status
}

// phase is Running from the first main container's start on.
func (w *worker) phase() corev1.PodPhase {
	if w.ended {
		for _, c := range w.containers {
			if c.kind == main && c.last != nil && c.last.ExitCode != 0 {
				return corev1.PodFailed
			}
		}
		return corev1.PodSucceeded
	}
	for _, c := range w.containers {
		if c.kind == main && (c.process != nil || c.last != nil) {
			return corev1.PodRunning
		}
	}
	return corev1.PodPending
}

// containerStatuses fills them in and says whether all init containers have done their work, and whether all
// containers that stay are ready.
func (w *worker) containerStatuses(status *corev1.PodStatus) (initialized, ready bool) {
	status.InitContainerStatuses, status.ContainerStatuses = nil, nil
	initialized, ready = true, true
	for _, c := range w.containers {
		cs := w.containerStatus(c, initialized)
		if c.kind == main {
			status.ContainerStatuses = append(status.ContainerStatuses, cs)
		} else {
			status.InitContainerStatuses = append(status.InitContainerStatuses, cs)
		}
		switch c.kind {
		case initial:
			initialized = initialized && c.state == completed
		case sidecar:
			initialized = initialized && c.started
			ready = ready && cs.Ready
		case main:
			ready = ready && cs.Ready
		}
	}
	return initialized, ready
}

func (w *worker) containerStatus(c *container, initialized bool) corev1.ContainerStatus {
	cs := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, RestartCount: c.restarts,
		Started: ptr.To(c.started),
		Ready:   c.ready && w.pod.Annotations[readyAnnotation] != "false",
	}
	if c.kind == initial {
		cs.Ready = c.state == completed
	}
	switch c.state {
	case running, stopping:
		cs.State.Running = &corev1.ContainerStateRunning{StartedAt: c.begun}
		cs.ContainerID = c.process.id()
	case completed:
		cs.State.Terminated = c.last
	case waiting:
		cs.State.Waiting = w.waiting(c, initialized)
	}
	if c.state != completed && c.last != nil {
		cs.LastTerminationState.Terminated = c.last
	}
	return cs
}

// waiting is why a container does not run.
func (w *worker) waiting(c *container, initialized bool) *corev1.ContainerStateWaiting {
	switch {
	case w.refused != nil:
		return &corev1.ContainerStateWaiting{Reason: reasonConfig, Message: w.refused.Error()}
	case w.trouble != nil:
		return &corev1.ContainerStateWaiting{Reason: reasonCreating, Message: w.trouble.Error()}
	case c.failure != nil:
		return &corev1.ContainerStateWaiting{Reason: reasonConfig, Message: c.failure.Error()}
	case !initialized:
		return &corev1.ContainerStateWaiting{Reason: reasonInit}
	case c.last != nil:
		return &corev1.ContainerStateWaiting{Reason: reasonBackOff, Message: "it ended and is started again after a pause"}
	default:
		return &corev1.ContainerStateWaiting{Reason: reasonCreating}
	}
}

// missingGate is the first readiness gate whose condition, which somebody else sets, is not True.
func (w *worker) missingGate() corev1.PodConditionType {
	for _, gate := range w.pod.Spec.ReadinessGates {
		_, condition := podutil.GetPodCondition(&w.pod.Status, gate.ConditionType)
		if condition == nil || condition.Status != corev1.ConditionTrue {
			return gate.ConditionType
		}
	}
	return ""
}

// setCondition keeps the time of a condition that holds, or does not, as before.
func setCondition(status *corev1.PodStatus, now metav1.Time, generation int64, kind corev1.PodConditionType, holds bool, reason, message string) {
	condition := corev1.PodCondition{
		Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message,
		ObservedGeneration: generation, LastTransitionTime: now,
	}
	if holds {
		condition.Status = corev1.ConditionTrue
	}
	if _, before := podutil.GetPodCondition(status, kind); before != nil && before.Status == condition.Status {
		condition.LastTransitionTime = before.LastTransitionTime
	}
	status.Conditions = statusutil.ReplaceOrAppendPodCondition(status.Conditions, &condition)
}
