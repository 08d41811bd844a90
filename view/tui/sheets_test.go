package tui

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/nodeless/nodeless/view/objects"
	"github.com/nodeless/nodeless/view/viewtest"
)

// readable returns an App of a cluster whose objects can be read, and the list of requests.
func readable(t *testing.T) (a *App, asked *[]string) {
	t.Helper()
	a = app(t, shop(t), 120, 30, false)
	asked = &[]string{}
	a.o.Object = func(_ context.Context, k objects.Kind, namespace, name string) (objects.Object, error) {
		*asked = append(*asked, strings.TrimPrefix(k.Kind+" "+namespace+"/"+name, "/"))
		if name == "metal-1" {
			return objects.Object{}, errors.New("nodes \"metal-1\" is forbidden")
		}
		return objects.Object{
			YAML: "kind: " + k.Kind + "\nmetadata:\n  name: " + name + "\n  annotations: {evil: \"\x1b[2J\"}\n",
			Events: []objects.Event{{
				Last: viewtest.Now.Add(-42 * time.Second).Unix(), Type: "Warning", Reason: "FailedScheduling",
				Message: "nothing fits", Count: 3,
			}},
		}, nil
	}
	a.o.Logs = func(_ context.Context, namespace, pod string) (string, error) {
		*asked = append(*asked, "logs "+namespace+"/"+pod)
		var all strings.Builder
		for i := range 100 {
			fmt.Fprintf(&all, "line %d of %s, read %d\n", i, pod, len(*asked))
		}
		return all.String(), nil
	}
	a.Frame()
	return a, asked
}

// What k9s' keys show of an object: events, YAML, and logs, which are followed.
func TestObjectsAreDescribedAsInK9s(t *testing.T) {
	a, asked := readable(t)
	press(a, "3", "/train", "enter", "d")
	sees(t, a, "pod     shop/train-0", "events  42s ago Warning FailedScheduling: nothing fits (3 times)")
	press(a, "esc", "y")
	sees(t, a, "YAML of Pod shop/train-0", "kind: Pod", `evil: "\x1b[2J"`)
	press(a, "esc", "l")
	sees(t, a, "logs of Pod shop/train-0", "line 99 of train-0")
	a.o.Now = func() time.Time { return viewtest.Now.Add(logsEvery) }
	before := len(*asked)
	a.Update(a.readAgain()())
	sees(t, a, fmt.Sprintf("line 99 of train-0, read %d", before+1))
	press(a, "up")
	a.o.Now = func() time.Time { return viewtest.Now.Add(2 * logsEvery) }
	a.Update(a.readAgain()())
	if frame := a.Frame(); strings.Contains(frame, "line 99 ") {
		t.Errorf("the end is shown to somebody who has scrolled up:\n%s", frame)
	}
	press(a, "esc", "1", "/x7k2p", "enter", "y")
	sees(t, a, "YAML of NodeClaim general-x7k2p")
	press(a, "esc", "l")
	sees(t, a, "select a pod, or a node that is a pod's microVM")
	press(a, "/", "ctrl+u", "fargate", "enter", "l")
	sees(t, a, "logs of Pod shop/search-0")
	press(a, "esc", "/", "ctrl+u", "metal", "enter", "y")
	sees(t, a, `nodes "metal-1" is forbidden`)
	press(a, "esc", "2", "home", "y")
	sees(t, a, "YAML of NodePool batch")
	press(a, "esc", "4", "y")
	sees(t, a, "select a row that has YAML")
}

// A response that arrives after the next request is dropped.
func TestALateAnswerIsDropped(t *testing.T) {
	a, _ := readable(t)
	press(a, "end")
	late := a.open(yamlSheet)
	press(a, "esc", "home", "y")
	frame := a.Frame()
	if a.Update(late()); a.Frame() != frame {
		t.Errorf("a late answer is shown:\n%s", a.Frame())
	}
}

func TestCommandsAreTyped(t *testing.T) {
	a := app(t, shop(t), 120, 30, false)
	press(a, ":pools", "enter")
	sees(t, a, "[2 pools")
	press(a, ":sav")
	sees(t, a, ":sav█ings")
	press(a, "tab", "enter")
	sees(t, a, "[5 savings]")
	press(a, ":no", "enter")
	sees(t, a, "[1 nodes")
	press(a, ":po", "esc")
	sees(t, a, "[1 nodes")
	press(a, ":secrets", "enter")
	sees(t, a, "there is no command :secrets; commands: nodes, pools, pending, decisions, savings, costs, help, quit, ctx")
	press(a, "down")
	if strings.Contains(a.Frame(), "secrets") {
		t.Error("what was wrong stays said")
	}
	a.o.Contexts = func() []string { return []string{"Lab", "nodeless-demo"} }
	press(a, ":ctx", "enter")
	sees(t, a, "contexts of the kubeconfig: Lab, nodeless-demo")
	press(a, ":ctx prod", "enter")
	sees(t, a, "there is no context prod; contexts of the kubeconfig: Lab, nodeless-demo")
	if !press(a, ":ctx nodeless-", "tab", "enter") || a.Next() != "nodeless-demo" {
		t.Errorf("the next context is %q", a.Next())
	}
	if !press(a, ":q", "enter") {
		t.Error(":q did not leave the program")
	}
}

func TestTheMouseChooses(t *testing.T) {
	a := app(t, shop(t), 120, 30, false)
	at := func(text string) tea.MouseClickMsg {
		for y, l := range strings.Split(a.Frame(), "\n") {
			if x := strings.Index(l, text); x >= 0 {
				return tea.MouseClickMsg{X: x, Y: y, Button: tea.MouseLeft}
			}
		}
		t.Fatalf("%s is not seen", text)
		return tea.MouseClickMsg{}
	}
	a.Update(at("2 pools"))
	sees(t, a, "[2 pools")
	a.Update(at("1 nodes"))
	a.Update(at("metal-1"))
	sees(t, a, ">metal-1")
	a.Update(at("metal-1"))
	sees(t, a, "pods of metal-1")
	press(a, "esc", "home")
	a.Update(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	if w := a.state().window; w.Index != wheelRows {
		t.Errorf("a notch of the wheel leads to row %d", w.Index)
	}
	if press(a, "m"); a.View().MouseMode != tea.MouseModeNone {
		t.Error("m leaves the mouse to nobody")
	}
}
