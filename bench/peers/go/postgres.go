package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const skipLockedSchema = `
CREATE TABLE jobs (id bigserial PRIMARY KEY, state text NOT NULL DEFAULT 'waiting', lease timestamptz, payload jsonb, result jsonb);
CREATE INDEX jobs_waiting ON jobs (id) WHERE state = 'waiting';
ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.01);`

const skipLockedClaim = `
WITH next AS (SELECT id FROM jobs WHERE state = 'waiting' ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)
UPDATE jobs SET state = 'running', lease = now() + interval '60 s' FROM next WHERE jobs.id = next.id RETURNING jobs.id`

// skipLocked is PostgreSQL without a library: insert, claim with SKIP LOCKED, update; a commit each.
type skipLocked struct{ address string }

func postgresURL(address string) string { return "postgres://postgres@" + address + "/postgres" }

func openSkipLocked(ctx context.Context, address string) (Peer, error) {
	p := &skipLocked{address}
	connection, err := pgx.Connect(ctx, postgresURL(address))
	if err != nil {
		return nil, err
	}
	defer connection.Close(ctx)
	// The second process of a run finds it.
	var exists bool
	if err := connection.QueryRow(ctx, "SELECT to_regclass('jobs') IS NOT NULL").Scan(&exists); err != nil || exists {
		return p, err
	}
	_, err = connection.Exec(ctx, skipLockedSchema)
	return p, err
}

func (p *skipLocked) Producer(ctx context.Context) (Producer, error) {
	connection, err := pgx.Connect(ctx, postgresURL(p.address))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, jobs [][]byte) error {
		texts := make([]string, len(jobs))
		for at, job := range jobs {
			texts[at] = string(job)
		}
		_, err := connection.Exec(ctx, "INSERT INTO jobs (payload) SELECT unnest($1::text[])::jsonb", texts)
		return err
	}, nil
}

func (p *skipLocked) Work(ctx context.Context, workers, window int, done func(int)) error {
	return each(workers, func(int) error {
		connection, err := pgx.Connect(ctx, postgresURL(p.address))
		if err != nil {
			return err
		}
		for ctx.Err() == nil {
			rows, err := connection.Query(ctx, skipLockedClaim, window)
			if err != nil {
				return err
			}
			ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			if err != nil {
				return err
			}
			if len(ids) == 0 {
				time.Sleep(time.Millisecond)
				continue
			}
			_, err = connection.Exec(ctx, `UPDATE jobs SET state = 'done', lease = NULL, result = '{"ok": true}' WHERE id = ANY($1)`, ids)
			if err != nil {
				return err
			}
			done(len(ids))
		}
		return ctx.Err()
	})
}
