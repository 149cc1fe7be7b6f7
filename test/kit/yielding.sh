#!/bin/sh
# Runs a command, and gives its session the niceness of the process. Linux divides the processors
# among sessions first, so `nice` alone has no effect on a command in a session of its own. Without
# a session of its own the command shares the session of others, which stays as it is.
if [ "$(cut -d' ' -f6 /proc/$$/stat)" = $$ ]; then
  echo "$(nice)" 2>/dev/null >/proc/$$/autogroup
fi
exec "$@"
