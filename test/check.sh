#!/usr/bin/env bash
# Everything that a change must pass: every test, over SQLite and PostgreSQL, the archive as Python reads it, the service as
# generated clients call it, the search for faults, lint, types and the package. Every step runs even after one failed; the last line counts the tests.
# The steps that mostly use one processor run beside the tests and torture, and print their output at the end.
#   test/check.sh                   all of it
#   test/check.sh lint types        some of it: tests readers clients torture lint types package
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# The same story each time: a change is judged by what it changed. SEED=… tells another one.
export SEED=${SEED:-20261120}
exec </dev/null

work=$(mktemp -d) || exit 1
beside=
trap '[ -z "$beside" ] || { kill "$beside" && wait "$beside"; } 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT
touch "$work/failed"

is_wanted() { [ ${#wanted[@]} -eq 0 ] || [[ " ${wanted[*]} " == *" $1 "* ]]; }

# fail WHAT: remembers a failure, also in a subshell.
fail() { printf '%s\n' "$1" >>"$work/failed"; }

run() { "$@"; }

# step NAME COMMAND…: runs it, prints how long it took, remembers a failure.
step() {
  local name=$1 started=$SECONDS
  shift
  is_wanted "$name" || return 0
  echo "== $name: $*"
  if run "$@"; then
    echo "== $name: done in $((SECONDS - started)) s"
  else
    echo "== $name: FAILED after $((SECONDS - started)) s"
    fail "$name"
  fi
}

can_have_postgres() {
  [ -n "${CI:-}${ODDSLAKE_TEST_POSTGRES:-}" ] || [ "$(id -u)" = 0 ] || command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}

# over_postgres COMMAND…: with a PostgreSQL of its own; where there can be none, its tests are skipped, and the end of the
# run says so.
over_postgres() {
  local over=env
  ! can_have_postgres || over=test/postgres.sh
  "$over" "$@"
}

# counts FILE: the tests that passed and that failed, from a runner's own results.
counts() {
  node -p '
    const text = require("fs").readFileSync(process.argv[1], "utf8");
    const counted = (name) => Number(new RegExp(`<testsuite [^>]*\\b${name}="(\\d+)"`).exec(text)[1]);
    const ofPytest = () => {
      const broken = counted("errors") + counted("failures");
      return { numPassedTests: counted("tests") - broken - counted("skipped"), numFailedTests: broken };
    };
    const { numPassedTests, numFailedTests } = process.argv[1].endsWith(".xml") ? ofPytest() : JSON.parse(text);
    `${numPassedTests} ${numFailedTests}`' "$1" 2>/dev/null
}

wanted=("$@")

# The time limits allow for the tests that run at the same time.
other_steps() {
  step readers timeout -k 30 2400 test/readers/run --junitxml="$work/readers.xml"
  TEST_RESULTS=$work/clients.json step clients timeout -k 30 1200 test/clients/run
  step lint make --no-print-directory lint
  step types make --no-print-directory typecheck
  step package timeout -k 30 1200 test/package.sh
}

if is_wanted tests; then
  (
    # A command in the background can be ended at once.
    run() {
      "$@" &
      running=$!
      wait "$running"
    }
    trap 'kill "${running:-}" 2>/dev/null; exit 143' TERM
    other_steps
  ) >"$work/beside.out" 2>&1 &
  beside=$!
  TEST_RESULTS=$work/tests.json step tests over_postgres vitest run
else
  other_steps
fi
TEST_RESULTS=$work/torture.json step torture over_postgres timeout -k 30 2400 vitest run --config vitest.torture.config.ts
if [ -n "$beside" ]; then
  wait "$beside"
  beside=
  cat "$work/beside.out"
fi

# Tests that passed before, and were not repeated: see test/harness/passed-files.ts.
earlier() {
  node --disable-warning=ExperimentalWarning --input-type=module -e '
    const { listPassedFiles } = await import("./test/harness/passed-files.ts");
    const { files, tests } = listPassedFiles(process.env.PASSED_TESTS);
    console.log(`${tests} ${files.length}`)'
}

# No file of results, or no test in it, is a failure too.
passed=0 broken=0
if [ -n "${PASSED_TESTS:-}" ] && is_wanted tests; then
  read -r passed files < <(earlier)
  [ "${passed:-0}" -gt 0 ] || fail "no test passed before"
  echo "== tests: $passed in $files files passed before, in another clone, and were not repeated"
fi
for results in tests.json readers.xml clients.json torture.json; do
  name=${results%.*}
  is_wanted "$name" || continue
  read -r good bad < <(counts "$work/$results")
  [ "${good:-0}" -gt 0 ] || fail "no test ran for $name"
  passed=$((passed + ${good:-0})) broken=$((broken + ${bad:-0}))
  good=0 bad=0
done

echo "== all steps: $SECONDS s"
sed 's/^/== failed: /' "$work/failed"
echo "$passed passed, $broken failed"
[ ! -s "$work/failed" ]
