package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// Limits on what a server may send; of what it says only the status counts.
const (
	maxHeader = 16 << 10
	maxBody   = 64 << 10
)

// client asks URLs. It goes where they say and nowhere else: it takes no proxy
// from the environment and follows no redirect. A certificate must be good, as
// anywhere.
type client struct{ http http.Client }

func newClient() *client {
	// No keep-alive probes and no limit of idleness: each would be a timer.
	dialer := net.Dialer{KeepAlive: -1}
	return &client{http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableCompression: true,
			MaxIdleConnsPerHost: 1, MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ask asks a URL once. The error is nil when it answers with a status of 2xx in
// time.
func (c *client) ask(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "netclassd")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// Read to its end, so that the connection serves again.
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("status %s", strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))))
	}
	return err
}

// because gives an error as text that is the same whenever the cause is: without
// the URL, and without the port of our end.
func because(err error) string {
	if err == nil {
		return ""
	}
	if errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err) {
		return fmt.Sprintf("no answer within %v", timeout)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op + ": " + op.Err.Error()
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return err.Error()
}
