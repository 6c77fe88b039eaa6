package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"
)

// stage is a worker with a sandbox that a test pulls the strings of.
type stage struct {
	t      *testing.T
	client *fake.Clientset
	worker *worker
	events chan string
	// version is the Pod's in the API.
	version int

	mutex   sync.Mutex
	running map[string]*actor
	refuse  error
	// resumes: what the status says to run does run.
	resumes bool
}

type actor struct {
	stage *stage
	name  string
	once  sync.Once
	end   chan struct{}
	code  int32
	// deaf hears no SIGTERM.
	deaf bool
	dead atomic.Bool
}

func (a *actor) id() string              { return "actor://" + a.name }
func (a *actor) exited() <-chan struct{} { return a.end }
func (a *actor) exitCode() int32         { return a.code }

// exec is told; "wait" takes for ever, and "alive" is what a liveness probe asks often.
func (a *actor) exec(ctx context.Context, argv []string) error {
	if argv[0] == "alive" {
		if a.dead.Load() {
			return errors.New("it is dead")
		}
		return nil
	}
	a.stage.events <- a.name + " exec " + strings.Join(argv, " ")
	if argv[0] == "wait" {
		<-ctx.Done()
	}
	return nil
}

func (a *actor) signal(signal syscall.Signal) {
	a.stage.events <- fmt.Sprintf("%s %v", a.name, signal)
	if signal == syscall.SIGKILL || !a.deaf {
		a.exit(0)
	}
}

func (a *actor) exit(code int32) {
	a.once.Do(func() {
		a.code = code
		close(a.end)
	})
}

func (s *stage) prepare(context.Context, *corev1.Pod) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.refuse
}

func (s *stage) start(_ context.Context, _ *corev1.Pod, c *container) (process, bool, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	a := &actor{stage: s, name: c.spec.Name, end: make(chan struct{}), deaf: strings.HasPrefix(c.spec.Name, "deaf")}
	s.running[a.name] = a
	if s.resumes && c.begun.IsZero() {
		s.events <- a.name + " goes on"
		return a, true, nil
	}
	s.events <- a.name + " starts"
	return a, false, nil
}

func (s *stage) refresh(context.Context, *corev1.Pod) (time.Time, error) { return time.Time{}, nil }
func (s *stage) address() string                                         { return "198.19.1.16" }
func (s *stage) linger(*corev1.Pod) time.Duration                        { return 0 }

func (s *stage) remove(context.Context) error {
	s.events <- "removed"
	return nil
}

// perform runs a worker for the Pod until the test ends.
func perform(t *testing.T, spec string) *stage {
	t.Helper()
	s := stageOf(t, spec)
	s.run()
	return s
}

func stageOf(t *testing.T, spec string) *stage {
	t.Helper()
	pod := podOf(t, spec)
	pod.ResourceVersion = "1"
	s := &stage{t: t, version: 1, client: fake.NewClientset(pod), events: make(chan string, 100), running: map[string]*actor{}}
	s.worker = newWorker(&agent{config: testConfig, client: s.client}, pod)
	s.worker.sandbox = s
	return s
}

func (s *stage) run() {
	ctx, cancel := context.WithCancel(context.Background())
	go s.worker.run(ctx)
	s.t.Cleanup(func() {
		cancel()
		<-s.worker.done
	})
}

// expect awaits these events, in this order and no others between them.
func (s *stage) expect(events ...string) {
	s.t.Helper()
	for _, want := range events {
		select {
		case got := <-s.events:
			if got != want {
				s.t.Fatalf("%q, want %q", got, want)
			}
		case <-time.After(20 * time.Second):
			s.t.Fatalf("waited for %q", want)
		}
	}
}

func (s *stage) actor(name string) *actor {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.running[name]
}

