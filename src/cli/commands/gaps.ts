import { openConfiguredArchive } from '../../app/run.ts';
import type { Archive } from '../../archive/archive.ts';
import { UsageError } from '../../core/errors.ts';
import type { SymbolFacts } from '../../core/market.ts';
import { isoUtc, parseTime } from '../../core/time.ts';
import type { Window } from '../../core/window.ts';
import { gapsOf } from '../../ingest/plan.ts';
import { coverageOf, coverageSpan } from '../../state/coverage.ts';
import { allSymbols, oneSymbol } from '../../state/symbols.ts';
import { duration } from '../print-summary.ts';
import type { Shell } from '../program.ts';
import { type CommonFlags, repeatable, withCommonFlags, withContext } from '../session.ts';

interface GapsFlags extends CommonFlags {
  readonly from?: string;
  readonly to?: string;
  readonly symbol: string[];
}

interface Gap extends Window {
  readonly symbol: string;
}

/** `gaps`: what no successful request has covered. */
export function addGaps(shell: Shell): void {
  const command = shell.program
    .command('gaps')
    .description("windows inside the asked range and the symbol's life that no successful request has covered")
    .option('--from <time>', 'start, included (default: the first covered moment)')
    .option('--to <time>', 'end, excluded (default: the last covered moment)')
    .addOption(repeatable('--symbol <symbol>', 'only this symbol; may be repeated'));
  withCommonFlags(command).action((flags: GapsFlags) =>
    withContext(flags, shell.version, false, async (context) => {
      const archive = openConfiguredArchive(context);
      try {
        const gaps = listGaps(archive, flags);
        process.stdout.write(
          flags.json === true ? `${JSON.stringify({ count: gaps.length, gaps })}\n` : gapsText(gaps),
        );
      } finally {
        archive.close();
      }
    }),
  );
}

function listGaps(archive: Archive, flags: GapsFlags): Gap[] {
  const { db } = archive.state;
  const span = coverageSpan(db);
  const asked = {
    from: flags.from === undefined ? (span?.from ?? 0) : parseTime(flags.from, '--from'),
    to: flags.to === undefined ? (span?.to ?? 0) : parseTime(flags.to, '--to'),
  };
  if (flags.from !== undefined && flags.to !== undefined && asked.from >= asked.to)
    throw new UsageError('--from must be before --to.');
  const symbols = flags.symbol.length === 0 ? allSymbols(db) : flags.symbol.map((symbol) => known(archive, symbol));
  return gapsAmong(archive, symbols, asked);
}

function known(archive: Archive, symbol: string): SymbolFacts {
  const facts = oneSymbol(archive.state.db, symbol);
  if (facts === undefined) throw new UsageError(`--symbol ${symbol} is not known in this archive.`);
  return facts;
}

const gapsAmong = (archive: Archive, symbols: readonly SymbolFacts[], asked: Window): Gap[] =>
  symbols.flatMap((facts) =>
    gapsOf(facts, coverageOf(archive.state.db, facts.symbol), asked).map(({ from, to }) => ({
      symbol: facts.symbol,
      from,
      to,
    })),
  );

/** Gaps between the first and the last covered moment of the archive. */
export function countGaps(archive: Archive, symbols: readonly SymbolFacts[]): { windows: number; symbols: number } {
  const span = coverageSpan(archive.state.db);
  const gaps = span === null ? [] : gapsAmong(archive, symbols, span);
  return { windows: gaps.length, symbols: new Set(gaps.map((gap) => gap.symbol)).size };
}

function gapsText(gaps: readonly Gap[]): string {
  if (gaps.length === 0) return 'no gaps\n';
  const lines = gaps.map(
    ({ symbol, from, to }) => `${isoUtc(from)} … ${isoUtc(to)}  ${duration(to - from).padStart(12)}  ${symbol}\n`,
  );
  return `${lines.join('')}${gaps.length} gaps of ${new Set(gaps.map((gap) => gap.symbol)).size} symbols\n`;
}
