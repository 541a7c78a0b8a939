package inventory

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An API server that does not stream what there is sends it as one list, whose
// objects take twenty times the memory of what is used of them. So a list is read
// object by object.

// item is an object's name and what is used of it, in the place of the object.
type item struct {
	name string
	fact fact
}

// GetObjectKind and DeepCopyObject make it an object for the reflector.
func (item) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (i item) DeepCopyObject() runtime.Object { return i }

// itemList is a list of items.
type itemList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []item
}

// DeepCopyObject copies the list. Facts do not change.
func (l *itemList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = append([]item(nil), l.Items...)
	return &out
}

// magic begins what the API server sends as protobuf (k8s.io/apimachinery
// pkg/runtime/serializer/protobuf): an envelope whose field 2 is the list.
const magic = "k8s\x00"

// maxObject is how long one object may be, in bytes: etcd keeps none of a tenth of
// it.
const maxObject = 16 << 20

// The fields of the envelope and of a list.
const (
	envelopeRaw = 2
	listMeta    = 1
	listItems   = 2
)

// list reads a list of the resource.
func (r *reader) list(ctx context.Context, o *metav1.ListOptions) (runtime.Object, error) {
	if !builtIn[r.versions[0]] {
		list := r.empty()
		return list, r.get(o).Do(ctx).Into(list)
	}
	body, err := r.get(o).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return r.readList(body)
}

// readList reads a list as the API server sends it, whole or not at all.
func (r *reader) readList(body io.Reader) (runtime.Object, error) {
	in := bufio.NewReader(body)
	if begin, err := in.Peek(len(magic)); err != nil || string(begin) != magic {
		return r.listOfJSON(in)
	}
	_, _ = in.Discard(len(magic)) // they are there
	list := new(itemList)
	err := eachField(in, func(field uint64, value *io.LimitedReader) error {
		if field != envelopeRaw {
			return nil
		}
		return eachField(bufio.NewReader(value), func(field uint64, value *io.LimitedReader) error { return r.listField(list, field, value) })
	})
	if err == nil && list.ResourceVersion == "" {
		err = io.ErrUnexpectedEOF // it ends before the list
	}
	if err != nil {
		return nil, fmt.Errorf("read list: %w", err)
	}
	return list, nil
}

// listOfJSON reads a list that is no protobuf.
func (r *reader) listOfJSON(in io.Reader) (runtime.Object, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	list := r.empty()
	if err := runtime.DecodeInto(decoder, text, list); err != nil {
		return nil, fmt.Errorf("read list: %w", err)
	}
	// Nothing at all decodes as a list of nothing.
	if m, err := meta.ListAccessor(list); err != nil || m.GetResourceVersion() == "" {
		return nil, errors.New("read list: it has no version")
	}
	return list, nil
}

// listField takes in one field of a list.
func (r *reader) listField(list *itemList, field uint64, value *io.LimitedReader) error {
	if field != listMeta && field != listItems {
		return nil
	}
	if value.N > maxObject {
		return fmt.Errorf("an object of %d bytes", value.N)
	}
	text := make([]byte, value.N)
	if _, err := io.ReadFull(value, text); err != nil {
		return unexpected(err)
	}
	if field == listMeta {
		return list.ListMeta.Unmarshal(text)
	}
	object := r.object.DeepCopyObject()
	if err := object.(interface{ Unmarshal([]byte) error }).Unmarshal(text); err != nil {
		return err
	}
	i, err := r.item(object)
	list.Items = append(list.Items, i)
	return err
}

// eachField calls do for each field of a protobuf message that is of variable
// length, up to the end. What do leaves of it is passed over, as are other fields.
func eachField(in *bufio.Reader, do func(field uint64, value *io.LimitedReader) error) error {
	const varint, fixed64, bytes, fixed32 = 0, 1, 2, 5
	for {
		tag, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		value := &io.LimitedReader{R: in}
		switch tag & 7 {
		case varint:
			_, err = binary.ReadUvarint(in)
		case fixed64:
			value.N = 8
		case fixed32:
			value.N = 4
		case bytes:
			var n uint64
			if n, err = binary.ReadUvarint(in); err == nil && n > 1<<40 {
				err = fmt.Errorf("a field of %d bytes", n)
			}
			value.N = int64(n)
			if err == nil {
				err = do(tag>>3, value)
			}
		default:
			err = fmt.Errorf("a field of type %d", tag&7)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, value)
		}
		if err == nil && value.N > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return unexpected(err)
		}
	}
}

// unexpected returns an error of reading where there has to be more.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
