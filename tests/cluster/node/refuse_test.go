package node

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// podOf reads the spec of a Pod, with what the API server would fill in as far as it matters here.
func podOf(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace, pod.UID = "p", "default", "u"
	if err := yaml.UnmarshalStrict([]byte(spec), &pod.Spec); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	return pod
}

func TestWhatCannotBeHadIsNamed(t *testing.T) {
	const own = "hostNetwork: true, containers: [{name: c, image: signpost"
	for _, c := range []struct{ spec, refusal string }{
		// Fine.
		{"{containers: [{name: c, image: nginx, ports: [{containerPort: 80}], command: [x], volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, nfs: {server: s, path: /}}]}", ""},
		{"{restartPolicy: Never, containers: [{name: c, image: nginx}]}", ""},
		{"{" + own + "}], volumes: [{name: a, emptyDir: {}}, {name: b, secret: {secretName: s}}, {name: c, hostPath: {path: /run}}]}", ""},
		{"{" + own + ", securityContext: {seccompProfile: {type: RuntimeDefault}}}], initContainers: [{name: i, image: signpost}]}", ""},
		// Of any Pod.
		{"{containers: [{name: c, image: nginx}], activeDeadlineSeconds: 1}", "spec.activeDeadlineSeconds"},
		{"{containers: [{name: c, image: nginx, lifecycle: {postStart: {sleep: {seconds: 1}}}}]}", "container c: lifecycle.postStart"},
		{"{containers: [{name: c, image: nginx, lifecycle: {stopSignal: SIGINT}}]}", "container c: lifecycle.stopSignal"},
		// Of an ordinary one.
		{"{containers: [{name: c, image: nginx}], initContainers: [{name: i, image: nginx}]}", "spec.initContainers"},
		{"{containers: [{name: c, image: nginx, ports: [{containerPort: 80, hostPort: 80}]}]}", "container c: hostPort"},
		{"{containers: [{name: c, image: nginx, ports: [{containerPort: 80, protocol: SCTP}]}]}", "container c: a port with protocol SCTP"},
		{"{hostNetwork: true, containers: [{name: c, image: signpost}, {name: d, image: nginx}]}", "the image nginx"},
		// Of one that runs the program under test.
		{"{" + own + "}], restartPolicy: OnFailure}", "spec.restartPolicy: OnFailure"},
		{"{" + own + "}], hostPID: true}", "spec.hostPID"},
		{"{" + own + "}], shareProcessNamespace: true}", "shareProcessNamespace"},
		{"{" + own + "}], securityContext: {fsGroup: 1}}", "fsGroup"},
		{"{" + own + "}], securityContext: {sysctls: [{name: a, value: b}]}}", "sysctls"},
		{"{" + own + ", securityContext: {seccompProfile: {type: Localhost, localhostProfile: x}}}]}", "container c: securityContext"},
		{"{" + own + ", tty: true}]}", "container c: stdin or tty"},
		{"{" + own + ", env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]}]}", "container c: env A"},
		{"{" + own + ", volumeMounts: [{name: v, mountPath: /v, mountPropagation: Bidirectional}]}]}", "container c: volumeMounts v: mountPropagation"},
		{"{" + own + "}], volumes: [{name: v, nfs: {server: s, path: /}}]}", "volume v"},
		{"{" + own + "}], volumes: [{name: v, hostPath: {path: /dev/x, type: CharDevice}}]}", "volume v: hostPath of type CharDevice"},
		{"{" + own + "}], volumes: [{name: v, projected: {sources: [{clusterTrustBundle: {name: x, path: f}}]}}]}", "volume v: a projected source"},
		{"{" + own + "}], volumes: [{name: v, downwardAPI: {items: [{path: p, resourceFieldRef: {resource: limits.cpu}}]}}]}", "volume v: resourceFieldRef"},
	} {
		images := []string{"signpost"}
		pod := podOf(t, c.spec)
		err := refuse(pod, ownsImages(pod, images), images)
		switch {
		case c.refusal == "" && err != nil:
			t.Errorf("%s: %v", c.spec, err)
		case c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)):
			t.Errorf("%s: %v, want %q", c.spec, err, c.refusal)
		}
	}
}

func TestADurationThatIsNoneIsRefused(t *testing.T) {
	pod := podOf(t, "{containers: [{name: c, image: nginx}]}")
	pod.Annotations = map[string]string{stopAfterAnnotation: "3"}
	if err := refuse(pod, false, nil); err == nil || !strings.Contains(err.Error(), stopAfterAnnotation) {
		t.Error(err)
	}
}

func TestImagesAreComparedByTheirLastPart(t *testing.T) {
	for image, own := range map[string]bool{
		"signpost": true, "signpost:v1": true, "ghcr.io/x/signpost:v1@sha256:00": true, "localhost:5000/signpost": true,
		"signpost/agent": false, "x/signpost-lb": false, "signpost.example/x": false, "": false,
	} {
		if isOwnImage(image, []string{"other", "signpost"}) != own {
			t.Errorf("%q", image)
		}
	}
}
