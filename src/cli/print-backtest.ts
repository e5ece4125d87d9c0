import type { Context } from '../app/context.ts';
import { requireWritableTarget, writeFileAtomically } from '../archive/copies/export-file.ts';
import type { Archive } from '../archive/open-archive.ts';
import { formatBytes } from '../core/format-quantity.ts';
import type { BacktestResult } from '../research/result.ts';
import type { CommonFlags } from './command-context.ts';
import { formatBacktest } from './format-backtest.ts';
import { getTerminalStyle } from './terminal-style.ts';

export interface WrittenBacktestPage {
  readonly file: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** Where a page is written to. Throws UsageError where nothing may be written there. */
export const requirePageTarget = ({ disk, layout }: Archive, path: string): string =>
  requireWritableTarget(disk, layout.root, path);

/** Writes the page of a backtest, whole or not at all. */
export async function writeBacktestPage(
  { disk }: Archive,
  { random, version }: Context,
  file: string,
  result: BacktestResult,
): Promise<WrittenBacktestPage> {
  // What draws takes its time to load, and few ask for it.
  const { renderBacktestPage } = await import('../report/backtest-page.ts');
  const id = Math.floor(random() * 36 ** 8).toString(36);
  const bytes = Buffer.from(renderBacktestPage(result, version), 'utf8');
  async function* pieces() {
    yield bytes;
  }
  return { file, ...(await writeFileAtomically(disk, file, id, pieces())) };
}

interface PrintedBacktest {
  readonly result: BacktestResult;
  /** What it is kept as; null where it is not. */
  readonly id: string | null;
  readonly page: WrittenBacktestPage | null;
}

/** Prints a backtest: for a person with what to do next, or as one JSON line. */
export function printBacktest(
  { result, id, page }: PrintedBacktest,
  flags: Pick<CommonFlags, 'json' | 'quiet'>,
  { isNew }: { readonly isNew: boolean },
): void {
  if (flags.json === true) {
    const rest = { ...(id === null ? {} : { id }), ...(page === null ? {} : { page }) };
    process.stdout.write(`${JSON.stringify({ ...result, ...rest })}\n`);
    return;
  }
  process.stdout.write(formatBacktest(result, getTerminalStyle(process.stdout)));
  if (flags.quiet === true) return;
  const lines = [
    ...(page === null ? [] : [`page ${page.file}, ${formatBytes(page.bytes)}: open it in a browser`]),
    ...(id === null || !isNew ? [] : [`kept as ${id}: oddslake backtest show ${id}`]),
    ...(page === null ? ['--out page.html writes its curves, trades and every symbol listed'] : []),
    ...(id === null && isNew ? ['--save keeps it for oddslake backtest list and the service'] : []),
  ];
  process.stderr.write(`${lines.join('\n')}\n`);
}