// await polls the API, since a worker writes there at its own time.
func (s *stage) await(what string, holds func(*corev1.Pod) bool) {
	s.t.Helper()
	watch, err := s.client.CoreV1().Pods("default").Watch(context.Background(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer watch.Stop()
	timeout := time.After(20 * time.Second)
	for {
		if pod := s.pod(); pod != nil && holds(pod) {
			return
		}
		select {
		case <-watch.ResultChan():
		case <-timeout:
			s.t.Fatalf("waited for: %s; the status is %+v", what, s.pod().Status)
		}
	}
}

func (s *stage) pod() *corev1.Pod {
	pod, err := s.client.CoreV1().Pods("default").Get(context.Background(), "p", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return pod
}

// change changes the Pod in the API, as somebody else does, and tells the worker, as the informer does.
func (s *stage) change(change func(*corev1.Pod)) {
	s.worker.post(func() {
		// On the worker's goroutine, so that it writes nothing in between.
		pod := s.pod()
		change(pod)
		s.version++
		pod.ResourceVersion = strconv.Itoa(s.version)
		if _, err := s.client.CoreV1().Pods("default").Update(context.Background(), pod, metav1.UpdateOptions{}); err != nil {
			s.t.Error(err)
		}
		s.worker.update(pod)
	})
}

func (s *stage) delete(graceSeconds int64) {
	s.change(func(pod *corev1.Pod) {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		pod.DeletionGracePeriodSeconds = &graceSeconds
	})
}

func TestContainersStartInTheirOrderAndEndInTheOther(t *testing.T) {
	s := perform(t, `
initContainers:
- {name: first, image: signpost}
- {name: side1, image: signpost, restartPolicy: Always}
- {name: side2, image: signpost, restartPolicy: Always}
containers: [{name: one, image: signpost, lifecycle: {preStop: {exec: {command: [bye, now]}}}}]
hostNetwork: true`)
	s.expect("first starts")
	s.await("not initialized", func(pod *corev1.Pod) bool {
		_, condition := podutil.GetPodCondition(&pod.Status, corev1.PodInitialized)
		return condition != nil && condition.Status == corev1.ConditionFalse && pod.Status.Phase == corev1.PodPending
	})
	s.actor("first").exit(0)
	s.expect("side1 starts", "side2 starts", "one starts")
	s.await("ready", podutil.IsPodReady)
	s.delete(30)
	s.expect("one exec bye now", "one terminated", "side2 terminated", "side1 terminated", "removed")
	<-s.worker.done
	if s.pod() != nil {
		t.Error("the Pod is still in the API")
	}
}

func TestWhatComesNextWaitsForASidecarToBeStarted(t *testing.T) {
	s := perform(t, `
initContainers:
- {name: side, image: signpost, restartPolicy: Always, startupProbe: {exec: {command: [wait]}, periodSeconds: 1, timeoutSeconds: 600, successThreshold: 1, failureThreshold: 1}}
containers: [{name: one, image: signpost}]
hostNetwork: true`)
	s.expect("side starts", "side exec wait")
	s.await("it runs", func(pod *corev1.Pod) bool {
		return len(pod.Status.InitContainerStatuses) > 0 && pod.Status.InitContainerStatuses[0].State.Running != nil
	})
	s.delete(30)
	// So the other one never started.
	s.expect("side terminated", "removed")
}

func TestASidecarServesUntilTheMainContainersHaveEnded(t *testing.T) {
	s := perform(t, `
initContainers: [{name: side, image: signpost, restartPolicy: Always}]
containers: [{name: one, image: signpost, lifecycle: {preStop: {exec: {command: [wait]}}}}]
hostNetwork: true`)
	s.expect("side starts", "one starts")
	s.await("ready", podutil.IsPodReady)
	s.delete(600)
	s.expect("one exec wait")
	s.worker.post(func() { s.events <- fmt.Sprintf("side stops: %t", s.worker.containers[0].state == stopping) })
	s.expect("side stops: false")
	s.delete(0)
	s.expect("one terminated", "side terminated", "removed")
}

func TestAnInitContainerThatFailsIsRunAgain(t *testing.T) {
	s := perform(t, "{hostNetwork: true, initContainers: [{name: i, image: signpost}], containers: [{name: c, image: signpost}]}")
	s.expect("i starts")
	s.actor("i").exit(1)
	s.expect("i starts")
	s.await("one restart", func(pod *corev1.Pod) bool { return pod.Status.InitContainerStatuses[0].RestartCount == 1 })
	s.actor("i").exit(0)
	s.expect("c starts")
}

func TestAContainerThatEndsIsStartedAgainAndThenPaused(t *testing.T) {
	s := perform(t, "{hostNetwork: true, containers: [{name: c, image: signpost}]}")
	s.expect("c starts")
	s.actor("c").exit(3)
	s.expect("c starts")
	s.await("what was", func(pod *corev1.Pod) bool {
		status := pod.Status.ContainerStatuses[0]
		return status.RestartCount == 1 && status.Ready && status.LastTerminationState.Terminated.ExitCode == 3
	})
	s.actor("c").exit(0)
	s.await("a pause", func(pod *corev1.Pod) bool {
		status := pod.Status.ContainerStatuses[0]
		return status.State.Waiting != nil && status.State.Waiting.Reason == reasonBackOff && status.RestartCount == 1 &&
			!podutil.IsPodReady(pod) && pod.Status.Phase == corev1.PodRunning
	})
}

func TestOneThatHearsNothingIsKilledWhenTheGraceIsOver(t *testing.T) {
	s := perform(t, "{hostNetwork: true, containers: [{name: deaf, image: signpost}]}")
	s.expect("deaf starts")
	s.await("ready", podutil.IsPodReady)
	begin := time.Now()
	s.delete(1)
	s.expect("deaf terminated", "deaf killed", "removed")
	if took := time.Since(begin); took < leastGrace {
		t.Errorf("killed after %v", took)
	}
}

func TestAGraceIsShortened(t *testing.T) {
	s := perform(t, "{hostNetwork: true, containers: [{name: c, image: signpost, lifecycle: {preStop: {exec: {command: [wait]}}}}]}")
	s.expect("c starts")
	s.await("ready", podutil.IsPodReady)
	s.delete(600)
	s.expect("c exec wait")
	// It goes on to serve, and is ready, until it is over.
	if pod := s.pod(); pod.DeletionTimestamp == nil || !podutil.IsPodReady(pod) {
		t.Errorf("%+v", pod)
	}
	s.delete(0)
	s.expect("c terminated", "removed")
}

func TestAPodThatVanishesIsEnded(t *testing.T) {
	s := perform(t, "{hostNetwork: true, containers: [{name: c, image: signpost}]}")
	s.expect("c starts")
	s.worker.post(s.worker.vanish)
	s.expect("c terminated", "removed")
	<-s.worker.done
}

func TestWhatIsRefusedWaitsAndSaysWhy(t *testing.T) {
	s := perform(t, "{hostNetwork: true, hostPID: true, containers: [{name: c, image: signpost}]}")
	s.await("the refusal", func(pod *corev1.Pod) bool {
		if len(pod.Status.ContainerStatuses) == 0 {
			return false
		}
		waiting := pod.Status.ContainerStatuses[0].State.Waiting
		return pod.Status.Phase == corev1.PodPending && waiting.Reason == reasonConfig && strings.Contains(waiting.Message, "hostPID")
	})
	s.delete(30)
	s.expect("removed")
	<-s.worker.done
}

func TestASandboxThatFailsIsTriedAgain(t *testing.T) {
	s := stageOf(t, "{containers: [{name: c, image: x}]}")
	s.refuse = errors.New("no cable")
	s.run()
	s.await("the trouble", func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Waiting.Message == "no cable"
	})
	s.mutex.Lock()
	s.refuse = nil
	s.mutex.Unlock()
	s.expect("c starts")
	s.await("ready", podutil.IsPodReady)
}

func TestGatesAndTheAnnotationKeepAPodUnready(t *testing.T) {
	s := perform(t, "{containers: [{name: c, image: x}], readinessGates: [{conditionType: test/gate}]}")
	containersReady := func(pod *corev1.Pod) bool { return podutil.IsContainersReadyConditionTrue(pod.Status) }
	s.await("all but the gate", func(pod *corev1.Pod) bool { return containersReady(pod) && !podutil.IsPodReady(pod) })
	s.change(func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "test/gate", Status: corev1.ConditionTrue})
	})
	s.await("the gate", podutil.IsPodReady)
	s.change(func(pod *corev1.Pod) { pod.Annotations = map[string]string{readyAnnotation: "false"} })
	s.await("the annotation", func(pod *corev1.Pod) bool { return !containersReady(pod) && !podutil.IsPodReady(pod) })
	s.change(func(pod *corev1.Pod) { pod.Annotations = map[string]string{readyAnnotation: "true"} })
	s.await("the annotation's end", podutil.IsPodReady)
}

