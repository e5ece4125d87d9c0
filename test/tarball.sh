#!/usr/bin/env bash
# Whether the tarball of bin/tarball runs where nothing is installed: unpacked into an empty root folder that has a shell
# and the C library, nothing else. Needs Linux with unshare and curl.
#   test/tarball.sh output/oddslake-0.1.0-linux-x64.tar.gz
set -euo pipefail
tarball=$(realpath "$1")
name=$(basename "$tarball" .tar.gz)
work=$(mktemp -d)
trap 'kill "${service:-}" 2>/dev/null || true; rm -rf "$work"' EXIT
fail() { echo "tarball: $*" >&2; exit 1; }
expect() { grep -q -- "$2" <<<"$1" || fail "expected $2 in: $1"; }

(cd "$(dirname "$tarball")" && sha256sum --quiet --check "$name.tar.gz.sha256")

# A space in the path is one more thing that could break.
root=$work/root
place="/opt/a new place"
mkdir -p "$root$place" "$root"/{bin,tmp,proc,dev,home}
tar -xzf "$tarball" -C "$root$place"
[ "$(ls "$root$place")" = "$name" ] || fail "its only folder must be $name, found: $(ls "$root$place")"
packages=$root$place/$name/node_modules
for unwanted in vitest typescript playwright-core @biomejs; do
  [ ! -e "$packages/$unwanted" ] || fail "$unwanted is for development only"
done
[ "$(ls "$packages/@duckdb" | wc -l)" = 3 ] || fail "binaries of another platform: $(ls "$packages/@duckdb")"

# What a system without packages has: a shell, the C library and its loader.
shell=$(command -v dash || command -v sh)
cp -L "$shell" "$root/bin/sh"
{
  ldd "$shell"
  ldd "$root$place/$name/.node/bin/node" | grep -Ev 'libstdc\+\+|libgcc_s'
} | grep -o '/[^ ]*' | sort -u | while read -r library; do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done

# enter WORDS…: runs the program in that root; the environment has its folder on the PATH, and no more.
own=()
[ "$(id -u)" = 0 ] || own=(--map-root-user)
enter() {
  # shellcheck disable=SC2016
  exec unshare "${own[@]}" --mount sh -ec '
    mount --rbind /dev "$1/dev"; mount --rbind /proc "$1/proc"
    root=$1 path=$2; shift 2
    exec env -i PATH="$path" "$(command -v chroot || echo /usr/sbin/chroot)" "$root" /bin/sh -c "cd /home; exec oddslake \"\$@\"" sh "$@"
  ' sh "$root" "$place/$name/bin" "$@"
}
run() { (enter "$@" 2>"$work/said") || { cat "$work/said" >&2; fail "oddslake $* failed"; }; }

expect "$(run --version)" '^[0-9]'
demo=$(run demo --no-progress)
expect "$demo" 'nightly  *done'
# No link leads to it on the PATH here; there is one in the path of this root.
expect "$demo" '^  oddslake sql --output /home/output/demo '
lake=output/demo
expect "$(run sql --output $lake --format csv 'SELECT count(*) > 1000 AS many FROM ticks')" true
expect "$(run verify --output $lake)" 'no damage found'

enter serve --output $lake --set service.port=0 --json >"$work/serving" 2>"$work/said" &
service=$!
for _ in $(seq 300); do [ -s "$work/serving" ] && break; sleep 0.1; done
url=$(sed 's/.*"url":"\([^"]*\)".*/\1/' "$work/serving")
page=$(curl -sf "$url/") || fail "no page at $url/: $(cat "$work/said")"
expect "$page" '<html'
for asset in $(grep -o '/assets/[^"]*' <<<"$page" | sort -u); do curl -sfo /dev/null "$url$asset" || fail "no $asset"; done
kill "$service"
wait "$service" || fail "serve ended with exit code $?"

echo "tarball: $(($(wc -c <"$tarball") / 1000000)) MB: runs in an empty root"
