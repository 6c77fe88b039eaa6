package node

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"

	"cluster.signpost.test/netns"
)

// perform runs a worker for an ordinary Pod on this ground until the test ends.
func (g *ground) perform(s *stage) {
	agent := *g.agent
	agent.client = s.client
	s.worker = newWorker(&agent, s.pod())
	s.run()
}

// remade is what the lab is asked for when a Pod of the name p gets a new server.
var remade = fmt.Sprintf("lab remove-pod --name %s p\nlab add-pod --name %s p --node node-a --address 198.19.1.16 --port 8080\n", testLab, testLab)

// startedAgain says whether all containers of a Pod run, after this many restarts, the last of them since their
// server was lost.
func startedAgain(restarts int32) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		for _, status := range pod.Status.ContainerStatuses {
			if !wasLost(status.LastTerminationState.Terminated) || status.RestartCount != restarts || status.State.Running == nil {
				return false
			}
		}
		return podutil.IsPodReady(pod)
	}
}

func wasLost(end *corev1.ContainerStateTerminated) bool {
	return end != nil && end.ExitCode == 137 && end.Reason == "Error"
}

func TestAPodWhoseServerEndsIsStartedAgainAndThenPaused(t *testing.T) {
	g := groundOf(t)
	s := stageOf(t, "{containers: [{name: c, image: x}, {name: d, image: x}]}")
	g.perform(s)
	s.await("ready", podutil.IsPodReady)
	g.asked()
	g.kill()
	s.await("one restart", startedAgain(1))
	// Once, for both of them.
	if asked := g.asked(); asked != remade {
		t.Errorf("%q", asked)
	}
	g.kill()
	s.await("a pause", func(pod *corev1.Pod) bool {
		for _, status := range pod.Status.ContainerStatuses {
			if status.State.Waiting == nil || status.State.Waiting.Reason != reasonBackOff || status.Ready || status.RestartCount != 1 {
				return false
			}
		}
		return !podutil.IsPodReady(pod)
	})
	if asked := g.asked(); asked != "" {
		t.Errorf("%q", asked)
	}
}

func TestTheEndOfAServerThatAnEarlierStandInMadeIsNoticed(t *testing.T) {
	for _, meanwhile := range []bool{false, true} {
		t.Run(fmt.Sprintf("while no stand-in runs: %t", meanwhile), func(t *testing.T) { noticesTheEnd(t, meanwhile) })
	}
}

func noticesTheEnd(t *testing.T, meanwhile bool) {
	g := groundOf(t)
	s := stageOf(t, "{containers: [{name: c, image: x}]}")
	pod := s.pod()
	if _, err := g.prepare(pod); err != nil {
		t.Fatal(err)
	}
	g.asked()
	begun := metav1.NewTime(time.Unix(1000, 0))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "c", Ready: true, Started: ptr.To(true), RestartCount: 4,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: begun}},
	}}
	if _, err := s.client.CoreV1().Pods("default").Update(context.Background(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if meanwhile {
		g.kill()
	}
	g = g.again()
	g.perform(s)
	if !meanwhile {
		s.await("it goes on", func(pod *corev1.Pod) bool {
			return podutil.IsPodReady(pod) && pod.Status.ContainerStatuses[0].RestartCount == 4
		})
		if asked := g.asked(); asked != "" {
			t.Errorf("%q", asked)
		}
		g.kill()
	}
	s.await("one restart more", startedAgain(5))
	if asked := g.asked(); asked != remade {
		t.Errorf("%q", asked)
	}
}

func TestWhatElseIsInAPodIsNotItsServer(t *testing.T) {
	g := groundOf(t)
	s, err := g.prepare(podNamed(t, "default", "web", "1"))
	if err != nil {
		t.Fatal(err)
	}
	g.kill()
	<-s.server.ended
	path, other := g.agent.config.netnsPath("web"), exec.Command("sleep", "60")
	if err := netns.Do(path, other.Start); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	server, err := watchServer(path)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-server.ended:
	default:
		t.Error("another process was taken for the server")
	}
}

func TestAPodThatIsNeverStartedAgainHasFailed(t *testing.T) {
	g := groundOf(t)
	s := stageOf(t, "{restartPolicy: Never, containers: [{name: c, image: x}]}")
	g.perform(s)
	s.await("ready", podutil.IsPodReady)
	g.asked()
	g.kill()
	s.await("its end", func(pod *corev1.Pod) bool {
		status := pod.Status.ContainerStatuses[0]
		return pod.Status.Phase == corev1.PodFailed && wasLost(status.State.Terminated) && status.RestartCount == 0 && !podutil.IsPodReady(pod)
	})
	if asked := g.asked(); asked != "" {
		t.Errorf("%q", asked)
	}
}

func TestAnOrdinaryPodWhoseLivenessProbeFailsWasKilled(t *testing.T) {
	g := groundOf(t)
	// The node's namespace is not there, so no probe comes through.
	s := stageOf(t, `{containers: [{name: c, image: x,
livenessProbe: {tcpSocket: {port: 8080}, initialDelaySeconds: 1, periodSeconds: 1, timeoutSeconds: 1, successThreshold: 1, failureThreshold: 1}}]}`)
	g.perform(s)
	s.await("one restart", startedAgain(1))
}

func TestOnlyAContainerWhosePodGoesEndsWell(t *testing.T) {
	lives, ended := &server{make(chan struct{})}, &server{make(chan struct{})}
	close(ended.ended)
	for _, c := range []struct {
		server  *server
		deleted bool
		code    int32
	}{{lives, true, 0}, {lives, false, 137}, {ended, true, 137}, {ended, false, 137}} {
		p := newLabProcess("p", c.server)
		if c.server == lives {
			p.signal(syscall.SIGTERM)
		}
		<-p.exited()
		if code := p.exitCode(c.deleted); code != c.code {
			t.Errorf("%+v: %d", c, code)
		}
	}
}
