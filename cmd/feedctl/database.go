package main

import (
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/storage/postgres/schema"
)

// parseDatabase reads the URL of a schema in a PostgreSQL database that a flag, or an
// argument, has. Its errors are the user's, and have no password.
func parseDatabase(flag, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// The error shows the URL, and its cause what may be a part of the password.
		return nil, exit.Usagef("%s is no URL: write %% / ? # @ within a password as %%25 %%2F %%3F %%23 %%40", flag)
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, exit.Usagef("%s is not postgres://USER@HOST/DATABASE?schema=feedctl: its scheme is %q", flag, u.Scheme)
	}
	rest, _, err := schema.Cut(u)
	if err != nil {
		return nil, exit.Usagef("%s: %w", flag, err)
	}
	if _, err := pgxpool.ParseConfig(rest.String()); err != nil {
		return nil, exit.Usagef("%s: %w", flag, err)
	}
	return u, nil
}
