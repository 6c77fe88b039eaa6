package node

import (
	"strings"
	"testing"

	"cluster.signpost.test/scratch"
)

func TestPrivilegesAreWhatPodAndContainerSay(t *testing.T) {
	defaults := strings.Join(scratch.DefaultCapabilities, " ")
	all := strings.Join(scratch.AllCapabilities(), " ")
	for _, c := range []struct {
		pod, container string
		want           scratch.Spec
		capabilities   string
		fault          string
	}{
		{"{}", "{}", scratch.Spec{}, defaults, ""},
		{"{}", "{capabilities: {drop: [ALL], add: [NET_ADMIN, CAP_NET_RAW]}}", scratch.Spec{}, "NET_ADMIN NET_RAW", ""},
		{"{}", "{capabilities: {drop: [ALL, all]}}", scratch.Spec{}, "", ""},
		{"{}", "{capabilities: {add: [ALL], drop: [CHOWN]}}", scratch.Spec{}, all, ""},
		{"{}", "{capabilities: {add: [CHOWN]}}", scratch.Spec{}, defaults, ""},
		{"{}", "{capabilities: {add: [NOTHING]}}", scratch.Spec{}, "", "NOTHING is no capability"},
		{"{}", "{privileged: true}", scratch.Spec{Privileged: true}, all, ""},
		{"{}", "{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true}", scratch.Spec{NoNewPrivileges: true, ReadOnlyRoot: true}, defaults, ""},
		{"{runAsUser: 5, runAsGroup: 6}", "{}", scratch.Spec{UID: 5, GID: 6}, defaults, ""},
		{"{runAsUser: 5, runAsNonRoot: true}", "{runAsUser: 7}", scratch.Spec{UID: 7}, defaults, ""},
		{"{runAsNonRoot: true}", "{}", scratch.Spec{}, "", "set runAsUser"},
		{"{runAsUser: 5}", "{runAsUser: 0, runAsNonRoot: true}", scratch.Spec{}, "", "set runAsUser"},
	} {
		pod := podOf(t, "{securityContext: "+c.pod+", containers: [{name: c, image: signpost, securityContext: "+c.container+"}]}")
		var got scratch.Spec
		err := privileges(&got, pod, &pod.Spec.Containers[0])
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s %s: %v, want %q", c.pod, c.container, err, c.fault)
			}
			continue
		}
		if err != nil || strings.Join(got.Capabilities, " ") != c.capabilities || got.UID != c.want.UID || got.GID != c.want.GID ||
			got.Privileged != c.want.Privileged || got.NoNewPrivileges != c.want.NoNewPrivileges || got.ReadOnlyRoot != c.want.ReadOnlyRoot {
			t.Errorf("%s %s: %+v, %v", c.pod, c.container, got, err)
		}
	}
}

// A container that takes a default away must not take it from the next one.
func TestTheDefaultsStay(t *testing.T) {
	before := strings.Join(scratch.DefaultCapabilities, " ")
	pod := podOf(t, "{containers: [{name: c, image: signpost, securityContext: {capabilities: {drop: [CHOWN]}}}]}")
	var spec scratch.Spec
	if err := privileges(&spec, pod, &pod.Spec.Containers[0]); err != nil {
		t.Fatal(err)
	}
	if after := strings.Join(scratch.DefaultCapabilities, " "); after != before {
		t.Error(after)
	}
}

func TestAServiceAccountTokenIsReadableForItsUser(t *testing.T) {
	mode := int32(0o640)
	for spec, want := range map[string]int32{
		"{containers: [{name: c, image: signpost}]}":                                  0o600,
		"{securityContext: {runAsUser: 5}, containers: [{name: c, image: signpost}]}": 0o640,
	} {
		if got := tokenMode(podOf(t, spec), &mode); got != want {
			t.Errorf("%s: %o", spec, got)
		}
	}
}
