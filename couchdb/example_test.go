package couchdb_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/feedctl/feedctl/couchdb"
)

func ExampleDB_Info() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // CouchDB
		w.Header().Set("Content-Type", "application/json")
		if user, password, _ := r.BasicAuth(); user != "reader" || password != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"unauthorized","reason":"Name or password is incorrect."}`)
			return
		}
		fmt.Fprint(w, `{"db_name":"zones","doc_count":3,"update_seq":"7-g1AAAA"}`)
	}))
	defer server.Close()
	ctx := context.Background()
	for _, password := range []string{"wrong", "secret"} {
		db, err := couchdb.Open(couchdb.Config{URL: server.URL + "/zones", Auth: couchdb.Auth{Username: "reader", Password: password}})
		if err != nil {
			log.Fatal(err)
		}
		defer db.CloseIdleConnections()
		info, err := db.Info(ctx)
		fmt.Println(info.Name, errors.Is(err, couchdb.ErrUnauthorized))
	}
	// Output:
	//  true
	// zones false
}
