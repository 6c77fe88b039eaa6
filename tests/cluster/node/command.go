// Package node stands in for a kubelet on a machine without a container engine.
//
// A node is a network namespace of a lab. The stand-in registers it, keeps its Lease, and runs the Pods that
// are bound to it:
//
//   - An ordinary Pod, whatever its images are, becomes a pod of the lab: a network namespace with a server
//     that answers with the Pod's name on all its container ports. What its containers' programs would be
//     (command, environment, volumes, resources, security) plays no part. Probes run against the server.
//   - A Pod with hostNetwork whose images are the program under test runs that program, in the node's network
//     namespace and as a container built FROM scratch would run it.
//
// Two annotations are for tests: signpost.test/ready: "false" makes a Pod unready as long as it is there, and
// signpost.test/stop-after: DURATION has an ordinary Pod's server go on so long after its preStop hook, within the
// grace.
//
// What a Pod asks for and does not get is never passed over: it stays Pending, and its containers wait with
// the reason CreateContainerConfigError and a message that names the field.
//
// Not here: jobs (a program runs until its Pod is deleted, restartPolicy is Always); resource limits, seccomp
// profiles and termination messages (accepted, without effect); environment variables for Services other than
// the API server's; /etc/resolv.conf and /etc/hosts; the kubelet's own API, so "kubectl logs", "exec" and
// "port-forward" do not work: what a container prints is in DIRECTORY/NODE/logs/NAMESPACE_POD_CONTAINER.log.
//
// SIGTERM ends the stand-in and leaves everything running. Started again it takes over what runs; how a program
// ends that an earlier stand-in started is not to be known, and counts as exit code 137. A Pod that is being deleted
// when the stand-in starts ends at once.
package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Config is what a stand-in is told.
type Config struct {
	Name string
	// Lab is the lab's name; Signpost is the program that builds it, and the program under test.
	Lab      string
	Signpost string
	PodCIDR  netip.Prefix
	Address  netip.Addr
	// Directory is shared by the nodes: each one has a folder of its name in it.
	Directory string
	// Images are the names, without registry and tag, that mean the program under test.
	Images []string
	// APIHost and APIPort are what a container gets as the API server's Service.
	APIHost string
	APIPort string
}

// clientRate: a node's client is not what a test measures.
const (
	clientRate  = 200
	clientBurst = 400
)

// NewCommand returns "node".
func NewCommand() *cobra.Command {
	var config Config
	var kubeconfig, cidr, address, api string
	command := &cobra.Command{
		Use:   "node",
		Short: "Stands in for a kubelet: one node of a lab, and its Pods",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := config.parse(cidr, address, api); err != nil {
				return err
			}
			rest, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("--kubeconfig: %w", err)
			}
			rest.QPS, rest.Burst = clientRate, clientBurst
			client, err := kubernetes.NewForConfig(rest)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			return Run(ctx, config, client)
		},
	}
	flags := command.Flags()
	flags.StringVar(&config.Name, "name", "", "the node's name, which is also the lab's member's")
	flags.StringVar(&config.Lab, "lab", "", "the lab's name")
	flags.StringVar(&config.Signpost, "signpost", "", "the program that built the lab, which is under test too")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "how to reach the API server")
	flags.StringVar(&cidr, "pod-cidr", "", "the node's range for pods")
	flags.StringVar(&address, "address", "", "the node's address")
	flags.StringVar(&api, "api", "", "HOST:PORT of the API server for containers (default: no KUBERNETES_SERVICE_HOST)")
	flags.StringVar(&config.Directory, "directory", "", "where logs, volumes and records are kept")
	flags.StringArrayVar(&config.Images, "image", []string{"signpost"}, "an image, without registry and tag, that is the program under test (repeatable)")
	for _, flag := range []string{"name", "lab", "signpost", "kubeconfig", "pod-cidr", "address", "directory"} {
		if err := command.MarkFlagRequired(flag); err != nil {
			panic(err) // a flag of the lines above
		}
	}
	return command
}

func (c *Config) parse(cidr, address, api string) (err error) {
	if c.PodCIDR, err = netip.ParsePrefix(cidr); err != nil {
		return fmt.Errorf("--pod-cidr: %w", err)
	}
	if !c.PodCIDR.Addr().Is4() {
		return errors.New("--pod-cidr: a lab's pods have IPv4 addresses only")
	}
	if c.Address, err = netip.ParseAddr(address); err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	if api != "" {
		if c.APIHost, c.APIPort, err = net.SplitHostPort(api); err != nil {
			return fmt.Errorf("--api: %w", err)
		}
	}
	if c.Signpost, err = filepath.Abs(c.Signpost); err != nil {
		return fmt.Errorf("--signpost: %w", err)
	}
	if c.Directory, err = filepath.Abs(c.Directory); err != nil {
		return fmt.Errorf("--directory: %w", err)
	}
	return nil
}
