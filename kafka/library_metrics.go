package kafka

import "github.com/rcrowley/go-metrics"

// noMetrics is a registry that keeps nothing: nobody reads what the library counts. It
// would keep four metrics for every topic we write to, two of them with a sample of 1028
// values, and look up a dozen for every request.
type noMetrics struct{}

var _ metrics.Registry = noMetrics{}

func (noMetrics) Each(func(string, any))            {}
func (noMetrics) Get(string) any                    { return nil }
func (noMetrics) GetAll() map[string]map[string]any { return nil }
func (noMetrics) Register(string, any) error        { return nil }
func (noMetrics) RunHealthchecks()                  {}
func (noMetrics) Unregister(string)                 {}
func (noMetrics) UnregisterAll()                    {}
func (noMetrics) GetOrRegister(_ string, metric any) any {
	switch metric.(type) {
	case func() metrics.Meter:
		return metrics.NilMeter{}
	case func() metrics.Histogram:
		return metrics.NilHistogram{}
	case func() metrics.Counter:
		return metrics.NilCounter{}
	}
	return metric
}