func TestProbesDecideWhenAContainerIsReadyAndWhenItIsStartedAgain(t *testing.T) {
	s := perform(t, `{containers: [{name: c, image: x,
startupProbe: {exec: {command: [startup]}, periodSeconds: 1, timeoutSeconds: 1, successThreshold: 1, failureThreshold: 3},
readinessProbe: {exec: {command: [ready]}, periodSeconds: 600, timeoutSeconds: 1, successThreshold: 1, failureThreshold: 3}}]}`)
	s.expect("c starts", "c exec startup", "c exec ready")
	s.await("ready", podutil.IsPodReady)
}

func TestALivenessProbeThatFailsStartsTheContainerAgain(t *testing.T) {
	s := perform(t, `{containers: [{name: c, image: x,
livenessProbe: {exec: {command: [alive]}, periodSeconds: 1, timeoutSeconds: 1, successThreshold: 1, failureThreshold: 1}}]}`)
	s.expect("c starts")
	s.await("ready", podutil.IsPodReady)
	s.actor("c").dead.Store(true)
	s.expect("c terminated", "c starts")
	s.await("one restart", func(pod *corev1.Pod) bool {
		return pod.Status.ContainerStatuses[0].RestartCount == 1 && podutil.IsPodReady(pod)
	})
}

func TestAContainerThatAnEarlierStandInStartedGoesOnAsItWas(t *testing.T) {
	begun := metav1.NewTime(time.Unix(1000, 0))
	for _, resumes := range []bool{true, false} {
		s := stageOf(t, `{hostNetwork: true, initContainers: [{name: i, image: signpost}], containers: [{name: c, image: signpost,
readinessProbe: {exec: {command: [wait]}, periodSeconds: 600, timeoutSeconds: 600, successThreshold: 1, failureThreshold: 1}}]}`)
		pod := s.pod()
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "c", Ready: true, Started: ptr.To(true), RestartCount: 4,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: begun}},
		}}
		if _, err := s.client.CoreV1().Pods("default").Update(context.Background(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.worker = newWorker(&agent{config: testConfig, client: s.client}, pod)
		s.worker.sandbox, s.resumes = s, resumes
		s.run()
		if resumes {
			s.expect("c goes on", "c exec wait")
		} else {
			s.expect("c starts", "c exec wait")
		}
		s.await("its status", func(pod *corev1.Pod) bool {
			status, condition := pod.Status.ContainerStatuses[0], podutil.GetPodReadyCondition(pod.Status)
			if status.State.Running == nil || condition == nil {
				return false
			}
			same := status.State.Running.StartedAt.Equal(&begun)
			return same == resumes && status.Ready == resumes && (status.RestartCount == 4) == resumes && podutil.IsPodReady(pod) == resumes
		})
	}
}
