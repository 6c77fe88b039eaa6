// The Kubernetes components of one release as one binary, and what a cluster of them needs on a machine
// without a container engine: the first argument says which.
package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"cluster.signpost.test/node"
	"cluster.signpost.test/pki"
	"cluster.signpost.test/relay"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	component := os.Args[1]
	os.Args = slices.Delete(os.Args, 0, 1)
	switch component {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		run(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		run(controllers.NewControllerManagerCommand())
	case "kube-scheduler":
		run(scheduler.NewSchedulerCommand())
	case "kube-proxy":
		run(proxy.NewProxyCommand())
	case "kubectl":
		run(kubectl.NewDefaultKubectlCommand())
	case "pki":
		own(pki.NewCommand())
	case "relay":
		own(relay.NewCommand())
	case "node":
		own(node.NewCommand())
	default:
		usage()
	}
}

func run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}

// own runs a command of this module: its errors are for a person, not for a log.
func own(command *cobra.Command) {
	command.SilenceUsage = true
	if command.Execute() != nil {
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: components etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kube-proxy|kubectl [FLAGS]\n"+
		"       components pki|node|relay [FLAGS]")
	os.Exit(2)
}
