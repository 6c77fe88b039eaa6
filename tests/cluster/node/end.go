package node

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// turnToEnd ends the containers, the main ones first and then the sidecars, the last one first.
func (w *worker) turnToEnd(ctx context.Context) bool {
	w.setDeadline()
	for i := len(w.containers) - 1; i >= 0; i-- {
		c := w.containers[i]
		if c.state == running && (c.kind != sidecar || !w.anyRunningAfter(i)) {
			w.stop(c, time.Until(w.deadline))
		}
	}
	if w.anyRunning() {
		w.report(ctx)
		return false
	}
	if err := w.sandbox.remove(ctx); err != nil {
		w.log("%v", err)
		w.wakeAt(time.Now().Add(retry))
		return false
	}
	w.ended = true
	return w.gone || w.reportEnd(ctx)
}

// setDeadline counts the grace from when the deletion was seen first, and again when it was shortened.
func (w *worker) setDeadline() {
	grace := ptr.Deref(w.pod.DeletionGracePeriodSeconds, 0)
	if w.gone {
		grace = 0
	}
	if !w.deadline.IsZero() && grace >= w.grace {
		return
	}
	w.grace, w.deadline = grace, time.Now().Add(time.Duration(grace)*time.Second)
	for _, c := range w.containers {
		if c.hurry != nil {
			c.hurry(w.deadline)
		}
	}
}

// reportEnd writes the last status and takes the Pod out of the API.
func (w *worker) reportEnd(ctx context.Context) bool {
	w.report(ctx)
	err := w.agent.client.CoreV1().Pods(w.pod.Namespace).Delete(ctx, w.pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To(int64(0)),
		Preconditions:      metav1.NewUIDPreconditions(string(w.uid)),
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return true
	}
	w.log("deleting it: %v", err)
	w.wakeAt(time.Now().Add(retry))
	return false
}
