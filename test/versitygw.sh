#!/usr/bin/env bash
# Prints the path of versitygw, the S3 server of the tests. It is built from Go's module proxy the first time, which takes some
# minutes, and kept in the user's cache folder by its version and that of Go:
#   server=$(test/versitygw.sh)
#   test/versitygw.sh --check      exits with 0 if it is built, or a Go is here that can build it
# XDG_CACHE_HOME is another folder for caches.
set -euo pipefail
version=v1.8.0
go_min=go1.25
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/oddslake-tests
PATH=$PATH:/usr/local/go/bin

# A binary of any version of Go will do where there is no Go.
built=$(ls -t "$cache"/versitygw-$version-*/versitygw 2>/dev/null | head -n 1 || true)
go=$(command -v go || true)
is_new() { printf '%s\n' "$go_min" "$(go env GOVERSION)" | sort --check=quiet --version-sort; }
[ -z "$go" ] || is_new || go=
[ -z "$go" ] || built=$(ls "$cache/versitygw-$version-$(go env GOVERSION)/versitygw" 2>/dev/null || true)
if [ "${1:-}" = --check ]; then
  [ -n "$built$go" ]
  exit
fi
if [ -z "$built" ]; then
  [ -n "$go" ] || { echo "versitygw is not built, and there is no Go of version ${go_min#go} or newer" >&2; exit 1; }
  echo "== building versitygw $version; this takes some minutes the first time" >&2
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/building-XXXXXX")
  trap 'rm -rf "$work"' EXIT
  # From the proxy only, and not from the repositories that it is a proxy of.
  GOPROXY=$(go env GOPROXY | sed 's/[,|]direct$//') GOFLAGS=-buildvcs=false GOBIN=$work/bin nice -n 19 go install "github.com/versity/versitygw/cmd/versitygw@$version" >&2
  target=$cache/versitygw-$version-$(go env GOVERSION)
  # Another build may have come first. The rename comes last, so that an incomplete build is not used.
  mv -T "$work/bin" "$target" 2>/dev/null || [ -x "$target/versitygw" ]
  built=$target/versitygw
fi
echo "$built"
