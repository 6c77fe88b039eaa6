package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/probe"
	probehttp "k8s.io/kubernetes/pkg/probe/http"
	"k8s.io/utils/ptr"

	"cluster.signpost.test/netns"
)

// probe starts the probes of a container that has just begun.
func (w *worker) probe(c *container) {
	all, stopProbes := context.WithCancel(context.Background())
	vital, stopVital := context.WithCancel(all)
	c.stopProbes, c.stopVital = stopProbes, stopVital
	process := c.process
	// A result of a probe of an earlier start, or of one that was told to stop, says nothing any more.
	current := func() bool { return c.process == process }
	restart := func(which string, spec *corev1.Probe) func(bool) {
		return func(ok bool) {
			if ok || !current() || c.state != running {
				return
			}
			w.log("container %s: its %s probe failed: it is started again", c.spec.Name, which)
			grace := ptr.Deref(w.pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
			w.stop(c, time.Duration(ptr.Deref(spec.TerminationGracePeriodSeconds, grace))*time.Second)
		}
	}
	afterStart := func() {
		c.started = true
		if spec := c.spec.LivenessProbe; spec != nil {
			go w.watch(vital, c.spec, process, spec, true, restart("liveness", spec))
		}
		spec := c.spec.ReadinessProbe
		if spec == nil {
			c.ready = true
			return
		}
		go w.watch(all, c.spec, process, spec, c.ready, func(ok bool) {
			if current() {
				c.ready = ok
			}
		})
	}
	spec := c.spec.StartupProbe
	if spec == nil || c.started {
		afterStart()
		return
	}
	startup, stopStartup := context.WithCancel(vital)
	failed := restart("startup", spec)
	go w.watch(startup, c.spec, process, spec, false, func(ok bool) {
		if ok && current() {
			stopStartup()
			afterStart()
		}
		failed(ok)
	})
}

// watch probes until the context ends and has every change of the outcome handled by the worker. An outcome
// is a number of equal results in a row; a failure is told also if that is what was assumed.
func (w *worker) watch(ctx context.Context, container *corev1.Container, process process, spec *corev1.Probe, assumed bool, changed func(ok bool)) {
	sleep(ctx, time.Duration(spec.InitialDelaySeconds)*time.Second)
	ticker := time.NewTicker(time.Duration(spec.PeriodSeconds) * time.Second)
	defer ticker.Stop()
	outcome := threshold{success: spec.SuccessThreshold, failure: spec.FailureThreshold, ok: assumed}
	for ctx.Err() == nil {
		if err := w.probeOnce(ctx, container, process, spec); ctx.Err() == nil && outcome.add(err == nil) {
			ok := outcome.ok
			w.post(func() {
				if err != nil {
					w.log("container %s: %v", container.Name, err)
				}
				changed(ok)
			})
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// threshold turns results into an outcome.
type threshold struct {
	success, failure int32
	ok               bool
	told             bool
	last             bool
	inARow           int32
}

// add takes a result, and says whether the outcome is news.
func (t *threshold) add(ok bool) bool {
	if ok != t.last || t.inARow == 0 {
		t.last, t.inARow = ok, 0
	}
	t.inARow++
	needed := t.failure
	if ok {
		needed = t.success
	}
	if t.inARow < needed || t.told && t.ok == ok {
		return false
	}
	t.ok, t.told = ok, true
	return true
}

// probeOnce is nil if the container passes.
func (w *worker) probeOnce(ctx context.Context, container *corev1.Container, process process, spec *corev1.Probe) error {
	timeout := time.Duration(spec.TimeoutSeconds) * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch {
	case spec.Exec != nil:
		return process.exec(ctx, spec.Exec.Command)
	case spec.HTTPGet != nil:
		request, err := probehttp.NewRequestForHTTPGetAction(spec.HTTPGet, container, w.sandbox.address(), "probe")
		if err != nil {
			return err
		}
		client := &http.Client{Transport: w.transport(), Timeout: timeout, CheckRedirect: probehttp.RedirectChecker(false)}
		result, said, err := probehttp.DoHTTPProbe(request.WithContext(ctx), client)
		if err == nil && result != probe.Success && result != probe.Warning {
			err = fmt.Errorf("HTTP probe: %s", said)
		}
		return err
	case spec.TCPSocket != nil:
		port, err := probe.ResolveContainerPort(spec.TCPSocket.Port, container)
		if err != nil {
			return err
		}
		host := spec.TCPSocket.Host
		if host == "" {
			host = w.sandbox.address()
		}
		connection, err := w.dial(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return fmt.Errorf("TCP probe: %w", err)
		}
		return connection.Close()
	case spec.GRPC != nil:
		return w.probeGRPC(ctx, spec.GRPC)
	default:
		return fmt.Errorf("a probe of an unknown kind")
	}
}

func (w *worker) probeGRPC(ctx context.Context, action *corev1.GRPCAction) error {
	target := net.JoinHostPort(w.sandbox.address(), strconv.Itoa(int(action.Port)))
	connection, err := grpc.NewClient("passthrough:///"+target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return w.dial(ctx, "tcp", address)
		}))
	if err != nil {
		return err
	}
	defer connection.Close()
	answer, err := grpc_health_v1.NewHealthClient(connection).Check(ctx,
		&grpc_health_v1.HealthCheckRequest{Service: ptr.Deref(action.Service, "")})
	if err != nil {
		return fmt.Errorf("gRPC probe: %w", err)
	}
	if answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("gRPC probe: the server says %s", answer.Status)
	}
	return nil
}

// transport connects from the node, anew each time and to whatever certificate, as the kubelet does.
func (w *worker) transport() *http.Transport {
	return &http.Transport{
		DialContext:        w.dial,
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives:  true,
		DisableCompression: true,
	}
}

func (w *worker) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return netns.Dial(ctx, w.agent.config.netnsPath(w.agent.config.Name), address)
}
