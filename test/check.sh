#!/usr/bin/env bash
# Everything that a change must pass: every test, over SQLite and PostgreSQL, the archive as Python reads it, the service as
# generated clients call it, the search for faults, lint, types and the package. Every step runs even after one failed; the last line counts the tests.
#   test/check.sh                   all of it
#   test/check.sh lint types        some of it: tests readers clients torture lint types package
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# The same story each time: a change is judged by what it changed. SEED=… tells another one.
export SEED=${SEED:-20261120}
exec </dev/null

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=()

# step NAME COMMAND…: runs it, prints how long it took, remembers a failure.
step() {
  local name=$1 started=$SECONDS
  shift
  [ ${#wanted[@]} -eq 0 ] || [[ " ${wanted[*]} " == *" $name "* ]] || return 0
  echo "== $name: $*"
  if "$@"; then
    echo "== $name: done in $((SECONDS - started)) s"
  else
    echo "== $name: FAILED after $((SECONDS - started)) s"
    failed+=("$name")
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
TEST_RESULTS=$work/tests.json step tests over_postgres vitest run
step readers timeout -k 30 1500 test/readers/run --junitxml="$work/readers.xml"
TEST_RESULTS=$work/clients.json step clients timeout -k 30 600 test/clients/run
TEST_RESULTS=$work/torture.json step torture over_postgres timeout -k 30 1800 vitest run --config vitest.torture.config.ts
step lint make --no-print-directory lint
step types make --no-print-directory typecheck
step package timeout -k 30 1200 test/package.sh

# No file of results, or no test in it, is a failure too.
passed=0 broken=0
for results in tests.json readers.xml clients.json torture.json; do
  name=${results%.*}
  [ ${#wanted[@]} -eq 0 ] || [[ " ${wanted[*]} " == *" $name "* ]] || continue
  read -r good bad < <(counts "$work/$results")
  [ "${good:-0}" -gt 0 ] || failed+=("no test ran for $name")
  passed=$((passed + ${good:-0})) broken=$((broken + ${bad:-0}))
  good=0 bad=0
done

echo "== all steps: $SECONDS s"
if [ ${#failed[@]} -gt 0 ]; then
  printf '== failed: %s\n' "${failed[@]}"
fi
echo "$passed passed, $broken failed"
[ ${#failed[@]} -eq 0 ]
