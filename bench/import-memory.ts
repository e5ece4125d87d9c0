import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from './bench.ts';
import { importMemory, importMemoryGrowth } from './goals.ts';
import { importArgv, type PagesInput } from './import.ts';
import { CommandFailed, type Measured, measure } from './measure.ts';
import type { Comparison, Report, Timing } from './results.ts';
import { spread } from './statistics.ts';

/** Peak memory of `oddslake import` as its input grows tenfold and more. */

/** A run with one input, or the reason why it does not count. */
export type MemoryRun =
  | { readonly input: string; readonly measured: Measured }
  | { readonly input: string; readonly failed: string };

/** One run per input: memory hardly differs between runs, and the largest input takes minutes. */
export async function measureOnce(bench: Bench, input: PagesInput): Promise<MemoryRun> {
  const out = join(bench.folder, 'held');
  const argv = importArgv(bench.launcher, input.folder, out);
  try {
    const measured = await measure({ argv, cwd: bench.folder, env: bench.env }, bench.accounting);
    bench.tell(`${input.name}: ${toMegabytes(measured) ?? 'unknown'} MB, ${(measured.wallMs / 1000).toFixed(1)} s`);
    return { input: input.name, measured };
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error;
    bench.tell(`${input.name}: ${error.message}: ${error.output}`);
    return { input: input.name, failed: `oddslake ${error.message}` };
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

/** Comparisons of the runs, from the smallest input to the largest. Pure. */
export function memoryReport(runs: readonly MemoryRun[]): Report {
  const mb = runs.map((one) => ('measured' in one ? toMegabytes(one.measured) : null));
  const missingOf = (one: MemoryRun): string => ('failed' in one ? one.failed : 'this machine cannot measure it');
  const each = runs.map((one, i): Comparison => {
    const value = mb[i]!;
    return {
      what: 'import, peak memory',
      input: one.input,
      ours: formatMegabytes(value),
      peer: null,
      ratio: null,
      goal: importMemory,
      headline: true,
      value,
      missing: value === null ? missingOf(one) : null,
    };
  });
  const [least, most] = [mb.at(0) ?? null, mb.at(-1) ?? null];
  const growth = runs.length < 2 || least === null || most === null ? null : most / least;
  const lacking = runs.find((_, i) => mb[i] === null);
  const flat: Comparison = {
    what: 'import, growth of peak memory',
    input: `${runs.at(-1)?.input ?? '–'} against ${runs[0]?.input ?? '–'}`,
    ours: formatMegabytes(most),
    peer: { name: 'the smallest input', figure: formatMegabytes(least) },
    ratio: growth === null ? null : spread([growth]),
    value: growth,
    goal: importMemoryGrowth,
    headline: true,
    missing: growth !== null ? null : lacking === undefined ? 'one input only' : missingOf(lacking),
  };
  return {
    comparisons: [...each, flat],
    timings: runs.flatMap((one): Timing[] =>
      'measured' in one
        ? [{ what: 'import, once', input: one.input, name: 'oddslake', medians: one.measured, runs: 1 }]
        : [],
    ),
    failed: runs.some((one) => 'failed' in one) ? ['oddslake import'] : [],
  };
}

/** Megabytes (10⁶ bytes); null if the machine cannot measure them. */
const toMegabytes = ({ peakMiB }: Measured): number | null =>
  peakMiB === null ? null : Math.round(peakMiB * 1.048576);

const formatMegabytes = (mb: number | null): string => (mb === null ? '–' : `${mb} MB`);
