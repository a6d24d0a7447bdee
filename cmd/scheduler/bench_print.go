package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"delay-scheduler/measure"
)

const mib = 1 << 20

// printBenchPlan says what will be made and written.
func printBenchPlan(w io.Writer, o measure.Options) error {
	records, bytes := "", ""
	if n := o.Planned(); n > 0 {
		records = strconv.Itoa(n) + " records"
		times := 2.0 // the source and the targets
		if o.Topics.Copy != "" {
			times++
		}
		bytes = fmt.Sprintf(", about %.0f MiB on each replica", float64(n)*float64(o.ValueBytes+100)*times/mib)
	} else {
		records = fmt.Sprintf("as many records as are taken in %v", o.Duration)
	}
	fmt.Fprintf(w, "%s of %d bytes, %s, %s%s, to these topics, which will be made and removed:\n\n", records, o.ValueBytes, rateText(o.Rate), o.Delays, bytes)
	replicas := "default"
	if o.Replication > 0 {
		replicas = strconv.Itoa(int(o.Replication))
	}
	var rows [][]string
	for _, name := range o.Topics.All() {
		rows = append(rows, []string{name, strconv.Itoa(int(o.Partitions)), replicas})
	}
	if err := printTable(w, []string{"TOPIC", "PARTITIONS", "REPLICAS"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

func rateText(rate float64) string {
	if rate == 0 {
		return "as fast as they are taken"
	}
	return strconv.FormatFloat(rate, 'f', -1, 64) + "/s"
}

// benchBar shows how a run stands.
type benchBar struct {
	*progress
	phase string
}

func newBenchBar(w io.Writer) *benchBar { return &benchBar{progress: newProgress(w)} }

func (b *benchBar) show(p measure.Progress) {
	if p.Phase != b.phase {
		b.phase, b.drawn = p.Phase, time.Time{} // A new phase is shown at once.
	}
	b.progress.show(time.Now(), "%s", benchLine(p))
}

// barWidth is how many characters the bar itself has.
const barWidth = 24

func benchLine(p measure.Progress) string {
	line := p.Phase
	if p.Total > 0 {
		share := min(float64(p.Done)/float64(p.Total), 1)
		full := int(share * barWidth)
		line = fmt.Sprintf("[%s%s] %3.0f%%  %s, %d of %d", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), share*100, p.Phase, p.Done, p.Total)
	} else if p.Done > 0 {
		line += fmt.Sprintf(", %d records", p.Done)
	}
	if p.Left >= 0 && (p.Total > 0 || p.Left > 0) {
		line += fmt.Sprintf(", %v left", p.Left.Round(time.Second))
	}
	return line
}

func printBench(w io.Writer, r measure.Result) error {
	fmt.Fprintf(w, "%d records of %d bytes, %s, %s, %s, %s\n\n", r.Records, r.ValueBytes, rateText(r.Rate), r.Delays,
		counted(r.Partitions, "partition"), counted(r.Targets, "target"))
	speed := func(name string, s measure.Speed) []string {
		return []string{name, strconv.Itoa(s.Records), round(s.Took), fmt.Sprintf("%.0f", s.PerSecond)}
	}
	rows := [][]string{speed("accepted", r.Accepted), speed("forwarded", r.Forwards)}
	if r.Copy.Records > 0 {
		rows = append(rows, speed("plain copy", r.Copy))
	}
	if err := printTable(w, []string{"", "RECORDS", "IN", "PER SECOND"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(w)
	late := func(name string, l measure.Lateness) []string {
		return []string{name, inMS(l.P50), inMS(l.P99), inMS(l.P999), inMS(l.Max)}
	}
	rows = [][]string{late("after its due time", r.Late)}
	if r.Copy.Records > 0 {
		rows = append(rows, late("a write, beside it", r.Write))
	}
	if err := printTable(w, []string{"APPENDED", "P50", "P99", "P99.9", "MAX"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(w)
	counts := []string{strconv.Itoa(r.Early), strconv.Itoa(r.Lost), strconv.Itoa(r.Duplicates), strconv.Itoa(r.DeadLetters), memoryCell(r.Memory)}
	if err := printTable(w, []string{"EARLY", "LOST", "TWICE", "REFUSED", "MEMORY AT MOST"}, [][]string{counts}); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, line := range benchRemarks(r) {
		fmt.Fprintln(w, shown(line))
	}
	return nil
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func inMS(ms int64) string { return strconv.FormatInt(ms, 10) + " ms" }

func memoryCell(m measure.Memory) string {
	if m.Most == 0 {
		return "not known"
	}
	return fmt.Sprintf("%d MiB (%d MiB before)", m.Most/mib, m.Before/mib)
}

// benchRemarks are the verdict, and what has to be known to read the figures.
func benchRemarks(r measure.Result) (lines []string) {
	if broken := r.Broken(); len(broken) > 0 {
		lines = append(lines, "The promise was NOT kept: "+strings.Join(broken, ", ")+".")
	} else {
		lines = append(lines, "Nothing was early, lost, twice or refused.")
	}
	if share := r.CopyShare(); share > 0 && r.Rate == 0 {
		lines = append(lines, fmt.Sprintf("Forwarding was %.2f times as fast as the plain copy.", share))
	}
	if r.Early > 0 {
		lines = append(lines, fmt.Sprintf("The earliest came %d ms before its time by the brokers' clock: are the clocks of the scheduler and the brokers synchronised?", r.EarlyMost))
	}
	if r.RefusedReason != "" {
		lines = append(lines, "The first refused one: "+r.RefusedReason)
	}
	if !r.BrokerStamped {
		lines = append(lines, "The brokers do not stamp records: lateness is to when the scheduler sent, not to the append.")
	}
	if r.ClockBehind > 0 {
		lines = append(lines, fmt.Sprintf("The brokers' clock is at least %d ms behind this machine's.", r.ClockBehind))
	}
	switch {
	case r.Memory.Of != "":
		lines = append(lines, "Memory is that of "+r.Memory.Of+".")
	case r.Memory.Why != "":
		lines = append(lines, "Memory is not known: "+r.Memory.Why+" (--metrics names where a scheduler serves HTTP).")
	}
	return lines
}
