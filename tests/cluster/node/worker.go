package node

import (
	"context"
	"fmt"
	"log"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// retry is the pause after something that failed for reasons outside of the Pod.
const retry = time.Second

// worker is one Pod's state machine. All of it happens on one goroutine; the others (probes, programs that end,
// the informer) post to it what happened, and each turn does what is due.
type worker struct {
	agent *agent
	uid   types.UID
	// after is closed when the Pod that had this name before is gone.
	after <-chan struct{}
	done  chan struct{}

	pod *corev1.Pod
	// gone: the Pod is no more in the API, deleted by force.
	gone bool
	// refused is what the Pod asks for and cannot get.
	refused error

	sandbox    sandbox
	prepared   bool
	containers []*container
	// trouble is why the sandbox is not there yet.
	trouble error
	// due is when the next turn is needed if nothing happens; zero: never.
	due time.Time
	// deadline is when a Pod that is deleted ends at the latest; zero: it is not deleted.
	deadline time.Time
	grace    int64
	ended    bool

	mutex  sync.Mutex
	posted []func()
	wake   chan struct{}
}

// sandbox is where a Pod's containers run.
type sandbox interface {
	// prepare makes what all containers need. It is called again after an error.
	prepare(ctx context.Context, pod *corev1.Pod) error
	// start runs a container, for the first time or again; resumed is one that an earlier stand-in started.
	start(ctx context.Context, pod *corev1.Pod, c *container) (p process, resumed bool, err error)
	// refresh brings what containers see up to date and says when to call again; zero: at the next change.
	refresh(ctx context.Context, pod *corev1.Pod) (time.Time, error)
	// address is the Pod's.
	address() string
	// linger is how long a container stays after it was told to stop.
	linger(pod *corev1.Pod) time.Duration
	// remove removes all, after the end of the last container.
	remove(ctx context.Context) error
}

func newWorker(a *agent, pod *corev1.Pod) *worker {
	w := &worker{agent: a, uid: pod.UID, pod: pod, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	own := ownsImages(pod, a.config.Images)
	w.refused = refuse(pod, own, a.config.Images)
	if own {
		w.sandbox = newHostSandbox(a, pod, func() { w.post(w.retryFailed) })
	} else {
		w.sandbox = &labSandbox{agent: a}
	}
	w.containers = newContainers(pod)
	return w
}

// post has f called on the worker's goroutine. It never waits.
func (w *worker) post(f func()) {
	w.mutex.Lock()
	w.posted = append(w.posted, f)
	w.mutex.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// update takes a newer state of the Pod. What we wrote ourselves may be newer still.
func (w *worker) update(pod *corev1.Pod) {
	if isLater(pod.ResourceVersion, w.pod.ResourceVersion) {
		w.pod = pod
	}
}

func (w *worker) vanish() { w.gone = true }

// run works until the Pod is gone or the context ends. The latter leaves everything running.
func (w *worker) run(ctx context.Context) {
	defer close(w.done)
	defer w.stopProbes()
	if w.after != nil {
		select {
		case <-w.after:
		case <-ctx.Done():
			return
		}
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		w.handlePosted()
		w.due = time.Time{}
		if w.turn(ctx) {
			return
		}
		if !w.due.IsZero() {
			timer.Reset(time.Until(w.due))
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-timer.C:
		}
	}
}

func (w *worker) handlePosted() {
	w.mutex.Lock()
	posted := w.posted
	w.posted = nil
	w.mutex.Unlock()
	for _, f := range posted {
		f()
	}
}

// turn does what is due, and says whether the Pod is gone.
func (w *worker) turn(ctx context.Context) bool {
	if w.gone || w.pod.DeletionTimestamp != nil {
		return w.turnToEnd(ctx)
	}
	if podutil.IsPodTerminal(w.pod) {
		return false // somebody evicted it; it waits for its deletion
	}
	if w.refused == nil {
		w.turnToRun(ctx)
	}
	w.report(ctx)
	return false
}

func (w *worker) turnToRun(ctx context.Context) {
	if !w.prepared {
		w.setTrouble(w.sandbox.prepare(ctx, w.pod))
		if w.prepared = w.trouble == nil; !w.prepared {
			w.wakeAt(time.Now().Add(retry))
			return
		}
	}
	next, err := w.sandbox.refresh(ctx, w.pod)
	if w.setTrouble(err); err != nil {
		next = time.Now().Add(retry)
		if !w.anyRunning() {
			w.wakeAt(next)
			return
		}
	}
	w.wakeAt(next)
	for _, c := range w.containers {
		if c.state == waiting && w.isDue(c) {
			w.start(ctx, c)
		}
		if c.kind == initial && c.state != completed || c.kind == sidecar && !c.started {
			return // the next one waits for this one
		}
	}
}

// retryFailed starts at once what could not be started: what it needs may be there now.
func (w *worker) retryFailed() {
	for _, c := range w.containers {
		if c.failure != nil {
			c.notBefore = time.Time{}
		}
	}
}

// setTrouble logs what is new.
func (w *worker) setTrouble(err error) {
	if err != nil && (w.trouble == nil || w.trouble.Error() != err.Error()) {
		w.log("%v", err)
	}
	w.trouble = err
}

// isDue says whether a container may start; if not yet, the worker wakes up then.
func (w *worker) isDue(c *container) bool {
	if time.Now().Before(c.notBefore) {
		w.wakeAt(c.notBefore)
		return false
	}
	return true
}

func (w *worker) anyRunning() bool { return w.anyRunningAfter(-1) }

func (w *worker) anyRunningAfter(at int) bool {
	for _, c := range w.containers[at+1:] {
		if c.state == running || c.state == stopping {
			return true
		}
	}
	return false
}

// wakeAt asks for a turn at this time at the latest.
func (w *worker) wakeAt(at time.Time) {
	if !at.IsZero() && (w.due.IsZero() || at.Before(w.due)) {
		w.due = at
	}
}

func (w *worker) log(format string, args ...any) {
	log.Printf("pod %s/%s: %s", w.pod.Namespace, w.pod.Name, fmt.Sprintf(format, args...))
}

// isLater compares resource versions, which etcd's API servers write as numbers. One that is none is
// taken for news. (k8s.io/apimachinery compares them too, from release 1.35 on.)
func isLater(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX != nil || errY != nil || x > y
}
