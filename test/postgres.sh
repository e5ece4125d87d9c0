#!/usr/bin/env bash
# Runs a command beside a throwaway PostgreSQL, whose URL it finds in ODDSLAKE_TEST_POSTGRES:
#   test/postgres.sh npx vitest run test/server/workspace
# Where no PostgreSQL is installed, root gets Debian's package; a server that the variable names already is used as it is.
# POSTGRES_OPTIONS are further options of the server, such as "-c shared_buffers=1GB".
set -uo pipefail
[ $# -gt 0 ] || { echo "usage: test/postgres.sh COMMAND…" >&2; exit 2; }
[ -z "${ODDSLAKE_TEST_POSTGRES:-}" ] || exec "$@"

find_bin() {
  local dir
  for dir in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -Vr) /usr/local/bin /usr/bin; do
    [ -x "$dir/initdb" ] && [ -x "$dir/pg_ctl" ] && [ -x "$dir/postgres" ] && { echo "$dir"; return; }
  done
  dir=$(dirname "$(command -v initdb 2>/dev/null)" 2>/dev/null)
  [ -n "$dir" ] && [ -x "$dir/pg_ctl" ] && echo "$dir"
}

bin=$(find_bin)
if [ -z "$bin" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "== PostgreSQL is not here: installing Debian's package" >&2
  export DEBIAN_FRONTEND=noninteractive
  { apt-get install -y --no-install-recommends postgresql ||
    { apt-get update && apt-get install -y --no-install-recommends postgresql; }; } >&2
  bin=$(find_bin)
fi
[ -n "$bin" ] || { echo "PostgreSQL is not installed: apt-get install postgresql" >&2; exit 1; }

# It refuses to run as root.
as=()
if [ "$(id -u)" = 0 ]; then
  user=postgres
  id "$user" >/dev/null 2>&1 || user=nobody
  as=(setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups)
fi

work=$(mktemp -d /tmp/oddslake-postgres-XXXXXX) || exit 1
[ "$(id -u)" != 0 ] || chown "$user" "$work"
stop() {
  (cd "$work" && "${as[@]}" "$bin/pg_ctl" -D "$work/data" -m immediate -s stop) >/dev/null 2>&1
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
printf '%s\n' "$password" >"$work/password"
[ "$(id -u)" != 0 ] || chown "$user" "$work/password"
# From the folder of the cluster: its user may not be allowed into this one.
cd_run() { (cd "$work" && HOME="$work" "${as[@]}" "$@"); }
cd_run "$bin/initdb" -D "$work/data" -U oddslake -A scram-sha-256 --pwfile="$work/password" -E UTF8 --no-locale --no-sync >"$work/initdb.log" 2>&1 ||
  { cat "$work/initdb.log" >&2; exit 1; }

# A port found free may be taken a moment later: then another one.
for try in 1 2 3 4 5; do
  port=$((20000 + (RANDOM * 32768 + RANDOM) % 20000))
  options="-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories=$work -c fsync=off -c max_connections=60 ${POSTGRES_OPTIONS:-}"
  if cd_run "$bin/pg_ctl" -D "$work/data" -l "$work/server.log" -o "$options" -w -t 60 -s start >&2; then
    export ODDSLAKE_TEST_POSTGRES="postgres://oddslake:$password@127.0.0.1:$port/postgres"
    "$@"
    exit $?
  fi
done
cat "$work/server.log" >&2
exit 1
