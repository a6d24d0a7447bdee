package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"syscall"
)

// CheckHealth asks a running process for its health. The error says that there was no
// answer that could be understood.
func CheckHealth(ctx context.Context, base string) (Health, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return Health{}, fmt.Errorf("%w: %q, such as http://127.0.0.1:8080", ErrAddress, base)
	}
	u = u.JoinPath("readyz")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Health{}, fmt.Errorf("ask %s: %w", u, err)
	}
	resp, err := http.DefaultClient.Do(req)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Health{}, fmt.Errorf("ask %s: nothing listens there (is the scheduler running, and http.listen this address?)", u)
	case err != nil:
		return Health{}, fmt.Errorf("ask %s: %w", u, err)
	}
	defer func() { _ = resp.Body.Close() }()
	const most = 4 << 20
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return Health{}, fmt.Errorf("ask %s: %w", u, err)
	}
	var h Health
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
		return Health{}, fmt.Errorf("ask %s: the answer is %s: is this a scheduler?", u, resp.Status)
	}
	if err := json.Unmarshal(body, &h); err != nil {
		return Health{}, fmt.Errorf("ask %s: the answer is not a scheduler's: %w", u, err)
	}
	return h, nil
}

// ErrAddress says that an address is no URL of a scheduler.
var ErrAddress = errors.New("want the address of a scheduler's HTTP server")
