// Package pki makes the keys, certificates and kubeconfigs of a cluster of Kubernetes components, under
// the names that kubeadm gives to them.
package pki

import (
	"fmt"
	"net"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	utilnet "k8s.io/utils/net"
)

// NewCommand returns "pki".
func NewCommand() *cobra.Command {
	var cluster Cluster
	var control, cidr string
	command := &cobra.Command{
		Use:   "pki",
		Short: "Makes a cluster's certificates and kubeconfigs",
		Long: "Makes a cluster's certificates and kubeconfigs. A CA and a service account key that are in the directory\n" +
			"already are used again, so a node can be added later.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if cluster.Control = net.ParseIP(control); cluster.Control == nil {
				return fmt.Errorf("--control %q is no address: write one, like 198.18.255.1", control)
			}
			_, services, err := net.ParseCIDR(cidr)
			if err != nil {
				return fmt.Errorf("--service-cidr: %w", err)
			}
			if cluster.Service, err = utilnet.GetIndexedIP(services, 1); err != nil {
				return fmt.Errorf("--service-cidr: %w", err)
			}
			for _, node := range cluster.Nodes {
				if faults := validation.IsDNS1123Subdomain(node); len(faults) > 0 {
					return fmt.Errorf("--node %q: %s", node, faults[0])
				}
			}
			if cluster.Server == "" {
				cluster.Server = "https://" + net.JoinHostPort(control, "6443")
			}
			return cluster.Write()
		},
	}
	flags := command.Flags()
	flags.StringVar(&cluster.Directory, "directory", "", "where to write; it is made if need be")
	flags.StringVar(&control, "control", "", "the control plane's address")
	flags.StringVar(&cidr, "service-cidr", "", "the Services' range; its first address is the API server's")
	flags.StringVar(&cluster.Server, "server", "", "the API server's URL in the kubeconfigs (default https://CONTROL:6443)")
	flags.StringVar(&cluster.Name, "name", "default", "the cluster's name in the kubeconfigs")
	flags.StringArrayVar(&cluster.Nodes, "node", nil, "a node's name, for node-NAME.kubeconfig (repeatable)")
	for _, flag := range []string{"directory", "control", "service-cidr"} {
		if err := command.MarkFlagRequired(flag); err != nil {
			panic(err) // a flag of the lines above
		}
	}
	return command
}
