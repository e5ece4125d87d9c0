#!/usr/bin/env bash
# Everything that a change must pass: every test, over SQLite and PostgreSQL, the archive as Python reads it, the service as
# generated clients call it, the search for faults, lint, types and the package. Every step runs even after one failed; the
# last lines are a table of the steps and the number of tests.
# The steps that mostly use one processor run beside the tests and the search, and print their output at the end.
#   test/check.sh                   all of it
#   test/check.sh lint types        some of it: tests readers clients torture lint types package
#   BASE=COMMIT test/check.sh       PostgreSQL only if its code changed since that commit
#   MINUTES=7 SEED=… test/check.sh  how long to search for faults, and with which seed (of the tests too)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# The search for faults has another seed each time. The tests have the same one: a change is judged by what it changed.
search_seed=${SEED:-$(($(od -An -N4 -tu4 /dev/urandom) % 2147483648))}
export SEED=${SEED:-20261120} MINUTES=${MINUTES:-}
exec </dev/null

work=$(mktemp -d) || exit 1
beside=()
end_beside() { [ ${#beside[@]} -eq 0 ] || { kill "${beside[@]}" && wait "${beside[@]}"; } 2>/dev/null; }
trap 'end_beside; rm -rf "$work"' EXIT
trap 'exit 130' INT
touch "$work/failed"
times=${STEP_TIMES:-$work/steps}

is_wanted() { [ ${#wanted[@]} -eq 0 ] || [[ " ${wanted[*]} " == *" $1 "* ]]; }

# fail WHAT: remembers a failure, also in a subshell.
fail() { printf '%s\n' "$1" >>"$work/failed"; }

run() { "$@"; }

# step NAME COMMAND…: runs it, prints how long it took, remembers a failure.
step() {
  local name=$1 started=$SECONDS outcome=done
  shift
  is_wanted "$name" || return 0
  echo "== $name: $*"
  run "$@" || { outcome=FAILED; fail "$name"; }
  echo "== $name: $outcome after $((SECONDS - started)) s"
  printf '%s\t%s\t%s\n' "$name" "$((SECONDS - started))" "$outcome" >>"$times"
}

# Where the tests need PostgreSQL. Other tests run over SQLite only.
postgres_paths=(src/server/workspace test/server/workspace test/postgres.sh package-lock.json
  test/server/{keys,key-usage,revoked-tokens}.test.ts)

# Whether this change can be seen over PostgreSQL; also if nobody says what changed.
needs_postgres() {
  [ -z "${FULL:-}" ] && git rev-parse --quiet --verify "${BASE:-none}^{commit}" >/dev/null || return 0
  ! git diff --quiet "$BASE" -- "${postgres_paths[@]}"
}

can_have_postgres() {
  [ -n "${CI:-}${ODDSLAKE_TEST_POSTGRES:-}" ] || [ "$(id -u)" = 0 ] || command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}

# over_postgres COMMAND…: with a PostgreSQL of its own; where there can be none, its tests are skipped, and the end of the
# run says so.
over_postgres() {
  local over=env
  [ -n "${WITHOUT_POSTGRES:-}" ] || ! can_have_postgres || over=test/postgres.sh
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

# list_failed FILE…: at most ten of the tests that failed, with how their message begins, and of the files that failed without
# one, from the runners' own results.
list_failed() {
  node -e '
    const { existsSync, readFileSync } = require("fs");
    const ofVitest = ({ name, status, assertionResults }) => {
      const file = require("path").relative("", name);
      const failed = assertionResults.filter((one) => one.status === "failed");
      if (failed.length === 0) return status === "failed" ? [file] : [];
      const reasonOf = ([message = ""]) => message.replaceAll(/\u001b\[\d+m/g, "").slice(0, 900 / failed.length).replaceAll("\n", "\n      ");
      return failed.map(({ ancestorTitles, title, failureMessages }) =>
        [file, ...ancestorTitles, title].join(" > ") + "\n      " + reasonOf(failureMessages));
    };
    const ofPytest = ([, attributes]) =>
      ["classname", "name"].map((key) => new RegExp(`\\b${key}="([^"]*)"`).exec(attributes)?.[1].replaceAll("&gt;", ">")).join(" > ");
    const broken = /<testcase ([^>]*[^/>])>(?:(?!<\/testcase>)[^])*?<(?:failure|error)\b/g;
    const names = process.argv.slice(1).filter(existsSync).flatMap((path) => {
      const text = readFileSync(path, "utf8");
      return path.endsWith(".xml") ? [...text.matchAll(broken)].map(ofPytest) : JSON.parse(text).testResults.flatMap(ofVitest);
    });
    for (const name of names.slice(0, 10)) console.log(`   ${name}`);
    if (names.length > 10) console.log(`   and ${names.length - 10} more`)' "$@"
}

wanted=("$@")
if ! needs_postgres; then
  export WITHOUT_POSTGRES=1
  echo "== PostgreSQL: its code is the same as in $BASE, so its tests are left out; FULL=1 runs them"
fi
echo "== torture: SEED=$search_seed${MINUTES:+, $MINUTES minutes}"

# Two lanes, because both wait for downloads. The time limits allow for the tests that run at the same time.
lane_of_readers() {
  step readers timeout -k 30 2400 test/readers/run --junitxml="$work/readers.xml"
}
lane_of_others() {
  step lint make --no-print-directory lint
  step types make --no-print-directory typecheck
  TEST_RESULTS=$work/clients.json step clients timeout -k 30 1200 test/clients/run
  step package timeout -k 30 1200 test/package.sh
}

# start LANE: runs it in the background, where it can be ended at once.
start() {
  (
    run() {
      "$@" &
      running=$!
      wait "$running"
    }
    trap 'kill "${running:-}" 2>/dev/null; exit 143' TERM
    "$1"
  ) >"$work/$1.out" 2>&1 &
  beside+=($!)
}

start lane_of_readers
start lane_of_others
TEST_RESULTS=$work/tests.json step tests over_postgres vitest run
SEARCH_SEED=$search_seed TEST_RESULTS=$work/torture.json step torture over_postgres timeout -k 30 2400 \
  vitest run --config vitest.torture.config.ts
wait "${beside[@]}"
beside=()
cat "$work"/lane_of_*.out

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

printf '\n%-24s %8s\n' step seconds
while IFS=$'\t' read -r name seconds outcome; do
  printf '%-24s %8s%s\n' "$name" "$seconds" "$([ "$outcome" = done ] || echo " $outcome")"
done <"$times"
printf '%-24s %8s\n\n' 'make check, all steps' "$SECONDS"
sed 's/^/== failed: /' "$work/failed"
list_failed "$work"/{tests,clients,torture}.json "$work/readers.xml"
echo "$passed passed, $broken failed"
[ ! -s "$work/failed" ]
