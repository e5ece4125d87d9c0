import type { Context } from '../app/context.ts';
import { requireWritable, writeInPlace } from '../archive/copies/export-file.ts';
import type { Archive } from '../archive/open-archive.ts';
import { size } from '../core/format-quantity.ts';
import type { BacktestResult } from '../research/result.ts';
import type { CommonFlags } from './command-context.ts';
import { backtestText } from './format-backtest.ts';
import { styleOf } from './terminal-style.ts';

export interface WrittenPage {
  readonly file: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** Where a page is written to. Throws UsageError where nothing may be written there. */
export const pageTarget = ({ disk, layout }: Archive, path: string): string => requireWritable(disk, layout.root, path);

/** Writes the page of a backtest, whole or not at all. */
export async function writeBacktestPage(
  { disk }: Archive,
  { random, version }: Context,
  file: string,
  result: BacktestResult,
): Promise<WrittenPage> {
  // What draws takes its time to load, and few ask for it.
  const { backtestPage } = await import('../report/backtest-page.ts');
  const id = Math.floor(random() * 36 ** 8).toString(36);
  const bytes = Buffer.from(backtestPage(result, version), 'utf8');
  async function* pieces() {
    yield bytes;
  }
  return { file, ...(await writeInPlace(disk, file, id, pieces())) };
}

interface Told {
  readonly result: BacktestResult;
  /** What it is kept as; null where it is not. */
  readonly id: string | null;
  readonly page: WrittenPage | null;
}

/** Prints a backtest: for a person with what to do next, or as one JSON line. */
export function tellBacktest(
  { result, id, page }: Told,
  flags: Pick<CommonFlags, 'json' | 'quiet'>,
  { isNew }: { readonly isNew: boolean },
): void {
  if (flags.json === true) {
    const rest = { ...(id === null ? {} : { id }), ...(page === null ? {} : { page }) };
    process.stdout.write(`${JSON.stringify({ ...result, ...rest })}\n`);
    return;
  }
  process.stdout.write(backtestText(result, styleOf(process.stdout)));
  if (flags.quiet === true) return;
  const lines = [
    ...(page === null ? [] : [`page ${page.file}, ${size(page.bytes)}: open it in a browser`]),
    ...(id === null || !isNew ? [] : [`kept as ${id}: oddslake backtest show ${id}`]),
    ...(page === null ? ['--out page.html writes its curves, trades and every symbol listed'] : []),
    ...(id === null && isNew ? ['--save keeps it for oddslake backtest list and the service'] : []),
  ];
  process.stderr.write(`${lines.join('\n')}\n`);
}
