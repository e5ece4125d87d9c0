# Two commands on a fresh machine with Node 20 or newer, npm and make: `make run` and `make test`. `make check` is what a change must pass.
# Everything runs on Node 24 or newer: the machine's, or the one that bin/setup puts into .node/.
export PATH := $(CURDIR)/.node/bin:$(CURDIR)/node_modules/.bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help run test check test-readers test-clients package tarball release-dry-run torture mutants bench lint typecheck format setup clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

run: setup ## a simulated service, one nightly run against it into output/demo, and how to load the result
	@bin/oddslake demo

test: setup ## the quick tests of every part, two minutes; TEST_ARGS='test/base' for any file or folder
	@$(if $(TEST_ARGS),vitest run $(TEST_ARGS),started=$$(date +%s); TEST_SHARE=$${TEST_SHARE:-0.2} vitest run --project quick; code=$$?; \
	  echo "== make test: $$(($$(date +%s) - started)) seconds; the limit is 120 (CONTRIBUTING.md)"; exit $$code)

check: setup ## everything that a change must pass: all tests, readers, clients, torture, lint, types, package; STEPS='lint types' for some
	@test/check.sh $(STEPS)

package: setup ## whether the package that npm makes works from elsewhere; asks the registry
	@test/package.sh

tarball: setup ## output/oddslake-VERSION-PLATFORM.tar.gz with its Node inside, which runs where nothing is installed
	@bin/tarball
	@test/tarball.sh output/oddslake-*.tar.gz

release-dry-run: setup ## all that a release publishes, into output/release, checked and signed by a throw-away key; publishes nothing
	@bin/release --dry-run

test-readers: setup ## the archive as pandas, polars, DuckDB, PyArrow and Spark read it; TEST_ARGS='-k asof' for some of them
	@test/readers/run $(TEST_ARGS)

test-clients: setup ## the service as clients call it that are generated from its OpenAPI document; TEST_ARGS='-t Python' for some
	@test/clients/run $(TEST_ARGS)

torture: setup ## the search for faults; MINUTES=7 takes that long, SEED=… SEEDS=1 repeats one, SWEEP=7 one call of a sweep
	@MINUTES=$(MINUTES) SEED=$(SEED) SEEDS=$(SEEDS) vitest run --config vitest.torture.config.ts $(TEST_ARGS)

mutants: setup ## mutation tests of src; LINES=300 SEED=1 selects the lines, ONLY=commit the files with removed calls
	@npm --prefix test/mutation ci --silent
	@node test/mutation/removals.ts
	@for room in base archive collector; do ROOM=$$room test/mutation/node_modules/.bin/stryker run test/mutation/stryker.config.mjs || exit; done

bench: setup ## every benchmark against its peers into bench/RESULTS.md; BENCH_ARGS=--quick, '--only import', '--against COMMIT'
	@node bench/run.ts $(BENCH_ARGS)

lint: setup ## format and lint rules
	@biome check --error-on-warnings

typecheck: setup ## TypeScript, nothing written
	@tsc
	@tsc -p tsconfig.page.json

format: setup ## write what lint would ask for
	@biome check --write

setup: ## install what is missing, and only that
	@bin/setup

clean: ## remove what was installed or built; archives stay
	rm -rf node_modules .node dist bench/limit/target test/readers/.venv test/clients/.venv test/clients/node_modules
