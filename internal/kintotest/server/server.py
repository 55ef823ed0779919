"""A Kinto server for tests, on a loopback port.

    python server.py HOST PORT DATABASE [SETTING=VALUE]...

PORT 0 is a free one; the port is the first line of output. DATABASE is the URL of an empty PostgreSQL database, or "" to
keep everything in memory. The settings are Kinto's. A line "purge" on standard input removes the tombstones of all
records, and is answered with a line. The server ends with its standard input, and so with the process at the other end.
"""
import gc
import os
import sys
import threading

gc.disable()  # until the server runs: it would go through all that is imported, for nothing
host, port, database, *more = sys.argv[1:]
if not database:
    sys.modules['sqlalchemy'] = None  # Kinto does without it, and starts in three quarters of the time

from kinto import RouteFactory, main
from kinto.core.scripts import migrate
from pyramid.config import Configurator
from waitress.server import create_server

settings = {
    'multiauth.policies': 'basicauth',
    'userid_hmac_secret': 'tests',
    'includes': 'kinto.plugins.default_bucket kinto.plugins.flush',
    'retry_after_seconds': '1',
}
if database:
    # Kinto takes the time from the database as if it were UTC.
    url = database.replace('postgres://', 'postgresql://', 1)
    url += ('&' if '?' in url else '?') + 'options=-ctimezone%3DUTC'
    for backend in 'storage', 'permission', 'cache':
        settings[backend + '_backend'] = f'kinto.core.{backend}.postgresql'
        settings[backend + '_url'] = url
settings.update(setting.split('=', 1) for setting in more)

config = Configurator(settings={'kinto.' + k if '.' not in k else k: v for k, v in settings.items()}, root_factory=RouteFactory)
app = main({}, config)
if database:
    migrate({'registry': config.registry})
server = create_server(app, host=host, port=int(port), threads=8, ident='waitress')
gc.freeze()
gc.enable()


def obey():
    for _ in sys.stdin:
        config.registry.storage.purge_deleted('record', '*', force_commit=True)
        print('purged', flush=True)
    os._exit(0)


threading.Thread(target=obey, daemon=True).start()
print(server.effective_port, flush=True)
server.run()
