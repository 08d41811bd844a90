package apisim

import (
	"bytes"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// Protobuf makes the server answer watches of built-in kinds in protobuf if the client prefers it, as the real server
// does. The default is JSON, one event per line.
func (s *Server) Protobuf() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.protobuf = true
}

// wantsProtobuf reports whether to answer a watch in protobuf.
func (s *Server) wantsProtobuf(r *request) bool {
	return s.protobuf && !r.kind.custom &&
		strings.HasPrefix(r.Header.Get("Accept"), runtime.ContentTypeProtobuf)
}

var protoSerializer = protobuf.NewSerializer(clientgoscheme.Scheme, clientgoscheme.Scheme)

// encoded converts an object of the kind from JSON to protobuf.
func (k *kind) encoded(text []byte) []byte {
	typed, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(text, &k.GroupVersionKind, nil)
	if err != nil {
		panic(err) // cannot happen: the kind is built in
	}
	var out bytes.Buffer
	if err := protoSerializer.Encode(typed, &out); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// sayProto queues an event for the watcher: a length, then a WatchEvent.
func (w *stream) sayProto(t watch.EventType, object []byte) {
	e := metav1.WatchEvent{Type: string(t), Object: runtime.RawExtension{Raw: w.t.kind.encoded(object)}}
	data, err := e.Marshal()
	if err != nil {
		panic(err)
	}
	_, _ = protobuf.LengthDelimitedFramer.NewFrameWriter(&w.pending).Write(data)
}

// watching sets the content type of a watch's response.
func (w *stream) watching(resp *http.Response) {
	if w.proto {
		resp.Header.Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
	}
}
