package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"delay-scheduler/app"
	"delay-scheduler/config"
)

func newOffsets() *cobra.Command {
	c := group(&cobra.Command{
		Use:     "offsets",
		Short:   "Shows what is committed, and decides what is held",
		Example: "  scheduler offsets show -c scheduler.yaml",
	})
	c.AddCommand(newOffsetsShow(), newOffsetsAccept())
	return c
}

func newOffsetsShow() *cobra.Command {
	var (
		o       app.OffsetsOptions
		timeout time.Duration
		output  string
	)
	c := &cobra.Command{
		Use:   "show",
		Short: "Decodes the group's commits, so that lag in a Kafka UI can be understood",
		Long: `Decodes what the group has committed of each source partition. Our committed offset is the
oldest record that is still pending; what is done above it is in the commit's metadata. So the
lag that a Kafka UI shows counts records that are long delivered: PENDING is what really waits.

To count it, up to --read records of each partition are read from the committed offset on, within
--timeout; where there are more, the number is an estimate, marked with ~. Nothing is changed.`,
		Example: `  scheduler offsets show -c scheduler.yaml
  scheduler offsets show --brokers kafka-1:9092 --group orders-scheduler --topic orders-delay
  scheduler offsets show --read 0 -o json`,
		Args: usageArgs(cobra.NoArgs),
	}
	s := clusterFlags(c, [3]string{"group", "group.id", "consumer group"})
	c.Flags().StringArrayVar(&o.Topics, "topic", nil, "show this topic only; may be repeated")
	c.Flags().Int64Var(&o.Read, "read", 100_000, "records of each partition to read at most; 0 reads none")
	c.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long to read")
	outputFlag(c, &output)
	c.RunE = func(c *cobra.Command, _ []string) error {
		loaded, err := s.load()
		if err != nil {
			return err
		}
		if o.Read < 0 {
			return usageError{fmt.Errorf("--read is %d, must not be negative", o.Read)}
		}
		ctx, _, release := signals(c.Context())
		defer release()
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		p := newProgress(c.ErrOrStderr())
		o.Progress = func(read int64) { p.show(time.Now(), "%d records read", read) }
		all, err := app.Offsets(ctx, loaded, o)
		p.clear()
		if err != nil {
			return err
		}
		if output == "json" {
			return printJSON(c.OutOrStdout(), all)
		}
		return printOffsets(c.OutOrStdout(), loaded, all, time.Now())
	}
	return c
}

func printOffsets(w io.Writer, loaded *config.Config, all []app.PartitionOffsets, now time.Time) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "there is no topic that a source matches")
		return err
	}
	var rows [][]string
	var remarks []string
	for i := range all {
		p := &all[i]
		rows = append(rows, offsetsRow(p, now))
		remarks = append(remarks, offsetsRemarks(p, loaded.Commit.MetadataLimit)...)
	}
	fmt.Fprintf(w, "group %s\n\n", loaded.Group.ID)
	head := []string{"PARTITION", "COMMITTED", "LOG END", "LAG", "PENDING", "DONE ABOVE", "NEXT DUE", "HORIZON", "METADATA"}
	if err := printTable(w, head, rows); err != nil {
		return err
	}
	fmt.Fprintf(w, `
LAG is what a Kafka UI shows: log end - committed. PENDING is what waits, and what was sent since
the last commit (every %v). DONE ABOVE is delivered already, though above the committed offset:
what was due up to HORIZON, but for the exceptions.
`, loaded.Commit.Interval)
	if len(remarks) > 0 {
		fmt.Fprintln(w)
	}
	for _, r := range remarks {
		fmt.Fprintln(w, shown(r))
	}
	return nil
}

func offsetsRow(p *app.PartitionOffsets, now time.Time) []string {
	row := []string{
		fmt.Sprintf("%s/%d", p.Topic, p.Partition), "-", strconv.FormatInt(p.LogEnd, 10), strconv.FormatInt(p.Lag, 10),
		"?", "?", "-", "-", "-",
	}
	if p.Committed != nil {
		row[1] = strconv.FormatInt(*p.Committed, 10)
		row[8] = metadataCell(p)
	}
	if n, exact, known := p.Estimate(); known {
		about := "~"
		if exact {
			about = ""
		}
		row[4], row[5] = about+strconv.FormatInt(n, 10), about+strconv.FormatInt(p.Lag-n, 10)
	}
	if p.Counted != nil && p.Counted.NextDue != nil {
		row[6] = relative(p.Counted.NextDue.Sub(now))
	}
	if p.Horizon != nil {
		row[7] = p.Horizon.Local().Format("2006-01-02 15:04:05.000")
	}
	return row
}

func metadataCell(p *app.PartitionOffsets) string {
	cell := fmt.Sprintf("%d characters", p.MetadataCharacters)
	if n := p.PendingExceptions + p.DoneExceptions; n > 0 {
		cell += fmt.Sprintf(", %d exceptions", n)
	}
	return cell
}

// offsetsRemarks are what does not fit into a row.
func offsetsRemarks(p *app.PartitionOffsets, limit int) []string {
	var out []string
	name := fmt.Sprintf("%s/%d", p.Topic, p.Partition)
	if p.Problem != "" {
		out = append(out, name+": "+p.Problem)
	}
	if h := p.Held; h != nil && !h.Decided {
		due := ""
		if h.DueBy != nil {
			due = ", as far as they were due by " + stamp(*h.DueBy)
		}
		out = append(out, fmt.Sprintf("%s: offsets %d to %d are held%s: say what becomes of them with scheduler offsets accept", name, h.From, h.Below-1, due))
	}
	for _, l := range p.Lanes {
		target := l.Target
		if target == "" {
			target = "a target (" + l.Lane + ")"
		}
		out = append(out, fmt.Sprintf("%s: %s lags behind, done up to %s", name, target, stamp(l.Horizon)))
	}
	if p.PendingExceptions > 0 || p.DoneExceptions > 0 {
		out = append(out, fmt.Sprintf("%s: exceptions: %d pending before the horizon, %d done after it (%s)",
			name, p.PendingExceptions, p.DoneExceptions, strings.TrimSpace(p.Encoding)))
	}
	if p.Problem == "" && p.MetadataCharacters > limit*9/10 {
		out = append(out, fmt.Sprintf("%s: the metadata is full (commit.metadata_limit %d): what is done of the last %d offsets may be missing in it, and be sent again after a restart",
			name, limit, p.LogEnd-p.Known))
	}
	return out
}
