package node

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	corev1 "k8s.io/api/core/v1"
)

const volumesOfAll = `
containers: [{name: c, image: signpost}]
serviceAccountName: agent
volumes:
- {name: secret, secret: {secretName: s, defaultMode: 0400}}
- {name: map, configMap: {name: m, defaultMode: 0644, items: [{key: B, path: deep/b}]}}
- {name: absent, configMap: {name: none, defaultMode: 0644, optional: true}}
- {name: pod, downwardAPI: {defaultMode: 0644, items: [{path: labels, fieldRef: {apiVersion: v1, fieldPath: metadata.labels}}]}}
- {name: empty, emptyDir: {}}
- {name: host, hostPath: {path: /run/x, type: DirectoryOrCreate}}
- name: all
  projected:
    defaultMode: 0644
    sources:
    - {serviceAccountToken: {path: token, expirationSeconds: 600}}
    - {configMap: {name: m}}
    - {downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}}
`

func volumesOf(t *testing.T, objects objects) *volumes {
	t.Helper()
	config := testConfig
	config.Directory = t.TempDir()
	client := fake.NewClientset()
	client.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		request := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenRequest)
		if request.Spec.BoundObjectRef.UID != "u" {
			return true, nil, errors.New("the token is not bound to the Pod")
		}
		expires := time.Now().Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second)
		request.Status = authenticationv1.TokenRequestStatus{Token: "t", ExpirationTimestamp: metav1.NewTime(expires)}
		return true, request, nil
	})
	return &volumes{config, objects, &tokens{client, map[tokenKey]token{}}}
}

func TestVolumesHoldWhatTheirObjectsSay(t *testing.T) {
	v := volumesOf(t, testObjects)
	pod := podOf(t, volumesOfAll)
	pod.Labels = map[string]string{"app": "web"}
	next, err := v.write(context.Background(), pod)
	if err != nil {
		t.Fatal(err)
	}
	if wait := time.Until(next); wait < 470*time.Second || wait > 480*time.Second {
		t.Errorf("the token is renewed in %v; its time is 600 s", wait)
	}
	for file, want := range map[string]string{
		"secret/key": "hush", "map/deep/b": "b", "pod/labels": `app="web"`,
		"all/token": "t", "all/A": "from-map", "all/namespace": "default",
	} {
		bytes, err := os.ReadFile(filepath.Join(v.config.podFolder("u"), "volumes", file))
		if err != nil || string(bytes) != want {
			t.Errorf("%s: %q, %v", file, bytes, err)
		}
	}
	for file, want := range map[string]fs.FileMode{
		"pods/u/volumes/secret/key": 0o400, "pods/u/volumes/all/token": 0o600, "pods/u/volumes/empty": fs.ModeDir | 0o777,
		"pods/u/volumes/absent": fs.ModeDir | 0o755, "host/run/x": fs.ModeDir | 0o755,
	} {
		info, err := os.Stat(filepath.Join(v.config.Directory, "node-a", file))
		if err != nil {
			t.Error(err)
		} else if info.Mode() != want {
			t.Errorf("%s: %v", file, info.Mode())
		}
	}
}

// A program that watches ..data sees the old files or the new ones, and never a mixture.
func TestAChangeReplacesAllFilesAtOnce(t *testing.T) {
	v := volumesOf(t, testObjects)
	pod := podOf(t, "{containers: [], volumes: [{name: map, configMap: {name: m, defaultMode: 0644}}]}")
	data := filepath.Join(v.folder(pod, "map"), "..data")
	var links []string
	for _, objects := range []held{testObjects, testObjects, {maps: map[string]map[string]string{"m": {"A": "new"}}}} {
		v.objects = objects
		if _, err := v.write(context.Background(), pod); err != nil {
			t.Fatal(err)
		}
		link, err := os.Readlink(data)
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, link)
	}
	if links[0] != links[1] || links[1] == links[2] {
		t.Errorf("..data leads to %q", links)
	}
	if bytes, _ := os.ReadFile(filepath.Join(v.folder(pod, "map"), "A")); string(bytes) != "new" {
		t.Errorf("%q", bytes)
	}
	if _, err := os.Stat(filepath.Join(v.folder(pod, "map"), "B")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a key that went is still there: %v", err)
	}
}

func TestAMissingObjectIsAnError(t *testing.T) {
	v := volumesOf(t, held{})
	for _, volume := range []string{"secret: {secretName: none}", "configMap: {name: none}", "projected: {sources: [{secret: {name: none}}]}"} {
		pod := podOf(t, "{containers: [], volumes: [{name: v, "+volume+"}]}")
		if _, err := v.write(context.Background(), pod); err == nil {
			t.Errorf("%s: no error", volume)
		}
	}
}

func TestHostPathsAreWhatTheirTypeSays(t *testing.T) {
	directory := t.TempDir()
	file, folder, none := filepath.Join(directory, "file"), filepath.Join(directory, "folder"), filepath.Join(directory, "a", "none")
	if err := errors.Join(os.WriteFile(file, nil, 0o644), os.Mkdir(folder, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		kind corev1.HostPathType
		fine bool
	}{
		{folder, corev1.HostPathDirectory, true}, {file, corev1.HostPathDirectory, false}, {none, corev1.HostPathDirectory, false},
		{file, corev1.HostPathFile, true}, {folder, corev1.HostPathFile, false}, {none, corev1.HostPathFile, false},
		{none, corev1.HostPathSocket, false}, {file, corev1.HostPathSocket, false},
		{file, corev1.HostPathDirectoryOrCreate, false}, {folder, corev1.HostPathFileOrCreate, false},
		{file, corev1.HostPathUnset, true}, {filepath.Join(none, "1"), corev1.HostPathUnset, true},
		{filepath.Join(none, "2"), corev1.HostPathDirectoryOrCreate, true}, {filepath.Join(none, "3"), corev1.HostPathFileOrCreate, true},
	} {
		if err := makeHostPath(c.path, c.kind); (err == nil) != c.fine {
			t.Errorf("%s as %q: %v", c.path, c.kind, err)
		}
	}
}

// Nodes share this machine, and a Pod must not reach out of its node's part of it.
func TestAHostPathStaysWithItsNode(t *testing.T) {
	v := volumesOf(t, held{})
	for path, want := range map[string]string{"/run/x": "run/x", "/../../etc": "etc", "/": ""} {
		volume := &corev1.Volume{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}
		if got := v.source(nil, volume); got != filepath.Join(v.config.Directory, "node-a", "host", want) {
			t.Errorf("%s: %s", path, got)
		}
	}
}
