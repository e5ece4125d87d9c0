#!/usr/bin/env bash
# Whether the package that npm makes of this tree works by itself: packed, installed into a new place from nothing but the
# tarball and the registry, and used from an empty folder; called by npx; and as the tarball with its own Node, in an empty
# root. Needs Node 24 or newer with npm, and curl.
set -euo pipefail
cd "$(dirname "$0")/.."
project=$PWD
# What asks the registry is the machine's own npm, as in bin/setup: what it is told of proxies and certificates goes by its node.
machine=$PATH
[ ! -x .node/bin/node ] || PATH=$PWD/.node/bin:$PATH

# A space in the path is one more thing that could break.
work=$(mktemp -d)/"a new place"
trap 'kill ${service:-} ${building:-} 2>/dev/null || true; rm -rf "$(dirname "$work")"' EXIT
mkdir -p "$work/reader"
quietly() { "$@" >"$work/said" 2>&1 || { echo "package: $* failed" >&2; cat "$work/said" >&2; exit 1; }; }
expect() { grep -q -- "$2" <<<"$1" || { echo "package: expected $2 in: $1" >&2; exit 1; }; }

# From a copy in which nothing is installed, by the machine's own Node, which may be an older one.
mkdir "$work/copy"
git ls-files --cached --others --exclude-standard -z | while IFS= read -r -d '' file; do
  [ ! -e "$file" ] || printf '%s\0' "$file"
done | tar --null --create --files-from - | tar --extract --directory "$work/copy"
(cd "$work/copy" && quietly env PATH="${machine//"$project/.node/bin:"/}" npm pack --pack-destination "$work")
rm -rf "$work/copy"
tarball=$(echo "$work"/oddslake-*.tgz)
files=$(tar -tzf "$tarball")
if grep -E '^package/(test|bench|src|jobs|node_modules|output|deploy/secrets|\.)|__pycache__' <<<"$files"; then
  echo 'package: these do not belong into it' >&2
  exit 1
fi
bytes=$(wc -c <"$tarball")
[ "$bytes" -lt 2000000 ] || { echo "package: $bytes bytes are too many" >&2; exit 1; }

# Beside the rest, as it takes longest.
env PATH="$machine" bin/tarball --package "$tarball" "$work" >"$work/built" 2>&1 &
building=$!

# As `npm install -g oddslake` does, in a place of its own; no install script is run.
quietly env PATH="$machine" npm install -g --prefix "$work/installed" --prefer-offline --ignore-scripts --no-audit --no-fund "$tarball"
cache=$(PATH="$machine" npm config get cache)
PATH="$work/installed/bin:$(dirname "$(command -v node)"):/usr/bin:/bin"
export HOME=$work/home
cd "$work/reader"

expect "$(oddslake --version)" '^[0-9]'
for command in $(oddslake --help | sed -n 's/^  \([a-z]*\) .*/\1/p' | grep -Ev '^(oddslake|help)$' | sort -u); do
  expect "$(oddslake "$command" --help)" "^Usage: oddslake $command"
done
[ -f "$work/installed/share/man/man1/oddslake.1" ] || { echo 'package: npm has not linked the man page' >&2; exit 1; }

expect "$(oddslake demo --no-progress 2>/dev/null)" 'nightly  *done'
lake=output/demo
expect "$(oddslake sql --output $lake --format csv 'SELECT count(*) > 1000 AS many FROM ticks')" true
# Lists, which Arrow and parquet-wasm write; and threads, in which a backtest plays and large imports are read.
expect "$(oddslake sql --output $lake --format csv 'SELECT len(views) > 0 AS named FROM markets LIMIT 1')" true
expect "$(oddslake verify --output $lake)" 'no damage found'
expect "$(oddslake import --output again --set source.name='oddslake sandbox' $lake/.oddslake/raw 2>/dev/null)" 'import  *done'
mkdir pages
node -e '
  const [pages, each, from] = [130, 5000, 1750000000000];
  for (let page = 0; page < pages; page++) {
    const at = from + page * each * 1000;
    const ticks = Array.from({ length: each }, (_, i) => ({ t: at + i * 1000 + (i % 7), p: (i % 1000) / 1000 }));
    const answer = { symbol: "S", from: at, to: at + each * 1000, count: each, ticks, generated_at: from + 1e10 };
    require("fs").writeFileSync("pages/" + page + ".json", JSON.stringify(answer));
  }'
