package node

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// A token is renewed when four fifths of its time are over, and after a day at the latest: the kubelet's figures.
const tokenMaxAge = 24 * time.Hour

type token struct {
	value string
	renew time.Time
}

// tokens are the service account's of one Pod.
type tokens struct {
	client kubernetes.Interface
	held   map[tokenKey]token
}

type tokenKey struct {
	audience string
	seconds  int64
}

// current is a token of this kind that is good for a while.
func (t *tokens) current(ctx context.Context, pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection) (token, error) {
	key := tokenKey{source.Audience, ptr.Deref(source.ExpirationSeconds, 3600)}
	if held, ok := t.held[key]; ok && time.Now().Before(held.renew) {
		return held, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &key.seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if key.audience != "" {
		request.Spec.Audiences = []string{key.audience}
	}
	begin := time.Now()
	answer, err := t.client.CoreV1().ServiceAccounts(pod.Namespace).
		CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return token{}, fmt.Errorf("a token of ServiceAccount %s: %w", pod.Spec.ServiceAccountName, err)
	}
	fresh := token{answer.Status.Token, renewal(begin, answer.Status.ExpirationTimestamp.Time)}
	t.held[key] = fresh
	return fresh, nil
}

func renewal(issued, expires time.Time) time.Time {
	return issued.Add(min(expires.Sub(issued)*4/5, tokenMaxAge))
}
