package kubeapi

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Request makes one request with a token and returns the answer's status and
// body. It may be called by several goroutines. The body, if it is no string and no bytes, is sent as JSON.
func (s *Server) Request(token, method, path, contentType string, body any) (int, []byte, error) {
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	case []byte:
		reader = bytes.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
		}
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequest(method, s.URL()+path, reader)
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if contentType == "" {
		contentType = "application/json"
	}
	req.Header.Set("Content-Type", contentType)
	answer, err := s.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	return answer.StatusCode, data, err
}

func (s *Server) httpClient() (*http.Client, error) {
	ca, err := os.ReadFile(s.file("ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 16,
		},
	}, nil
}

// Do makes a request as the administrator, which must succeed, and returns the
// answer.
func (s *Server) Do(method, path, contentType string, body any) []byte {
	s.t.Helper()
	status, answer, err := s.Request(Admin, method, path, contentType, body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	if status/100 != 2 {
		s.t.Fatalf("%s %s: status %d: %s", method, path, status, answer)
	}
	return answer
}

// Apply makes the objects of a YAML text with several documents what it says, as
// kubectl does. Their kinds must be among those of paths.
func (s *Server) Apply(text string) {
	s.t.Helper()
	for _, document := range strings.Split("\n"+text, "\n---") {
		var o struct {
			APIVersion string `json:"apiVersion"`
			Kind       string
			Metadata   struct{ Name, Namespace string }
		}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			s.t.Fatalf("read object: %v\n%s", err, document)
		}
		if o.Kind == "" {
			continue
		}
		path := s.path(o.APIVersion, o.Kind, o.Metadata.Namespace) + "/" + o.Metadata.Name
		s.Do("PATCH", path+"?fieldManager=test&force=true", "application/apply-patch+yaml", document)
	}
}

// path returns the path of a kind's objects.
func (s *Server) path(version, kind, namespace string) string {
	prefix := "/apis/" + version
	if !strings.Contains(version, "/") {
		prefix = "/api/" + version
	}
	if namespace != "" {
		prefix += "/namespaces/" + namespace
	}
	plural := strings.ToLower(kind) + "s"
	if strings.HasSuffix(plural, "ys") {
		plural = strings.TrimSuffix(plural, "ys") + "ies"
	}
	return prefix + "/" + plural
}

// Kubeconfig writes a kubeconfig for a token into a folder and returns its path.
// An existing one is replaced as a whole.
func (s *Server) Kubeconfig(folder, token string) string {
	s.t.Helper()
	return s.writeKubeconfig(s.URL(), folder, "token: "+token)
}

// KubeconfigWithFile is like Kubeconfig, with the token in a file of its own.
func (s *Server) KubeconfigWithFile(folder, tokenFile string) string {
	s.t.Helper()
	return s.writeKubeconfig(s.URL(), folder, "tokenFile: "+tokenFile)
}

func (s *Server) writeKubeconfig(url, folder, credentials string) string {
	s.t.Helper()
	ca, err := os.ReadFile(s.file("ca.crt"))
	if err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(folder, "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: test, user: {%s}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
`, url, base64.StdEncoding.EncodeToString(ca), credentials)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// ServiceAccountToken returns a token of a service account, as a pod has it.
func (s *Server) ServiceAccountToken(namespace, name string) string {
	s.t.Helper()
	answer := s.Do("POST", "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+name+"/token", "",
		map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{}})
	var request struct {
		Status struct{ Token string }
	}
	if err := json.Unmarshal(answer, &request); err != nil || request.Status.Token == "" {
		s.t.Fatalf("token of %s/%s: %v: %s", namespace, name, err, answer)
	}
	return request.Status.Token
}

// compact has etcd forget its history up to now.
func (s *Server) compact() error {
	post := func(path, body string) ([]byte, error) {
		answer, err := http.Post(s.etcd+path, "application/json", strings.NewReader(body))
		if err != nil {
			return nil, fmt.Errorf("compact etcd: %w", err)
		}
		defer answer.Body.Close()
		data, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("compact etcd: %s: %s", answer.Status, data)
		}
		return data, err
	}
	data, err := post("/v3/kv/range", `{"key": "AA=="}`)
	if err != nil {
		return err
	}
	var answer struct {
		Header struct{ Revision string }
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	_, err = post("/v3/kv/compaction", fmt.Sprintf(`{"revision": %q, "physical": true}`, answer.Header.Revision))
	return err
}
