package damagetest

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/storage/postgres"
	"github.com/feedctl/feedctl/storage/s3"
)

// farStep is the distance between two bits that are changed in an object of a remote store.
const farStep = 333

// TestS3 changes, truncates and exchanges the objects of a bucket, and changes their
// metadata.
func TestS3(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	u, err := url.Parse(server.URL(""))
	check(t, err)
	config, err := s3.ParseURL(u)
	check(t, err)
	config.Attempts = 1
	store, err := s3.Connect(t.Context(), config)
	check(t, err)
	defer store.Close()
	fill(t, store)
	data := truth(t, store)
	files := make(map[string][]byte)
	check(t, filepath.WalkDir(server.Dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(server.Dir, path)
		if err != nil || !d.Type().IsRegular() || !strings.HasPrefix(name, "feeds/") && !strings.HasPrefix(name, "snapshots/") {
			return err
		}
		files[name], err = os.ReadFile(path)
		return err
	}))
	write := func(name string, content []byte) {
		check(t, os.WriteFile(filepath.Join(server.Dir, name), content, 0o600))
	}
	for name, content := range files {
		damages := map[string][]byte{"cut": content[:len(content)/2], "emptied": nil}
		for _, bit := range sample(len(content)*8, farStep) {
			damages[fmt.Sprintf("bit %d", bit)] = flipped(content, bit)
		}
		for how, damaged := range damages {
			write(name, damaged)
			inspect(t, store, name+" "+how, name, data, false)
		}
		write(name, content)
		path := filepath.Join(server.Dir, name)
		for _, attribute := range attributes(t, path) {
			value := make([]byte, 64<<10)
			n, err := unix.Getxattr(path, attribute, value)
			check(t, err)
			value = value[:n]
			for _, bit := range sample(n*8, farStep) {
				check(t, unix.Setxattr(path, attribute, flipped(value, bit), 0))
				inspect(t, store, fmt.Sprintf("%s %s bit %d", name, attribute, bit), name, data, false)
			}
			check(t, unix.Setxattr(path, attribute, value, 0))
		}
	}
}

// attributes returns the names of the extended attributes that the server stores with an object.
func attributes(t *testing.T, path string) []string {
	t.Helper()
	names := make([]byte, 4<<10)
	n, err := unix.Listxattr(path, names)
	check(t, err)
	var own []string
	for name := range strings.SplitSeq(strings.TrimRight(string(names[:n]), "\x00"), "\x00") {
		if strings.HasPrefix(name, "user.") {
			own = append(own, name)
		}
	}
	return own
}

// TestPostgres changes the contents of the tables of a database.
func TestPostgres(t *testing.T) {
	t.Parallel()
	location := pgtest.Start(t).URL("damage")
	u, err := url.Parse(location)
	check(t, err)
	store, err := postgres.Create(t.Context(), u)
	check(t, err)
	defer store.Close()
	fill(t, store)
	data := truth(t, store)
	conn, err := pgx.Connect(t.Context(), location)
	check(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), "SELECT key, octet_length(data), "+
		"coalesce((SELECT octet_length(bytes) FROM feedctl.chunks c WHERE c.body = o.body AND position = 0), 0) FROM feedctl.objects o")
	check(t, err)
	type object struct {
		key        string
		meta, body int
	}
	objects, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o object, err error) {
		return o, row.Scan(&o.key, &o.meta, &o.body)
	})
	check(t, err)
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql, args...)
		check(t, err)
	}
	const (
		ofObject = "UPDATE feedctl.objects SET %s WHERE key = $1"
		ofBody   = "UPDATE feedctl.chunks SET bytes = set_bit(bytes, $2, 1 - get_bit(bytes, $2)) " +
			"WHERE body = (SELECT body FROM feedctl.objects WHERE key = $1) AND position = 0"
		ofMeta = "UPDATE feedctl.objects SET data = set_bit(data, $2, 1 - get_bit(data, $2)) WHERE key = $1"
	)
	for _, o := range objects {
		for _, bit := range sample(o.meta*8, farStep) {
			exec(ofMeta, o.key, bit)
			inspect(t, store, fmt.Sprintf("metadata of %s, bit %d", o.key, bit), o.key, data, false)
			exec(ofMeta, o.key, bit)
		}
		for _, bit := range sample(o.body*8, farStep) {
			exec(ofBody, o.key, bit)
			inspect(t, store, fmt.Sprintf("%s, bit %d", o.key, bit), o.key, data, false)
			exec(ofBody, o.key, bit)
		}
		for _, columns := range [][2]string{
			{"content_type = 'x' || content_type", "content_type = substr(content_type, 2)"},
			{"size = size + 1", "size = size - 1"},
			{"body = -body", "body = -body"},
		} {
			exec(fmt.Sprintf(ofObject, columns[0]), o.key)
			inspect(t, store, o.key+" "+columns[0], o.key, data, false)
			exec(fmt.Sprintf(ofObject, columns[1]), o.key)
		}
	}
}
