package app

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"delay-scheduler/config"
)

// metricsWait bounds one answer: what is slower would be sampled too seldom.
const metricsWait = 5 * time.Second

// memoryQuery asks running schedulers what they take.
type memoryQuery struct {
	urls   []string
	token  string
	client *http.Client
}

func newMemoryQuery(c *config.Config, addresses []string) (*memoryQuery, error) {
	own, err := OwnHealth(c)
	if err != nil {
		return nil, err
	}
	q := &memoryQuery{token: own.Token}
	if len(addresses) > 0 {
		// The certificate of another process is none of this configuration's.
		own.CertFile = ""
	} else {
		addresses = []string{own.URL}
	}
	for _, a := range addresses {
		u, err := url.Parse(a)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, fmt.Errorf("%w: %q, such as http://127.0.0.1:8080", ErrAddress, a)
		}
		q.urls = append(q.urls, strings.TrimSuffix(u.String(), "/metrics"))
	}
	q.client, err = own.client()
	return q, err
}

func (q *memoryQuery) of() string {
	if len(q.urls) == 1 {
		return q.urls[0]
	}
	return fmt.Sprintf("%d processes together", len(q.urls))
}

// total is what all of them take together, in bytes.
func (q *memoryQuery) total(ctx context.Context) (total int64, err error) {
	for _, u := range q.urls {
		n, err := q.resident(ctx, u)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

func (q *memoryQuery) resident(ctx context.Context, address string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("ask %s: %w", address, err)
	}
	if q.token != "" {
		req.Header.Set("Authorization", "Bearer "+q.token)
	}
	resp, err := q.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("ask for memory: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // It was only read.
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("ask %s/metrics: the answer is %s", address, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), residentMetric+" "); ok {
			f, err := strconv.ParseFloat(value, 64)
			return int64(f), err
		}
	}
	return 0, fmt.Errorf("ask %s/metrics: the answer has no %s", address, residentMetric)
}
