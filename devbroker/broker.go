// Package devbroker is the embedded broker of dev, demo and tests: a Kafka broker
// inside this process, in memory or on a data directory that survives restarts and
// kill -9.
//
// It never replaces a real broker. Topics are stamped by the producer (CreateTime)
// whatever their configuration says, there is one replica of everything, and neither
// the size of commit metadata nor a client's rate is limited. Notice says so to people.
//
// Concurrency: the methods of a Broker may be called from any goroutine. The broker's
// own goroutines end with Close.
package devbroker

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// Notice is what has to be said wherever people meet the embedded broker.
const Notice = "the embedded broker stamps records with the producer's time (CreateTime), never with its own (LogAppendTime)"

const (
	// defaultPartitions is what a topic gets when nobody says how many.
	defaultPartitions = 4
	// minSessionTimeout lets a member be missed quickly; a real broker's default of 6 s
	// would make every demonstration of a crash wait for it.
	minSessionTimeout = 100 * time.Millisecond
	// maxSessionTimeout is a real broker's default.
	maxSessionTimeout = 30 * time.Minute
)

// Topic is a topic that is made at the start unless it exists.
type Topic struct {
	Name       string
	Partitions int // 0: the broker's default
}

// Options are the settings of a Broker.
type Options struct {
	// Listen is host:port; port 0 is any free one. A host that means every interface is
	// advertised as 127.0.0.1, so that only clients on this machine can use it.
	// Default 127.0.0.1:0.
	Listen string
	// DataDir keeps everything in that directory, written through to the disk before it
	// is acknowledged. Empty keeps everything in memory.
	DataDir string
	// Topics are made at the start unless they exist.
	Topics []Topic
	// AutoCreate makes a topic when a client that asks for that first names it, as
	// auto.create.topics.enable does on a real broker.
	AutoCreate bool
	// AutoCreateAlways does so for clients that do not ask, too. The scheduler never
	// asks: on a real cluster a mistyped target must not become a topic.
	AutoCreateAlways bool
	// Partitions is what a topic gets that is made without a number. Default 4.
	Partitions int
	// Log gets what the broker could not write. Default: nobody.
	Log *zap.Logger
}

// Broker is a running broker.
type Broker struct {
	cluster    *kfake.Cluster
	addr       string
	partitions int
	lock       *dirLock // nil in memory
	log        *zap.Logger

	closing   chan struct{} // ends the topic creations that run inside a metadata request
	closeOnce sync.Once
}

// Start starts a broker. What is wrong with the address or the directory is found
// before anything is touched, and the error says what to do.
func Start(o Options) (*Broker, error) {
	o = o.withDefaults()
	listener, err := listen(o.Listen)
	if err != nil {
		return nil, err
	}
	b := &Broker{
		addr:       listener.Addr().String(),
		partitions: o.Partitions,
		log:        o.Log.Named("devbroker"),
		closing:    make(chan struct{}),
	}
	if o.DataDir != "" {
		if b.lock, err = openDataDir(o.DataDir); err != nil {
			return nil, errors.Join(err, listener.Close())
		}
	}
	b.cluster, err = kfake.NewCluster(b.settings(o, listener)...)
	if err != nil {
		err = fmt.Errorf("start the embedded broker%s: %w", in(o.DataDir), err)
		return nil, errors.Join(err, ignoreClosed(listener.Close()), b.lock.release())
	}
	if o.AutoCreate || o.AutoCreateAlways {
		b.createOnFirstUse(o.AutoCreateAlways)
	}
	for _, t := range o.Topics {
		if err := b.CreateTopic(t.Name, t.Partitions); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

func (o Options) withDefaults() Options {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.Partitions <= 0 {
		o.Partitions = defaultPartitions
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return o
}

func (b *Broker) settings(o Options, listener net.Listener) []kfake.Opt {
	settings := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ClusterID("delay-scheduler-dev"),
		kfake.DefaultNumPartitions(o.Partitions),
		kfake.GroupMinSessionTimeout(minSessionTimeout),
		kfake.GroupMaxSessionTimeout(maxSessionTimeout),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return listener, nil }),
		kfake.WithLogger(logger{b.log}),
	}
	if o.DataDir != "" {
		settings = append(settings, kfake.DataDir(o.DataDir), kfake.SyncWrites())
	}
	return settings
}

// Addr is where clients connect, host:port.
func (b *Broker) Addr() string { return b.addr }

// Close stops the broker and waits until everything is written. It may be called again.
func (b *Broker) Close() error {
	var err error
	b.closeOnce.Do(func() {
		close(b.closing)
		b.cluster.Close()
		err = b.lock.release()
	})
	return err
}

// client is a client of the broker itself, for its own requests.
func (b *Broker) client() (*kgo.Client, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.addr))
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded broker: %w", err)
	}
	return client, nil
}

func in(dir string) string {
	if dir == "" {
		return ""
	}
	return " in " + dir
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func portInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
