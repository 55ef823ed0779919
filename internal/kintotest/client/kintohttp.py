"""kinto-http.py, the Python client of Kinto, as a process.

    python kintohttp.py ROOT BUCKET COLLECTION USER PASSWORD

ROOT is the URL of the server with /v1. A line of input is [METHOD, ARGUMENTS] of the client; the answer is a line with the
result. The process ends with its standard input.
"""
import json
import sys

from kinto_http import Client

root, bucket, collection, *auth = sys.argv[1:]
client = Client(server_url=root, bucket=bucket, collection=collection, auth=tuple(auth))
for line in sys.stdin:
    method, arguments = json.loads(line)
    print(json.dumps(getattr(client, method)(**(arguments or {}))), flush=True)
