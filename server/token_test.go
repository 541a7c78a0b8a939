package server

import "testing"

// A token opens for its scope only, and nothing that a client sends panics.
func FuzzPageToken(f *testing.F) {
	f.Add("ListRules/", "key", "AAAAAAAA")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, scope, key, token string) {
		sealed := sealToken(scope, key)
		if got, ok := openToken(scope, sealed); !ok || got != key {
			t.Errorf("%q became %q, %v", key, got, ok)
		}
		if _, ok := openToken(scope+"x", sealed); ok {
			t.Error("opens for another scope")
		}
		openToken(scope, token)
	})
}
