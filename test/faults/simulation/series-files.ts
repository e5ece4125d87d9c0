import type { CellValue } from '../../../src/archive/parquet/rows.ts';
import type { TickColumns } from '../../../src/base/ticks.ts';
import type { Window } from '../../../src/base/window.ts';
import { computeQuotes, computeTrades, createSeriesKey } from '../../sandbox/simulated-series.ts';
import type { Draw } from '../seeds.ts';
import type { Lake } from './lake.ts';
import type { SeriesName } from './series-rows.ts';
import { dayMs, hourMs, type WorldMarket } from './world.ts';

/** The files of one import, as JSON lines, and what it declares. */
export interface SeriesInput {
  readonly paths: readonly string[];
  /** Null if the files have different ones: their columns show them. */
  readonly dataset: SeriesName | null;
  readonly covers: Window | null;
}

type Line = Readonly<Record<string, CellValue>> & { readonly t: number };

/** The quotes and trades of a market, computed from its ticks with the sandbox's own code. */
interface MarketSeries {
  readonly quotes: readonly Line[];
  readonly trades: readonly Line[];
  /** Whether its trades have identifiers. */
  readonly hasIds: boolean;
}

const known = new WeakMap<WorldMarket, MarketSeries>();

function listSeries(market: WorldMarket): MarketSeries {
  const series = known.get(market) ?? computeSeries(market);
  known.set(market, series);
  return series;
}

function computeSeries({ symbol, ticks }: WorldMarket): MarketSeries {
  const key = createSeriesKey(1, symbol);
  const columns: TickColumns = {
    t: Float64Array.from(ticks, ({ t }) => t),
    p: Float64Array.from(ticks, ({ prices }) => prices[0]!.p),
  };
  const hasIds = key % 3 !== 0;
  return {
    quotes: computeQuotes(key, columns).map(({ t, bid, ask, bidSize, askSize }) => ({
      symbol,
      t,
      bid,
      ask,
      bid_size: bidSize,
      ask_size: askSize,
    })),
    trades: computeTrades(key, columns).map(({ t, tradeId, price, size, aggressor, isBlock }) => ({
      symbol,
      t,
      price,
      trade_id: hasIds ? tradeId : null,
      // Without identifiers, those of one millisecond are often equal.
      size: hasIds ? size : 1 + (size % 2),
      aggressor: hasIds ? aggressor : 'buy',
      block: isBlock ? true : t % 2 === 0 ? false : null,
    })),
    hasIds,
  };
}

/** A row with another content for the same key, as a venue that corrects itself sends it. */
const correct = (line: Line, version: number): Line => {
  if (version === 0) return line;
  if ('price' in line)
    return { ...line, size: (line.size as number) + version, aggressor: version === 1 ? 'sell' : null };
  return line.bid === null
    ? { ...line, ask_size: (line.ask_size as number) + version }
    : { ...line, bid_size: version === 1 ? null : (line.bid_size as number) + version };
};

/**
 * The rows of a file: those of a window, some of them corrected, now and then one of them in two versions. A file has all
 * trades with identifiers of a millisecond or none of them, because they share their precedence.
 */
function drawLines(draw: Draw, market: WorldMarket, dataset: SeriesName, { from, to }: Window): Line[] {
  const series = listSeries(market);
  const isKey = dataset === 'quotes' || series.hasIds;
  const share = draw.one([0, 0, 0.1, 0.4]);
  const drawVersion = (): number => (isKey && draw.chance(share) ? 1 + draw.below(2) : 0);
  const lines = series[dataset]
    .filter(({ t }) => from <= t && t < to)
    .flatMap((line) => {
      const copies = draw.chance(0.03) ? 2 : 1;
      // Of equal trades, a file that was cut in the middle of a millisecond lacks some.
      if (!isKey && draw.chance(0.1)) return [];
      return Array.from({ length: copies }, () => correct(line, drawVersion()));
    });
  return draw.chance(0.2) ? lines.reverse() : lines;
}

/** A window with at least one tick of the market, up to now. */
function drawWindow(draw: Draw, { ticks }: WorldMarket, nowMs: number): Window {
  const past = ticks.filter(({ t }) => t < nowMs).slice(-40);
  const { t } = draw.one(past);
  const from = t - draw.below(12 * hourMs);
  return { from, to: Math.min(nowMs, t + 1 + draw.below(draw.one([hourMs, 2 * dayMs]))) };
}

/** Whole seconds: file systems do not keep every fraction. */
function drawTime(draw: Draw, nowMs: number): number {
  const seconds = Math.floor(nowMs / 1000) - (draw.chance(0.5) ? 0 : draw.below((3 * dayMs) / 1000));
  return seconds * 1000;
}

/** Draws the input of an import of quotes and trades: new files, or those of an earlier import. Null without any rows. */
export function drawSeriesInput(lake: Lake): SeriesInput | null {
  const { draw, world, timeline, seriesInputs } = lake;
  if (seriesInputs.length > 0 && draw.chance(0.2)) return draw.one(seriesInputs);
  const nowMs = timeline.nowMs();
  const markets = world.markets.filter(({ ticks }) => ticks.some(({ t }) => t < nowMs));
  if (markets.length === 0) return null;
  const dataset = draw.one(['quotes', 'trades', null] as const);
  const first = draw.one(markets);
  const window = drawWindow(draw, first, nowMs);
  const paths = Array.from({ length: 1 + draw.below(3) }, (_, i) => {
    const of = dataset ?? (i % 2 === 0 ? 'quotes' : 'trades');
    const others = draw.chance(0.3) ? [draw.one(markets)] : [];
    const lines = [...new Set([first, ...others])].flatMap((market) => drawLines(draw, market, of, window));
    // A file of trades is recognized by the column of identifiers, unless the dataset is named.
    const needsIds = dataset === null || lines.some(({ trade_id: id }) => id !== null);
    const texts = lines.map(({ trade_id: id, ...line }) =>
      JSON.stringify(of === 'trades' && needsIds ? { ...line, trade_id: id } : line),
    );
    return lines.length === 0 ? null : lake.recording(`${texts.join('\n')}\n`, 'ndjson', drawTime(draw, nowMs));
  }).filter((path) => path !== null);
  if (paths.length === 0) return null;
  const input = { paths, dataset, covers: draw.chance(0.5) ? window : null };
  seriesInputs.push(input);
  return input;
}
