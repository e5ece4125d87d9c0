#!/usr/bin/env bash
# Whether the image of deploy/image.sh works as the documents promise: as an unprivileged user with a read-only root and no
# capability. Run it by hand, as machines of CI may refuse containers. Needs podman and curl.
#   test/image.sh localhost/oddslake:0.1.0
#   PODMAN='podman --runtime runc --cgroup-manager cgroupfs' RUN_FLAGS='--ulimit nofile=1024:1024' test/image.sh IMAGE
set -euo pipefail
image=$1
read -ra podman <<<"${PODMAN:-podman}"
read -ra extra <<<"${RUN_FLAGS:-}"
work=$(mktemp -d)
lake=oddslake-test-$$
containers=()
cleanup() {
  for one in "${containers[@]}"; do "${podman[@]}" rm --force "$one" >/dev/null 2>&1 || true; done
  "${podman[@]}" volume rm --force "$lake" >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap cleanup EXIT
fail() { echo "image: $*" >&2; cat "$work"/*.said >&2 2>/dev/null || true; exit 1; }
expect() { grep -q -- "$2" <<<"$1" || fail "expected $2 in: $1"; }

# The sandbox listens on loopback, so all containers share the network of this machine.
hardened=(--network=host --read-only --read-only-tmpfs=false --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges "${extra[@]}")
run() { "${podman[@]}" run --rm "${hardened[@]}" --volume "$lake:/lake" "$@" 2>"$work/run.said"; }
# launch NAME FLAGS… IMAGE ARGS…: in the background.
launch() {
  local name=$lake-$1
  shift
  containers+=("$name")
  "${podman[@]}" run --detach --name "$name" "${hardened[@]}" --volume "$lake:/lake" "$@" >/dev/null 2>"$work/launch.said"
}
# wait_for COMMAND…: up to 60 s.
wait_for() {
  for _ in $(seq 120); do ! "$@" >/dev/null 2>&1 || return 0; sleep 0.5; done
  fail "timed out: $*"
}
# The command of the image's health check.
healthy() { "${podman[@]}" exec "$1" node -e 'fetch(process.env.HEALTH_URL).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))'; }
stop() {
  "${podman[@]}" stop --time 60 "$1" >/dev/null 2>&1
  code=$("${podman[@]}" inspect --format '{{.State.ExitCode}}' "$1" 2>/dev/null)
  [ "$code" = 0 ] || fail "$1 ended with exit code $code after SIGTERM: $("${podman[@]}" logs "$1" 2>&1 | tail -5)"
}

inspected=$("${podman[@]}" image inspect "$image" 2>/dev/null)
expect "$inspected" '"User": "10001:10001"'
expect "$inspected" 'process.env.HEALTH_URL'
! grep -q 'API_KEY' <<<"$inspected" || fail 'it names a key'

expect "$(run "$image" --version)" '^[0-9]'
! run --entrypoint /bin/sh "$image" -c 'echo x >/opt/oddslake/x' || fail 'its root can be written'
expect "$(run --entrypoint node "$image" -p 'process.getuid()')" '^10001$'
expect "$(run "$image" demo --no-progress --output /tmp/demo)" 'nightly  *done'

port=$((20000 + RANDOM % 10000))
launch sandbox --env "HEALTH_URL=http://127.0.0.1:$port/sandbox/stats" "$image" sandbox --port $port --key key
wait_for healthy "$lake-sandbox"
upstream=(--env "ODDSLAKE_BASE_URL=http://127.0.0.1:$port" --env ODDSLAKE_API_KEY=key --env ODDSLAKE_REQUESTS_PER_SECOND=200)
expect "$(run "${upstream[@]}" "$image" nightly --set source.name=sandbox)" 'nightly  *done'
expect "$(run "$image" verify)" 'no damage found'

launch schedule "${upstream[@]}" --env "HEALTH_URL=http://127.0.0.1:$((port + 1))/healthz" "$image" \
  schedule --set source.name=sandbox --set schedule.port=$((port + 1))
launch serve --env "HEALTH_URL=http://127.0.0.1:$((port + 2))/healthz" "$image" serve --set service.port=$((port + 2))
wait_for healthy "$lake-schedule"
wait_for healthy "$lake-serve"
expect "$(curl -sf "http://127.0.0.1:$((port + 1))/metrics")" '^oddslake_generation'
expect "$(curl -sf "http://127.0.0.1:$((port + 2))/")" '<html'
for one in serve schedule sandbox; do stop "$lake-$one"; done

echo "image: $image runs as user 10001 with a read-only root: demo, nightly, schedule, serve, health checks, SIGTERM"
