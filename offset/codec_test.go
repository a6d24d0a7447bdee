package offset

import (
	"hash/fnv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is stored in a group outlives the process: these must decode for ever.
var golden = map[string]*Set{
	"ds1.AQIDAAAAAAAAAAAAAAAAAAIAAAAAAAAAAQAAAAAAAABNAIGW-L8": {
		TopicID: TopicID{1, 2, 3}, Offset: 77, Nonce: 1, Fingerprint: 2,
	},
	"ds1.AQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADoBwQMAOgHgJDFw4NnwD4BBQAAAAAAAAAAwD4JAAAAAAAAAPKPxcODZ8EPAugH6AcR6Aew8P___x8BBLDwP___v___DwTcC_QDgPC6vPyY____AYAZLLOycw": {
		TopicID: TopicID{1, 2, 3}, Offset: 1000, segments: []segment{
			{from: 1000, to: 2000, horizon: Key{1_770_000_000_000, 5000}, lanes: []laneHorizon{
				{5, Key{1_770_000_000_000, 5000}}, {9, Key{7, 7}},
			}},
			{from: 2000, to: 3000, horizon: noKey, whole: true},
			{from: 2000, to: 1 << 40, horizon: noKey, pending: []span{{1 << 20, 1 << 39}}, stale: true},
			{from: 2500, to: 3000, horizon: Key{Refused, 2600}},
		},
	},
}

func TestLaneOfIsFNV(t *testing.T) {
	for _, s := range []string{"", "a", "orders", strings.Repeat("x", 249)} {
		h := fnv.New64a()
		_, _ = h.Write([]byte(s))
		require.Equal(t, h.Sum64(), LaneOf(s))
	}
}

func TestTopicIDIsPrintedAsKafkaDoes(t *testing.T) {
	require.Equal(t, "AQIDAAAAAAAAAAAAAAAAAA", TopicID{1, 2, 3}.String())
}

func TestDecodeSaysWhatIsWrong(t *testing.T) {
	s := sampleSets()[4]
	m, _ := s.encode(4096)
	other := *s
	other.TopicID = TopicID{9}
	elsewhere, _ := other.encode(4096)
	for name, c := range map[string]struct {
		metadata string
		offset   int64
		want     error
	}{
		"none":            {"", 1000, ErrNone},
		"a timestamp":     {"2026-01-01T00:00:00Z", 1000, ErrForeign},
		"another program": {"AQID.abc", 1000, ErrForeign},
		"almost ours":     {"ds.AAAA", 1000, ErrForeign},
		"ours, no number": {"dsx.AAAA", 1000, ErrForeign},
		"next version":    {"ds2." + m[4:], 1000, ErrVersion},
		"prefix only":     {"ds1.", 1000, ErrDamaged},
		"cut off":         {m[:len(m)-1], 1000, ErrDamaged},
		"cut in half":     {m[:len(m)/2], 1000, ErrDamaged},
		"appended to":     {m + "AAAA", 1000, ErrDamaged},
		"with a newline":  {m[:20] + "\n" + m[20:], 1000, ErrDamaged},
		"not base64":      {m[:20] + "+" + m[21:], 1000, ErrDamaged},
		"other topic":     {elsewhere, 1000, ErrOtherTopic},
		"other offset":    {m, 1001, ErrOtherOffset},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := Decode(c.metadata, s.TopicID, c.offset)
			require.ErrorIs(t, err, c.want)
			require.Nil(t, set)
		})
	}
}

func TestEveryChangedCharacterIsNoticed(t *testing.T) {
	for _, s := range sampleSets() {
		m, _ := s.encode(1 << 20)
		for i := range m {
			for _, c := range []byte{'A', 'b', '_', '.'} {
				if m[i] != c {
					_, err := Decode(m[:i]+string(c)+m[i+1:], s.TopicID, s.Offset)
					require.Error(t, err)
				}
			}
		}
	}
}

func TestMetadataIsASCII(t *testing.T) {
	for _, s := range sampleSets() {
		m, _ := s.encode(1 << 20)
		require.Regexp(t, `^ds1\.[A-Za-z0-9_-]+$`, m)
	}
}

func TestInspectShowsWhatIsWritten(t *testing.T) {
	s := sampleSets()[4]
	m, _ := s.encode(4096)
	info, err := Inspect(m)
	require.NoError(t, err)
	require.Equal(t, 1, info.Version)
	require.Equal(t, s.TopicID, info.TopicID)
	require.Equal(t, int64(1000), info.Offset)
	require.Equal(t, len(m), info.Characters)
	require.Len(t, info.Segments, 4)
	require.Equal(t, &Key{1_770_000_000_000, 5000}, info.Segments[0].Horizon)
	require.Equal(t, []LaneInfo{{5, Key{1_770_000_000_000, 5000}}, {9, Key{7, 7}}}, info.Segments[0].Lanes)
	require.True(t, info.Segments[1].Whole)
	require.Nil(t, info.Segments[1].Horizon)
	require.True(t, info.Segments[2].Stale)
	require.Equal(t, int64(1<<39-1<<20), info.Segments[2].Pending)
	require.Equal(t, "runs 1", info.Segments[2].Kinds)
	size := 0
	for _, seg := range info.Segments {
		size += seg.Bytes
	}
	require.Less(t, size, info.Bytes)
	_, err = Inspect("somebody else's")
	require.ErrorIs(t, err, ErrForeign)
}

func TestEachKindIsUsedWhereItIsTheSmallest(t *testing.T) {
	var runsList, strewn, dense []span
	for i := range int64(200) {
		runsList = append(runsList, span{i * 10_000, i*10_000 + 5000})
		strewn = append(strewn, span{i*i*10 + i, i*i*10 + i + 1})
		dense = append(dense, span{i * 3, i*3 + 1 + i*i%2})
	}
	for kind, list := range map[blockKind][]span{runs: runsList, sparse: strewn, bitset: dense} {
		s := &Set{segments: []segment{{to: 1 << 30, horizon: noKey, pending: list}}}
		m, _ := s.encode(1 << 20)
		info, err := Inspect(m)
		require.NoError(t, err)
		require.Equal(t, kind.String()+" 1", info.Segments[0].Kinds)
	}
	// A dense stretch, a run of a million and single ones far apart: each in its kind.
	mixed := append([]span{}, dense...)
	mixed = append(mixed, span{10_000, 1_010_000})
	for _, sp := range strewn {
		mixed = append(mixed, span{sp.from*100 + 2_000_000, sp.from*100 + 2_000_001})
	}
	s := &Set{segments: []segment{{to: 1 << 30, horizon: noKey, pending: mixed}}}
	m, _ := s.encode(1 << 20)
	info, err := Inspect(m)
	require.NoError(t, err)
	require.Regexp(t, `^runs \d, bitset 1, sparse 1$`, info.Segments[0].Kinds)
}

func TestListThatCannotFitIsCutBeforeItIsPlanned(t *testing.T) {
	var list []span
	for i := range int64(1000) {
		list = append(list, span{2 * i, 2*i + 1})
	}
	p := newSetPlan(&Set{segments: []segment{{to: 5000, pending: list}}}, 60)
	require.Equal(t, int64(2*4*60), p.cut)
	require.Len(t, p.segments[0].pending.spans, 4*60)
}

func TestGoldenMetadataStillDecodes(t *testing.T) {
	for m, want := range golden {
		got, err := Decode(m, want.TopicID, want.Offset)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
