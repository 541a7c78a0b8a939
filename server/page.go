package server

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"sort"

	"google.golang.org/protobuf/proto"
)

// Sizes of pages. A page ends early when its bytes come near what one message
// may hold.
const (
	defaultPage = 1000
	maximumPage = 10000
	pageBytes   = 3 << 20
)

// pageRequest is a list request.
type pageRequest interface {
	GetPageSize() int32
	GetPageToken() string
}

// listing is rows in ascending order of their keys. A page begins behind the key
// that its token names, so that rows which come or go meanwhile neither repeat
// nor hide another.
type listing[M proto.Message] struct {
	scope   string // what the token belongs to: the method and its filters
	rows    int
	key     func(i int) string
	convert func(i int) M
}

// page returns the page that the request asks for and the next page's token,
// empty at the end.
func (l listing[M]) page(req pageRequest) ([]M, string, error) {
	if req.GetPageSize() < 0 {
		return nil, "", badField("page_size", "must not be negative")
	}
	size := int(req.GetPageSize())
	if size == 0 {
		size = defaultPage
	}
	size = min(size, maximumPage)

	start := 0
	if req.GetPageToken() != "" {
		after, ok := openToken(l.scope, req.GetPageToken())
		if !ok {
			return nil, "", badField("page_token", "is not one that this request was given")
		}
		start = sort.Search(l.rows, func(i int) bool { return l.key(i) > after })
	}
	messages := make([]M, 0, min(size, l.rows-start))
	bytes := 0
	for i := start; i < l.rows; i++ {
		m := l.convert(i)
		bytes += proto.Size(m) + 8
		if len(messages) == size || (bytes > pageBytes && len(messages) > 0) {
			return messages, sealToken(l.scope, l.key(i-1)), nil
		}
		messages = append(messages, m)
	}
	return messages, "", nil
}

// A token is a checksum over scope and key, then the key. The checksum is no
// secret: it catches mistakes, and a forged key only chooses where to begin.
func sealToken(scope, key string) string {
	sum := crc32.ChecksumIEEE([]byte(scope + "\x00" + key))
	return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint32(nil, sum), key...))
}

func openToken(scope, token string) (key string, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) < 4 {
		return "", false
	}
	key = string(b[4:])
	return key, binary.BigEndian.Uint32(b) == crc32.ChecksumIEEE([]byte(scope+"\x00"+key))
}

// indexKey is the key of rows whose place is their order.
func indexKey(i int) string { return string(binary.BigEndian.AppendUint32(nil, uint32(i))) }
