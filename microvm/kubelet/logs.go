package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/util/flushwriter"
	cri "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crilogs "k8s.io/cri-client/pkg/logs"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/apis/core/v1/validation"
)

// logs serves /containerLogs, which kubectl logs reads.
func (s *Server) logs(w http.ResponseWriter, r *http.Request, pod *corev1.Pod) {
	var o corev1.PodLogOptions
	if err := legacyscheme.ParameterCodec.DecodeParameters(r.URL.Query(), corev1.SchemeGroupVersion, &o); err != nil {
		http.Error(w, "cannot read the query: "+err.Error(), http.StatusBadRequest)
		return
	}
	if errs := validation.ValidatePodLogOptions(&o); len(errs) > 0 {
		http.Error(w, errs.ToAggregate().Error(), http.StatusUnprocessableEntity)
		return
	}
	container := r.PathValue("container")
	if err := hasLog(pod, container, o.Previous); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	file, err := s.backend.Log(pod, container, o.Previous)
	if err != nil {
		http.Error(w, fmt.Sprintf("logs of container %q in pod %q: %v", container, pod.Namespace+"/"+pod.Name, err),
			http.StatusBadRequest)
		return
	}
	out := &body{to: flushwriter.Wrap(w)}
	stdout, stderr := io.Writer(out), io.Writer(out)
	if o.Stream != nil && *o.Stream == corev1.LogStreamStdout {
		stderr = nil
	} else if o.Stream != nil && *o.Stream == corev1.LogStreamStderr {
		stdout = nil
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if o.Follow {
		_, _ = flushwriter.Wrap(w).Write(nil) // tells the client at once that it follows
	}
	err = crilogs.ReadLogs(r.Context(), file.Path, container, readOptions(&o, time.Now()), state{running: file.Running},
		stdout, stderr)
	if err == nil || r.Context().Err() != nil {
		return
	}
	failure := fmt.Sprintf("logs of container %q in pod %q: %v", container, pod.Namespace+"/"+pod.Name, err)
	if o.Follow || out.begun {
		_, _ = fmt.Fprintln(out, failure) // as a kubelet does: the status code has been sent
		return
	}
	http.Error(w, failure, http.StatusInternalServerError)
}

func readOptions(o *corev1.PodLogOptions, now time.Time) *crilogs.LogOptions {
	read := &crilogs.LogOptions{
		TailLines: o.TailLines, LimitBytes: o.LimitBytes, Follow: o.Follow, Timestamp: o.Timestamps,
	}
	if o.SinceSeconds != nil {
		read.Since = now.Add(-time.Duration(*o.SinceSeconds) * time.Second)
	}
	if o.SinceTime != nil {
		read.Since = o.SinceTime.Time
	}
	return read
}

// body records whether a response has begun: after that, no status code can be sent.
type body struct {
	to    io.Writer
	begun bool
}

func (b *body) Write(p []byte) (int, error) {
	b.begun = true
	return b.to.Write(p)
}

// state implements the only method of a container runtime that crilogs.ReadLogs calls. The other methods are nil.
type state struct {
	cri.RuntimeService
	running func() bool
}

func (s state) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	status := &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_EXITED}
	if s.running() {
		status.State = runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	return &runtimeapi.ContainerStatusResponse{Status: status}, nil
}

// hasLog returns, in the kubelet's words, why a container has no log yet.
func hasLog(pod *corev1.Pod, container string, previous bool) error {
	status, found := podutil.GetContainerStatus(slices.Concat(pod.Status.InitContainerStatuses,
		pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses), container)
	last, waiting := status.LastTerminationState.Terminated, status.State.Waiting
	switch {
	case !found:
		return fmt.Errorf("container %q in pod %q is not available", container, pod.Name)
	case previous && (last == nil || last.ContainerID == ""):
		return fmt.Errorf("previous terminated container %q in pod %q not found", container, pod.Name)
	case previous || status.State.Running != nil || status.State.Terminated != nil ||
		last != nil && last.ContainerID != "":
		return nil
	case waiting == nil:
		return fmt.Errorf("container %q in pod %q is waiting to start - no logs yet", container, pod.Name)
	}
	words := map[string]string{
		"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image",
	}
	return fmt.Errorf("container %q in pod %q is waiting to start: %s", container, pod.Name,
		cmp.Or(words[waiting.Reason], waiting.Reason))
}
