package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"delay-scheduler/app"
)

// listMost is how many records a table lists singly.
const listMost = 20

func printSend(w io.Writer, r app.SendResult, o app.SendOptions, output string) error {
	switch {
	case output == "json":
		return printJSON(w, r)
	case !o.Wait:
		return printWritten(w, r)
	}
	if len(r.Records) <= listMost {
		if err := printTable(w, []string{"WRITTEN TO", "DUE", "CAME OUT AT", "LATE", "WHERE"}, arrivalRows(r.Records)); err != nil {
			return err
		}
	}
	if r.Written > 1 {
		if len(r.Records) <= listMost {
			fmt.Fprintln(w)
		}
		if err := printArrivals(w, r); err != nil {
			return err
		}
	}
	if r.Missing > 0 {
		fmt.Fprintf(w, "\n%d came out neither in %s nor in the dead-letter topic within %v of being due.\n", r.Missing, r.Target, o.Timeout)
		fmt.Fprintln(w, `Is a scheduler running that reads the topic ("scheduler health"), and how does it stand ("scheduler offsets show")?`)
		if r.Trouble != "" {
			fmt.Fprintln(w, "The target could not be read:", shown(r.Trouble))
		}
	}
	return nil
}

// printWritten says where records were written that nobody waits for.
func printWritten(w io.Writer, r app.SendResult) error {
	if r.Written > listMost {
		_, err := fmt.Fprintf(w, "%d records written to %s in %s\n", r.Written, r.Topic, round(r.Took))
		return err
	}
	var rows [][]string
	for _, s := range r.Records {
		rows = append(rows, []string{s.ID, dueCell(s.Due), relativeCell(s.Due)})
	}
	return printTable(w, []string{"DELAY-ID", "DUE", "FROM NOW"}, rows)
}

func arrivalRows(records []app.Sent) (rows [][]string) {
	for _, s := range records {
		row := []string{placeOf(s), dueCell(s.Due), "-", "-", "-"}
		if a := s.Arrival; a != nil {
			row[2] = stamp(a.At)
			row[4] = fmt.Sprintf("%s/%d/%d", a.Topic, a.Partition, a.Offset)
			if a.Refused != nil {
				row[4] += ", " + a.Refused.Reason + ": " + a.Refused.Detail
			} else {
				row[3] = late(a.Late)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// placeOf is the delay-id without its timestamp.
func placeOf(s app.Sent) string {
	return s.ID[:strings.LastIndexByte(s.ID, '/')]
}

func printArrivals(w io.Writer, r app.SendResult) error {
	head := []string{"WRITTEN", "CAME OUT", "DEAD LETTERS", "MISSING", "EARLY", "DUPLICATES", "P50 LATE", "P99 LATE", "MAX LATE"}
	row := []string{
		strconv.Itoa(r.Written), strconv.Itoa(r.Arrived), strconv.Itoa(r.DeadLettered), strconv.Itoa(r.Missing),
		strconv.Itoa(r.Early), strconv.Itoa(r.Duplicates), late(r.P50), late(r.P99), late(r.Max),
	}
	return printTable(w, head, [][]string{row})
}

func dueCell(due time.Time) string {
	if due.IsZero() {
		return "-"
	}
	return stamp(due)
}

func relativeCell(due time.Time) string {
	if due.IsZero() {
		return ""
	}
	return relative(time.Until(due))
}

// late writes a lateness in whole milliseconds; a negative one is early.
func late(d time.Duration) string {
	if d >= 10*time.Second || d <= -10*time.Second {
		return round(d)
	}
	return milliseconds(d)
}
