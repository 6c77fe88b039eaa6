package node

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// held are objects for a test.
type held struct {
	secrets map[string]map[string]string
	maps    map[string]map[string]string
}

func (h held) secret(name string) (*corev1.Secret, error) {
	object := &corev1.Secret{Data: map[string][]byte{}}
	object.Name = name
	for key, value := range h.secrets[name] {
		object.Data[key] = []byte(value)
	}
	return object, h.known(h.secrets, name)
}

func (h held) configMap(name string) (*corev1.ConfigMap, error) {
	object := &corev1.ConfigMap{Data: h.maps[name]}
	object.Name = name
	return object, h.known(h.maps, name)
}

func (held) known(objects map[string]map[string]string, name string) error {
	if objects[name] == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, name)
	}
	return nil
}

var (
	testConfig = Config{
		Name: "node-a", Lab: "test", Address: netip.MustParseAddr("192.0.2.11"), APIHost: "198.18.255.1", APIPort: "6443",
		PodCIDR: netip.MustParsePrefix("198.19.1.0/24"), Images: []string{"signpost"},
	}
	testObjects = held{
		secrets: map[string]map[string]string{"s": {"key": "hush"}},
		maps:    map[string]map[string]string{"m": {"A": "from-map", "B": "b"}},
	}
)

func TestTheEnvironmentIsTheKubelets(t *testing.T) {
	for _, c := range []struct{ container, want string }{
		{"{}", "KUBERNETES_SERVICE_HOST=198.18.255.1"},
		{"{}", "KUBERNETES_SERVICE_PORT=6443"},
		{"{env: [{name: A, value: x}, {name: B, value: $(A)-$(NONE)-$$(A)}]}", "B=x-$(NONE)-$(A)"},
		{"{env: [{name: A, value: $(B)}, {name: B, value: x}]}", "A=$(B)"},
		{"{envFrom: [{configMapRef: {name: m}, prefix: P_}]}", "P_B=b"},
		{"{envFrom: [{configMapRef: {name: m}}], env: [{name: A, value: own}]}", "A=own"},
		{"{envFrom: [{secretRef: {name: s}}]}", "key=hush"},
		{"{env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: key}}}]}", "A=hush"},
		{"{env: [{name: A, valueFrom: {configMapKeyRef: {name: m, key: B}}}]}", "A=b"},
		{"{env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: spec.nodeName}}}]}", "A=node-a"},
		{"{env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: status.podIP}}}]}", "A=192.0.2.11"},
		{"{env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: status.hostIP}}}]}", "A=192.0.2.11"},
		{"{env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.uid}}}]}", "A=u"},
		{"{env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: \"metadata.labels['app']\"}}}]}", "A=web"},
		{"{env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: spec.serviceAccountName}}}]}", "A=agent"},
	} {
		environment, err := environmentOf(t, c.container)
		if err != nil || !slices.Contains(environment, c.want) {
			t.Errorf("%s: %q, %v", c.container, environment, err)
		}
	}
}

func TestWhatIsOptionalMayBeMissingAndNothingElse(t *testing.T) {
	for _, c := range []struct{ container, fault string }{
		{"{env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: none, optional: true}}}]}", ""},
		{"{env: [{name: A, valueFrom: {secretKeyRef: {name: none, key: key, optional: true}}}]}", ""},
		{"{envFrom: [{configMapRef: {name: none, optional: true}}]}", ""},
		{"{env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: none}}}]}", "env A: Secret s has no key none"},
		{"{env: [{name: A, valueFrom: {configMapKeyRef: {name: none, key: key}}}]}", "env A: "},
		{"{envFrom: [{secretRef: {name: none}}]}", "envFrom[0]: "},
		{"{env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: spec.none}}}]}", "env A: field label not supported"},
	} {
		environment, err := environmentOf(t, c.container)
		for _, pair := range environment {
			if strings.HasPrefix(pair, "A=") {
				t.Errorf("%s: %q", c.container, pair)
			}
		}
		if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%s: %v, want %q", c.container, err, c.fault)
		}
	}
}

func TestTheCommandIsTheProgramUnlessItIsGiven(t *testing.T) {
	for container, want := range map[string]string{
		"{}":                                 "/signpost",
		"{args: [agent, $(A)]}":              "/signpost agent x",
		"{command: [$(A), b]}":               "x b",
		"{command: [/bin/c], args: [$$(A)]}": "/bin/c $(A)",
	} {
		spec := podOf(t, "{containers: ["+container+"]}")
		spec.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "x"}}
		argv, _, err := commandLine(testConfig, spec, &spec.Spec.Containers[0], testObjects)
		if err != nil || strings.Join(argv, " ") != want {
			t.Errorf("%s: %q, %v", container, argv, err)
		}
	}
}

func environmentOf(t *testing.T, container string) ([]string, error) {
	t.Helper()
	pod := podOf(t, "{nodeName: node-a, serviceAccountName: agent, containers: ["+container+"]}")
	pod.Labels = map[string]string{"app": "web"}
	_, environment, err := commandLine(testConfig, pod, &pod.Spec.Containers[0], testObjects)
	return environment, err
}
