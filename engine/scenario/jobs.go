package scenario

import (
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// job reads job=5m|10m|12m: how long a Job's pod has run, then how long earlier ones ran.
func (p *parser) job(text string) (*model.JobRun, error) {
	var j model.JobRun
	for i, one := range strings.Split(text, "|") {
		d, err := time.ParseDuration(one)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			j.Started = p.s.Now.Add(-d)
		} else {
			j.Past = append(j.Past, d)
		}
	}
	return &j, nil
}

// jobEnd reads when the deadline of the Job's pod that was read last is over.
func (p *parser) jobEnd(j *model.JobRun, text string) (*model.JobRun, error) {
	if j == nil {
		j = &model.JobRun{}
	}
	in, err := time.ParseDuration(text)
	j.EndsBy = p.s.Now.Add(in)
	return j, err
}

func (w *writer) jobItem(d *declaration, j *model.JobRun) {
	if j == nil {
		return
	}
	text := w.s.Now.Sub(j.Started).String()
	for _, past := range j.Past {
		text += "|" + past.String()
	}
	d.word("job="+text, true)
	if !j.EndsBy.IsZero() {
		d.word("job-ends="+j.EndsBy.Sub(w.s.Now).String(), true)
	}
}
