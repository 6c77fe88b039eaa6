package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Cluster is what the files are made for.
type Cluster struct {
	Directory string
	Name      string
	Server    string
	// Control and Service are the API server's addresses: on the management segment, and as a Service.
	Control net.IP
	Service net.IP
	Nodes   []string
}

// hostOfAGuest is this machine for a guest with QEMU's user-mode network.
var hostOfAGuest = net.IPv4(10, 0, 2, 2)

// client is who a kubeconfig's bearer is: by RBAC's and the Node authorizer's rules.
type client struct {
	file, user, group string
}

// Write makes all files.
func (c Cluster) Write() error {
	if err := os.MkdirAll(c.Directory, 0o755); err != nil {
		return err
	}
	ca, err := authority(c.Directory)
	if err != nil {
		return err
	}
	if err := c.serving(ca); err != nil {
		return err
	}
	if err := c.serviceAccounts(); err != nil {
		return err
	}
	for _, client := range c.clients() {
		if err := c.kubeconfig(ca, client); err != nil {
			return err
		}
	}
	return nil
}

func (c Cluster) clients() []client {
	clients := []client{
		{"admin.kubeconfig", "kubernetes-admin", "system:masters"},
		{"kube-controller-manager.kubeconfig", "system:kube-controller-manager", ""},
		{"kube-scheduler.kubeconfig", "system:kube-scheduler", ""},
		{"kube-proxy.kubeconfig", "system:kube-proxy", ""},
	}
	for _, node := range c.Nodes {
		clients = append(clients, client{"node-" + node + ".kubeconfig", "system:node:" + node, "system:nodes"})
	}
	return clients
}

// serving makes apiserver.crt and apiserver.key.
func (c Cluster) serving(ca pair) error {
	serving, err := ca.issue(x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{c.Control, c.Service, net.IPv4(127, 0, 0, 1), hostOfAGuest},
	})
	if err != nil {
		return err
	}
	if err := writeCertificate(filepath.Join(c.Directory, "apiserver.crt"), serving.certificate); err != nil {
		return err
	}
	return writeKey(filepath.Join(c.Directory, "apiserver.key"), serving.key)
}

// serviceAccounts makes sa.key and sa.pub, by which the API server signs and checks tokens.
func (c Cluster) serviceAccounts() error {
	key, _, err := key(filepath.Join(c.Directory, "sa.key"))
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.Directory, "sa.pub"), pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der}), 0o644)
}

// kubeconfig makes a client's certificate and writes both, and where the server is, into one file.
func (c Cluster) kubeconfig(ca pair, client client) error {
	subject := pkix.Name{CommonName: client.user}
	if client.group != "" {
		subject.Organization = []string{client.group}
	}
	issued, err := ca.issue(x509.Certificate{
		Subject:     subject,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	cluster, user := clientcmdapi.NewCluster(), clientcmdapi.NewAuthInfo()
	cluster.Server = c.Server
	if cluster.CertificateAuthorityData, err = certutil.EncodeCertificates(ca.certificate); err != nil {
		return err
	}
	if user.ClientCertificateData, err = certutil.EncodeCertificates(issued.certificate); err != nil {
		return err
	}
	if user.ClientKeyData, err = keyutil.MarshalPrivateKeyToPEM(issued.key); err != nil {
		return err
	}
	current := clientcmdapi.NewContext()
	current.Cluster, current.AuthInfo = c.Name, client.user
	config.Clusters[c.Name], config.AuthInfos[client.user] = cluster, user
	config.Contexts[c.Name], config.CurrentContext = current, c.Name
	// Mode 0600, as it holds a key.
	return clientcmd.WriteToFile(*config, filepath.Join(c.Directory, client.file))
}
