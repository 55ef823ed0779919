#!/bin/sh
# A script for CouchDB's replicator: it lists the replications that crash, with their errors
# and last start, those that are behind, and what is being done now. Usage: crashing.sh URL
set -eu
url=$1

skip=0
while :; do
	page=$(curl -fsS "$url/_scheduler/docs?states=crashing,failed&limit=2&skip=$skip")
	echo "$page" | jq -r '.docs[] | "\(.state) \(.database) \(.doc_id) errors=\(.error_count) \(.info.error)"'
	skip=$((skip + 2))
	[ "$skip" -lt "$(echo "$page" | jq '.total_rows')" ] || break
done

curl -fsS "$url/_scheduler/jobs?limit=1000" |
	jq -r '.jobs[] | select(.pid != null and .info.changes_pending != 0) | "behind \(.id) \(.info.changes_pending)"'

for id in $(curl -fsS "$url/_scheduler/jobs" | jq -r '.jobs[] | select(.history[0].type == "crashed") | .id'); do
	curl -fsS "$url/_scheduler/jobs/$id" | jq -r '"last \(.id) \(.history | map(.type) | join(",")) \(.history[0].reason)"'
done

curl -fsS "$url/_scheduler/docs/shop%2f_replicator/orders" | jq -r '"one \(.doc_id) \(.state)"'
curl -fsS "$url/_active_tasks" |
	jq -r '.[] | select(.type == "replication") | "task \(.doc_id) \(.docs_written)/\(.docs_read) \(.updated_on >= .started_on)"'
