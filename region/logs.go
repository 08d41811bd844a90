package region

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// LogGroup is a log group of CloudWatch Logs.
type LogGroup struct {
	Name          string
	CreatedAt     time.Time
	RetentionDays int // 0 = events do not expire
	Tags          map[string]string
	StoredBytes   int64 `json:"-"`
}

// LogStream is a stream of a log group. The times of its events are milliseconds since 1970; 0 means no events.
type LogStream struct {
	Group, Name                       string
	CreatedAt                         time.Time
	FirstEvent, LastEvent, LastIngest int64
}

// logs is CloudWatch Logs. It keeps events in memory and in the state file, up to maxLogBytes. Beyond that, it drops
// the batch that was ingested first, as if it had expired.
type logs struct {
	*core
	groups  map[string]*LogGroup
	streams map[string]*LogStream // by streamKey
	batches []*logBatch           // by sequence
	bytes   int64                 // of batches
	expired time.Time             // when expire last checked all batches
	last    uint64                // sequence
	most    int64
}

// maxLogBytes bounds the size of all batches together, each counted with batchOverhead for its record.
const (
	maxLogBytes   = 64 << 20
	batchOverhead = 512
)

func newLogs(c *core) *logs {
	return &logs{core: c, groups: map[string]*LogGroup{}, streams: map[string]*LogStream{}, most: maxLogBytes}
}

func streamKey(group, stream string) string { return group + "\x00" + stream }

// Names of groups and streams (CloudWatch Logs API reference, CreateLogGroup and CreateLogStream). The length is
// checked separately: compiling it into the expressions took 10 ms at each start of the program.
var (
	logGroupName  = regexp.MustCompile(`^[.\-_/#A-Za-z0-9]+$`)
	logStreamName = regexp.MustCompile(`^[^:*]+$`)
)

const mostLogName = 512

func isLogName(name string, form *regexp.Regexp) bool {
	return utf8.RuneCountInString(name) <= mostLogName && form.MatchString(name)
}

func invalidLog(format string, args ...any) *APIError {
	return apiError("InvalidParameterException", format, args...)
}

// invalidMember returns the error for a member of a request that violates a constraint.
func invalidMember(value, member, must string) *APIError {
	return invalidLog("1 validation error detected: Value %s at '%s' failed to satisfy constraint: Member must %s", value,
		member, must)
}

func (s *logs) group(name string) (*LogGroup, error) {
	if g := s.groups[name]; g != nil {
		return g, nil
	}
	return nil, apiError("ResourceNotFoundException", "The specified log group does not exist.")
}

func (s *logs) stream(group, name string) (*LogStream, error) {
	if _, err := s.group(group); err != nil {
		return nil, err
	}
	if x := s.streams[streamKey(group, name)]; x != nil {
		return x, nil
	}
	return nil, apiError("ResourceNotFoundException", "The specified log stream does not exist.")
}

// CreateLogGroup creates a group without a retention period.
func (s *logs) CreateLogGroup(name string, tags map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !isLogName(name, logGroupName):
		return invalidMember("'"+name+"'", "logGroupName",
			`satisfy regular expression pattern: [\.\-_/#A-Za-z0-9]+ and have length from 1 to 512`)
	case s.groups[name] != nil:
		return apiError("ResourceAlreadyExistsException", "The specified log group already exists")
	}
	s.groups[name] = &LogGroup{Name: name, CreatedAt: s.clock.Now(), Tags: merged(tags)}
	s.store.put(bucketLogGroups, name, s.groups[name])
	return s.commit()
}

// DeleteLogGroup deletes a group, its streams and their events.
func (s *logs) DeleteLogGroup(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.group(name); err != nil {
		return err
	}
	for key, x := range s.streams {
		if x.Group == name {
			delete(s.streams, key)
			s.store.remove(bucketLogStreams, key)
		}
	}
	s.drop(func(b *logBatch) bool { return b.Group == name })
	delete(s.groups, name)
	s.store.remove(bucketLogGroups, name)
	return s.commit()
}

// LogGroups returns the groups by name.
func (s *logs) LogGroups() []LogGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := map[string]int64{}
	for _, b := range s.batches {
		stored[b.Group] += b.size()
	}
	var out []LogGroup
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		g := *s.groups[name]
		g.StoredBytes = stored[name]
		out = append(out, g)
	}
	return out
}

// retentions are the numbers of days that PutRetentionPolicy accepts (CloudWatch Logs API reference).
var retentions = []int{
	1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
}

// SetLogRetention makes the events of a group expire after a number of days; 0 means never.
func (s *logs) SetLogRetention(name string, days int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.group(name)
	if err != nil {
		return err
	}
	if days != 0 && !slices.Contains(retentions, days) {
		return invalidMember(fmt.Sprintf("'%d'", days), "retentionInDays",
			fmt.Sprintf("satisfy enum value set: %v", retentions))
	}
	g.RetentionDays = days
	s.store.put(bucketLogGroups, name, g)
	s.expired = time.Time{}
	s.expire()
	return s.commit()
}

// CreateLogStream creates a stream without events.
func (s *logs) CreateLogStream(group, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.group(group); err != nil {
		return err
	}
	key := streamKey(group, name)
	switch {
	case !isLogName(name, logStreamName):
		return invalidMember("'"+name+"'", "logStreamName",
			"satisfy regular expression pattern: [^:*]* and have length from 1 to 512")
	case s.streams[key] != nil:
		return apiError("ResourceAlreadyExistsException", "The specified log stream already exists")
	}
	s.streams[key] = &LogStream{Group: group, Name: name, CreatedAt: s.clock.Now()}
	s.store.put(bucketLogStreams, key, s.streams[key])
	return s.commit()
}

// DeleteLogStream deletes a stream and its events.
func (s *logs) DeleteLogStream(group, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.stream(group, name); err != nil {
		return err
	}
	s.drop(func(b *logBatch) bool { return b.Group == group && b.Stream == name })
	delete(s.streams, streamKey(group, name))
	s.store.remove(bucketLogStreams, streamKey(group, name))
	return s.commit()
}

// LogStreams returns the streams of a group whose names begin with a prefix, by name.
func (s *logs) LogStreams(group, prefix string) ([]LogStream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.group(group); err != nil {
		return nil, err
	}
	var out []LogStream
	for _, x := range s.streams {
		if x.Group == group && strings.HasPrefix(x.Name, prefix) {
			out = append(out, *x)
		}
	}
	slices.SortFunc(out, func(a, b LogStream) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// restoreBatch restores a batch. Batches come in order of their keys and so of their sequence.
func (s *logs) restoreBatch(_ string, value []byte) error {
	b := &logBatch{}
	if err := json.Unmarshal(value, b); err != nil {
		return err
	}
	s.batches, s.bytes, s.last = append(s.batches, b), s.bytes+b.size()+batchOverhead, b.Sequence
	return nil
}
