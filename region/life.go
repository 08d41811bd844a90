package region

import (
	"encoding/json"
	"fmt"
	"time"
)

// Durations and state reasons in an instance's life, modelled on EC2's behaviour.
const (
	toRunning     = 2 * time.Second // from the launch
	toTerminated  = 2 * time.Second // from the start of the shutdown
	spotNotice    = 2 * time.Minute // from the interruption notice to the interruption
	reasonUser    = "Client.UserInitiatedShutdown"
	reasonSpot    = "Server.SpotInstanceTermination"
	reasonUserMsg = "Client.UserInitiatedShutdown: User initiated shutdown"
	reasonSpotMsg = "Server.SpotInstanceTermination: Spot instance termination"
)

// step is a timed transition of an instance:
//
//	state          due at                     step           then
//	pending        RunningAt                  stepRun        running
//	pending        RunningAt, if CannotStart  stepFail       shutting-down
//	active         BootAt, unless Booted      stepBoot       Booted
//	active (spot)  NoticeAt                   stepNotice     InterruptAt is two minutes later
//	active (spot)  InterruptAt                stepInterrupt  shutting-down
//	shutting-down  StoppingAt + 2 s           stepEnd        terminated
//
// All of these times are part of the saved record, so a restart resumes an instance where it was.
type step int

const (
	stepNone step = iota
	stepRun
	stepFail
	stepBoot
	stepNotice
	stepInterrupt
	stepEnd
)

// next returns the instance's next step and when it is due. Steps due at the same time come in the order above.
func (i *Instance) next() (step, time.Time) {
	if i.State == ShuttingDown {
		return stepEnd, i.StoppingAt.Add(toTerminated)
	}
	first, due := stepNone, time.Time{}
	consider := func(s step, at time.Time) {
		if !at.IsZero() && (first == stepNone || at.Before(due)) {
			first, due = s, at
		}
	}
	if !i.active() {
		return first, due
	}
	if i.CannotStart {
		return stepFail, i.RunningAt
	}
	if i.State == Pending {
		consider(stepRun, i.RunningAt)
	}
	if !i.Booted {
		consider(stepBoot, i.BootAt)
	}
	if i.InterruptAt.IsZero() {
		consider(stepNotice, i.NoticeAt)
	}
	consider(stepInterrupt, i.InterruptAt)
	return first, due
}

// arm sets the timer of an instance's next step.
func (s *instances) arm(i *instance) {
	if i.timer != nil {
		i.timer.Stop()
		i.timer = nil
	}
	next, at := i.next()
	if next == stepNone || s.closed {
		return
	}
	i.timer = s.clock.AfterFunc(at.Sub(s.clock.Now()), func() { s.wake(i) })
}

func (s *instances) stopTimers() {
	for _, i := range s.order {
		if i.timer != nil {
			i.timer.Stop()
		}
	}
}

// wake is called when an instance's next step is due.
func (s *instances) wake(i *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[i.ID] != i || s.closed {
		return
	}
	s.catchUp(i)
	s.commitBackground("instance", i.ID)
}

// catchUp performs every due step of an instance and sets the timer of the next one.
func (s *instances) catchUp(i *instance) {
	for next, at := i.next(); next != stepNone && !at.After(s.clock.Now()); next, at = i.next() {
		s.advance(i, next, at)
	}
	s.arm(i)
}

// advance performs one step. stepRun and stepBoot are not saved: they follow from saved times.
func (s *instances) advance(i *instance, next step, at time.Time) {
	switch next {
	case stepRun:
		i.State = Running
		s.publish(EventRunning, i)
	case stepFail:
		s.shutDown(i, at, reasonKey, reasonKeyMsg)
	case stepBoot:
		i.Booted = true
		s.publish(EventBooted, i)
	case stepNotice:
		s.recommendRebalance(i, at)
		s.announce(i, at)
	case stepInterrupt:
		s.shutDown(i, at, reasonSpot, reasonSpotMsg)
	case stepEnd:
		i.State, i.TerminatedAt = Terminated, at
		s.interfaces.releaseAll(i)
		s.save(i)
		s.notifyState(i)
		s.publish(EventTerminated, i)
	}
}

// announce gives notice of a spot interruption. The caller calls arm.
func (s *instances) announce(i *instance, at time.Time) {
	i.InterruptAt = at.Add(spotNotice)
	s.save(i)
	s.changed(i)
	s.notify("EC2 Spot Instance Interruption Warning", i, map[string]string{"instance-action": "terminate"})
}

// shutDown starts the shutdown of an instance. Its capacity is freed at once, its address on termination. The caller
// calls arm.
func (s *instances) shutDown(i *instance, at time.Time, code, message string) {
	if !i.active() {
		return
	}
	i.State, i.StoppingAt, i.ReasonCode, i.ReasonMessage = ShuttingDown, at, code, message
	s.reserved.leave(&i.Instance)
	s.ending(i)
	s.save(i)
	s.notifyState(i)
	s.publish(EventShuttingDown, i)
}

// notify sends an EventBridge event about an instance to every queue.
func (s *instances) notify(detailType string, i *instance, detail map[string]string) {
	detail["instance-id"] = i.ID
	body, err := json.Marshal(map[string]any{
		"version": "0", "id": s.newID(), "source": "aws.ec2", "detail-type": detailType, "account": AccountID,
		"region": s.config.Name, "time": s.clock.Now().UTC().Format(time.RFC3339),
		"resources": []string{fmt.Sprintf("arn:aws:ec2:%s:%s:instance/%s", s.config.Name, AccountID, i.ID)},
		"detail":    detail,
	})
	if err != nil { // strings always have a JSON form
		return
	}
	s.queues.sendAll(string(body))
}

// recommendRebalance tells that a spot instance is at risk of an interruption.
func (s *instances) recommendRebalance(i *instance, at time.Time) {
	i.RebalanceAt = at
	s.save(i)
	s.changed(i)
	s.notify("EC2 Instance Rebalance Recommendation", i, map[string]string{})
}

func (s *instances) notifyState(i *instance) {
	s.notify("EC2 Instance State-change Notification", i, map[string]string{"state": string(i.State)})
}
