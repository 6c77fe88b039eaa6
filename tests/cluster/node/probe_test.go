package node

import (
	"strings"
	"testing"
)

// p is a pass, f a failure; what comes out is told as P or F, and nothing as a dot.
func TestAnOutcomeNeedsItsNumberInARow(t *testing.T) {
	for _, c := range []struct {
		success, failure int32
		results, want    string
	}{
		{1, 3, "p", "P"},
		{1, 3, "ppp", "P.."},
		{1, 3, "fff", "..F"},
		{1, 3, "ffp", "..P"},
		{1, 3, "pffpfff", "P.....F"},
		{1, 3, "ffffff", "..F..."},
		{2, 1, "pfpp", ".F.P"},
		{1, 1, "pfpf", "PFPF"},
	} {
		outcome := threshold{success: c.success, failure: c.failure}
		var told strings.Builder
		for _, result := range c.results {
			switch ok := result == 'p'; {
			case !outcome.add(ok):
				told.WriteByte('.')
			case outcome.ok:
				told.WriteByte('P')
			default:
				told.WriteByte('F')
			}
		}
		if told.String() != c.want {
			t.Errorf("%d %d %s: %s, want %s", c.success, c.failure, c.results, told.String(), c.want)
		}
	}
}
