/**
 * Where the time of an import of saved pages goes, beside the limit program's: nanoseconds of processor time per tick, by
 * stage, as a Markdown table. oddslake's are samples of a profile; it runs on one core, so that one thread does all of its
 * work. Needs cargo, and taskset (Linux). Run: node bench/budget.ts [PAGES]   (10000)
 */
import { spawnSync } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { generatedPages } from './generated-pages.ts';
import { importArgv } from './import.ts';
import { findLimit, type LimitStage } from './limit.ts';
import { writePages } from './pages.ts';
import { table } from './results.ts';

interface Frame {
  readonly functionName: string;
  readonly url: string;
}

/** A file of `node --cpu-prof`. */
export interface Profile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: Frame;
    readonly children?: readonly number[];
  }[];
  readonly samples: readonly number[];
  /** Microseconds before each sample. */
  readonly timeDeltas: readonly number[];
}

interface Stage {
  readonly name: string;
  /** Its counterparts in the limit program. */
  readonly limit: readonly LimitStage[];
  /** Functions of Node and V8 that belong to it, whoever calls them. */
  readonly native?: RegExp;
  /** Sources that belong to it, with what they call. */
  readonly source?: RegExp;
}

/** The first that matches counts. */
export const stages: readonly Stage[] = [
  { name: 'collect garbage', limit: [], native: /^\(garbage collector\)/ },
  { name: 'sync and rename files', limit: [], native: /^(fsync|fdatasync|rename|link|unlink|rmdir) / },
  { name: 'hash', limit: [], native: /node:internal\/crypto\/hash$|^(digest|hash) / },
  { name: 'compress', limit: [], native: /node:(internal\/)?zlib$/ },
  {
    name: 'load modules',
    limit: [],
    native:
      /node:internal\/(modules|bootstrap|deps)\/|^wasm-function|^(compileFunction|compileSourceTextModule|internalModuleStat) /,
  },
  { name: 'read pages', limit: ['read'], source: /collector\/import\/files\.ts$/ },
  { name: 'decode', limit: ['decode'], source: /src\/client\/|collector\/paging\/.*(decode|valid)/ },
  { name: 'spill and read back', limit: [], source: /archive\/publish\/(spill-file|import-buffer)\.ts$/ },
  { name: 'candles', limit: [], source: /candle/ },
  { name: 'merge', limit: ['merge'], source: /archive\/format\/(merge|tick-columns|tick-changes)/ },
  { name: 'encode (the limit program: and compress)', limit: ['encode'], source: /archive\/parquet\// },
  { name: 'write files', limit: ['write'], source: /archive\/disk\// },
  { name: 'state in SQLite', limit: [], source: /archive\/(journal|completeness)\// },
  { name: 'validate, plan, account', limit: [], source: /\/src\/|\/jobs\// },
  { name: 'all else', limit: [], native: /./ },
];

const unbilled = new Set(['(idle)', '(root)']);

/** Microseconds by stage. A function of Node counts for the nearest source that called it, unless it names a stage. Pure. */
export function splitProfile({ nodes, samples, timeDeltas }: Profile): Map<string, number> {
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)));
  const byId = new Map(nodes.map((node) => [node.id, node.callFrame]));
  const stageOf = (id: number): string | null => {
    const frame = byId.get(id)!;
    if (unbilled.has(frame.functionName)) return null;
    const named = `${frame.functionName} ${frame.url}`;
    const native = stages.find((stage) => stage.native?.test(named) === true && stage.name !== 'all else');
    if (native !== undefined && !frame.url.startsWith('file:')) return native.name;
    for (let at: number | undefined = id; at !== undefined; at = parents.get(at)) {
      const { url } = byId.get(at)!;
      const stage = url.startsWith('file:') ? stages.find(({ source }) => source?.test(url) === true) : undefined;
      if (stage !== undefined) return stage.name;
    }
    return 'all else';
  };
  const stageById = new Map(nodes.map(({ id }) => [id, stageOf(id)]));
  const sums = new Map<string, number>();
  for (const [i, sample] of samples.entries()) {
    const stage = stageById.get(sample);
    if (typeof stage === 'string') sums.set(stage, (sums.get(stage) ?? 0) + timeDeltas[i]!);
  }
  return sums;
}

/** @param limitNs nanoseconds of the stages of the limit program */
export function formatBudget(
  ticks: number,
  ours: ReadonlyMap<string, number>,
  limitNs: Readonly<Record<LimitStage, number>>,
): string {
  const perTick = (ns: number): string => (ns / ticks).toFixed(0);
  const rows = stages
    .filter(({ name, limit }) => ours.has(name) || limit.length > 0)
    .map(({ name, limit }) => [
      name,
      perTick(1000 * (ours.get(name) ?? 0)),
      limit.length === 0 ? '–' : perTick(limit.reduce((sum, stage) => sum + limitNs[stage], 0)),
    ]);
  const sum = (of: Iterable<number>): number => [...of].reduce((a, b) => a + b, 0);
  const total = ['total', perTick(1000 * sum(ours.values())), perTick(sum(Object.values(limitNs)))];
  return table(['stage', 'oddslake, ns', 'limit program, ns'], [...rows, total]);
}

function run(argv: readonly string[], cwd: string): string {
  const { status, stdout, stderr, error } = spawnSync(argv[0]!, argv.slice(1), { cwd, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${argv[0]}: ${error?.message ?? stderr.trim().slice(-1000)}`);
  return stdout;
}

async function main(pages: number): Promise<void> {
  const limit = findLimit((line) => console.error(line));
  if ('missing' in limit) throw new Error(limit.missing);
  const folder = mkdtempSync(join(tmpdir(), 'oddslake-budget-'));
  try {
    const [input, out, profiles] = ['pages', 'out', 'profiles'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    console.error(`writing ${pages} pages`);
    const { ticks } = await writePages(input, generatedPages({ pages, seed: 1 }));
    const limitNs = JSON.parse(run(limit.argv(input, join(folder, 'limit')), folder)) as Record<LimitStage, number>;
    const main = fileURLToPath(new URL('../bin/main.ts', import.meta.url));
    const flags = ['--disable-warning=ExperimentalWarning', '--max-semi-space-size=4', '--initial-old-space-size=128'];
    const profiled = [process.execPath, ...flags, '--cpu-prof', '--cpu-prof-dir', profiles];
    run(['taskset', '-c', '0', ...profiled, ...importArgv(main, input, out)], folder);
    const [file] = globSync('*.cpuprofile', { cwd: profiles });
    const ours = splitProfile(JSON.parse(readFileSync(join(profiles, file!), 'utf8')) as Profile);
    console.log(formatBudget(ticks, ours, limitNs));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(Number(process.argv[2] ?? 10_000));
