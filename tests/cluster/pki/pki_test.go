package pki

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

func write(t *testing.T, directory string, nodes ...string) {
	t.Helper()
	cluster := Cluster{
		Directory: directory, Name: "default", Server: "https://198.18.255.1:6443",
		Control: net.ParseIP("198.18.255.1"), Service: net.ParseIP("10.233.0.1"), Nodes: nodes,
	}
	if err := cluster.Write(); err != nil {
		t.Fatal(err)
	}
}

func TestKeysAreForTheirOwnerOnly(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "node-a")
	for _, file := range []string{"ca.key", "apiserver.key", "sa.key", "admin.kubeconfig", "node-node-a.kubeconfig"} {
		info, err := os.Stat(filepath.Join(directory, file))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", file, info.Mode())
		}
	}
}

func TestTheServerIsWhoItsNamesSay(t *testing.T) {
	directory := t.TempDir()
	write(t, directory)
	certificates, err := certutil.CertsFromFile(filepath.Join(directory, "apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool, err := certutil.NewPool(filepath.Join(directory, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"198.18.255.1", "127.0.0.1", "10.0.2.2", "10.233.0.1", "localhost",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc",
	} {
		if _, err := certificates[0].Verify(x509.VerifyOptions{Roots: pool, DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := certificates[0].Verify(x509.VerifyOptions{Roots: pool, DNSName: "198.18.255.2"}); err == nil {
		t.Error("198.18.255.2 must not be the server")
	}
}

// A server with apiserver.crt and a client with each kubeconfig: TLS itself says who it is.
func TestClientsAreWhoTheyShallBe(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "node-a")
	pair, err := tls.LoadX509KeyPair(filepath.Join(directory, "apiserver.crt"), filepath.Join(directory, "apiserver.key"))
	if err != nil {
		t.Fatal(err)
	}
	pool, err := certutil.NewPool(filepath.Join(directory, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		subject := r.TLS.PeerCertificates[0].Subject
		w.Header()["Who"] = append([]string{subject.CommonName}, subject.Organization...)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	defer server.Close()
	for file, want := range map[string][]string{
		"admin.kubeconfig":                   {"kubernetes-admin", "system:masters"},
		"kube-controller-manager.kubeconfig": {"system:kube-controller-manager"},
		"kube-scheduler.kubeconfig":          {"system:kube-scheduler"},
		"kube-proxy.kubeconfig":              {"system:kube-proxy"},
		"node-node-a.kubeconfig":             {"system:node:node-a", "system:nodes"},
	} {
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(directory, file))
		if err != nil {
			t.Fatal(err)
		}
		if config.Host != "https://198.18.255.1:6443" {
			t.Errorf("%s: %s", file, config.Host)
		}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Get(server.URL)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		response.Body.Close()
		if got := response.Header["Who"]; !slices.Equal(got, want) {
			t.Errorf("%s: %q", file, got)
		}
	}
}

func TestANodeIsAddedLater(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "node-a")
	before := read(t, directory, "ca.crt") + read(t, directory, "sa.pub")
	write(t, directory, "node-b")
	if after := read(t, directory, "ca.crt") + read(t, directory, "sa.pub"); after != before {
		t.Error("the CA or the service account key changed")
	}
	if _, err := os.Stat(filepath.Join(directory, "node-node-b.kubeconfig")); err != nil {
		t.Error(err)
	}
}

func TestTheServiceAccountKeysAreAPair(t *testing.T) {
	directory := t.TempDir()
	write(t, directory)
	private, err := keyutil.PrivateKeyFromFile(filepath.Join(directory, "sa.key"))
	if err != nil {
		t.Fatal(err)
	}
	public, err := keyutil.PublicKeysFromFile(filepath.Join(directory, "sa.pub"))
	if err != nil {
		t.Fatal(err)
	}
	if !private.(*ecdsa.PrivateKey).PublicKey.Equal(public[0]) {
		t.Error("sa.pub is not of sa.key")
	}
}

func read(t *testing.T, directory, file string) string {
	t.Helper()
	bytes, err := os.ReadFile(filepath.Join(directory, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes)
}