expect "$(oddslake import --output threaded --set source.name=x pages 2>/dev/null)" '650,000 new'
expect "$(oddslake backtest run buy_and_hold --output $lake 2>/dev/null)" total_pnl
quietly oddslake export --output $lake --dataset markets --out markets.parquet
expect "$(oddslake doctor --output $lake --offline --set upstream.base_url=http://localhost --set upstream.api_key=x --set source.name='oddslake sandbox')" 'No problem found'

# The library: the examples of docs/LIBRARY.md, with the types that the package carries.
mkdir -p "$work/program/node_modules"
ln -s "$work/installed/lib/node_modules/oddslake" "$work/program/node_modules/oddslake"
ln -s "$PWD/output" "$work/program/output"
(
  cd "$work/program"
  node -e '
    const fs = require("fs");
    const blocks = fs.readFileSync(process.argv[1], "utf8").split(/^```/m).filter((block) => block.startsWith("ts\n"));
    blocks.forEach((block, i) => fs.writeFileSync(`example-${i}.mts`, block.slice(3)));
    console.error(`${blocks.length} examples`);' "$project/docs/LIBRARY.md" 2>"$work/examples"
  grep -q '^[1-9]' "$work/examples"
  quietly "$project/node_modules/.bin/tsc" --noEmit --strict --module nodenext --target es2024 --lib es2024,esnext.disposable \
    --types node --typeRoots "$project/node_modules/@types" example-*.mts
  for example in example-*.mts; do quietly node --disable-warning=ExperimentalWarning "$example"; done
)

# The service, with the catalogue page and what it loads.
oddslake serve --output $lake --set service.port=0 --json >"$work/serving" 2>/dev/null &
service=$!
for _ in $(seq 100); do [ -s "$work/serving" ] && break; sleep 0.1; done
url=$(sed 's/.*"url":"\([^"]*\)".*/\1/' "$work/serving")
page=$(curl -sf "$url/")
expect "$page" '<html'
for asset in $(grep -o '/assets/[^"]*' <<<"$page" | sort -u); do quietly curl -sf "$url$asset"; done
expect "$(curl -sf "$url/docs/")" '<html'
expect "$(curl -sf "$url/api/v1/openapi.json")" '3.1'
kill "$service"
wait "$service"
service=

# As `npx` does from an empty folder. Its own folder is not the user's: npm keeps there what npx installed.
mkdir -p "$work/cache" "$work/tried"
ln -s "$cache/_cacache" "$work/cache/_cacache"
cp "$tarball" "$work/tried"
cd "$work/tried"
node=$(dirname "$(command -v node)")
npx() { env PATH="$node:$machine" npm_config_cache="$work/cache" npm_config_prefer_offline=true npm_config_update_notifier=false npx --yes "$@"; }
said=$(npx "--package=./$(basename "$tarball")" oddslake demo --no-progress 2>"$work/said") || { cat "$work/said" >&2; exit 1; }
expect "$said" 'nightly  *done'
# What it prints works as it stands.
query=$(sed -n 's/^  npx \(--package=.* oddslake sql .*\)/\1/p' <<<"$said")
expect "$(eval "npx $query")" '2[0-9-]\{9\}'
[ "$(ls)" = "$(printf '%s\noutput' "$(basename "$tarball")")" ] || { echo "package: npx left $(ls)" >&2; exit 1; }

wait "$building" || { cat "$work/built" >&2; exit 1; }
building=
"$project/test/tarball.sh" "$work"/oddslake-*.tar.gz

echo "package: $((bytes / 1000)) kB, $(wc -l <<<"$files") files: installed elsewhere, and all works"
