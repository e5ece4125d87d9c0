import { ApiError, isAbortError, toErrorMessage } from './api.ts';
import { createChart } from './chart.ts';
import { formatCaption, formatSummary, renderChartKey } from './chart-caption.ts';
import type { ChartData } from './chart-data.ts';
import { renderCode } from './code-panel.ts';
import { renderCompareField } from './compare-field.ts';
import { fetchConflicts } from './conflicts-panel.ts';
import { createElement, renderError, renderLoading } from './dom.ts';
import { renderSliceDownloads } from './download.ts';
import { formatCount, formatTime } from './format.ts';
import type { TickLifetime } from './lines.ts';
import { loadChartData } from './load-symbol.ts';
import { getView, updateView } from './navigation.ts';
import { renderRangeControls, resolveRange } from './range-controls.ts';
import type { Selection } from './snippets.ts';
import {
  fetchFoundSymbol,
  fetchMarket,
  fetchTickLifetime,
  renderFacts,
  renderNotCollected,
  type SymbolMarket,
} from './symbol-facts.ts';
import { createTabs } from './symbol-tabs.ts';
import { noTradeMarks } from './trade-marks.ts';
import { fetchTradeMarks, hasTrades } from './trades-panel.ts';
import type { TimeRange, View } from './view.ts';

interface LoadedSymbol {
  readonly market: SymbolMarket | null;
  readonly life: TickLifetime;
  readonly bounds: TimeRange;
}

interface ComparedSymbol {
  readonly symbol: string;
  /** Null if it cannot be shown. */
  readonly life: TickLifetime | null;
  readonly why: string | null;
}

/** Renders a symbol with its chart, and updates the chart when the view changes. */
export function createSymbolView(symbol: string) {
  const heading = createElement('h3', { class: 'ticker', tabindex: -1, 'aria-level': 1 }, symbol);
  const about = createElement('div', { class: 'about' }, renderLoading('Loading the symbol…'));
  const controls = createElement('div', {});
  const figure = createElement('figure', { 'aria-busy': 'true' });
  const code = createElement('div', {});
  const below = createElement('div', {});
  const root = createElement('article', { class: 'panel symbol' }, heading, about, controls, figure, code, below);
  let running = new AbortController();
  let chart: ReturnType<typeof createChart> | null = null;
  let loadedSymbol: LoadedSymbol | null = null;
  let tabs: ReturnType<typeof createTabs> | null = null;
  let compared: ComparedSymbol | null = null;
  const living = new AbortController();
  /** Whether the archive has trades of the symbol; null until that is known. */
  let hasTradeRows: boolean | null = null;
  let conflictCount = 0;
  let trades = noTradeMarks;
  /** The chart that is shown, and the parts of the view that it depends on. */
  let drawn: { readonly key: string; readonly loaded: ChartData } | null = null;

  const loadSymbol = async (signal: AbortSignal): Promise<LoadedSymbol | null> => {
    const market = await fetchMarket(symbol, signal);
    const [life, found] = await Promise.all([
      fetchTickLifetime(symbol, market, signal),
      fetchFoundSymbol(symbol, signal),
    ]);
    about.replaceChildren(
      ...(market === null ? [] : renderFacts(market, found)),
      ...(found === null ? [] : renderNotCollected(found)),
    );
    return life === null ? null : { market, life, bounds: { from: life.first, to: life.last + 1 } };
  };
  /** The second symbol of the plot; null if there is none. */
  const loadCompared = async ({ compare }: View, signal: AbortSignal): Promise<ComparedSymbol | null> => {
    if (compare === undefined || compare === symbol) return null;
    if (compared?.symbol === compare) return compared;
    try {
      const market = await fetchMarket(compare, signal);
      const life = await fetchTickLifetime(compare, market, signal);
      return { symbol: compare, life, why: life === null ? 'The archive has no ticks for it.' : null };
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
      return { symbol: compare, life: null, why: error.message };
    }
  };
  /** Marks the conflicts of the range; without them, if the key does not permit it. */
  const markConflicts = async (
    on: NonNullable<typeof chart>,
    loaded: ChartData,
    view: View,
    signal: AbortSignal,
  ): Promise<void> => {
    const { conflicts } = await fetchConflicts(symbol, loaded.range, signal).catch(() => ({ conflicts: [] }));
    if (conflicts.length === 0 || chart !== on) return;
    on.markConflicts(conflicts);
    conflictCount = conflicts.length;
    updateKey(loaded, view);
  };
  const updateKey = (loaded: ChartData, view: View): void =>
    figure.querySelector('.keys')?.replaceWith(renderChartKey(loaded, view.chart, conflictCount, trades));
  /** Marks the trades of the range, or removes the marks. */
  const markTrades = async (
    on: NonNullable<typeof chart>,
    loaded: ChartData,
    view: View,
    signal: AbortSignal,
  ): Promise<void> => {
    if (view.marks === undefined && trades.count === 0) return;
    try {
      const found = view.marks === undefined ? noTradeMarks : await fetchTradeMarks(symbol, loaded.range, signal);
      if (chart !== on || signal.aborted) return;
      trades = found;
      on.markTrades(trades);
      updateKey(loaded, view);
    } catch (error) {
      if (isAbortError(error)) return;
      figure
        .querySelector('figcaption')
        ?.append(renderError(toErrorMessage(error), () => void markTrades(on, loaded, view, signal)));
    }
  };
  /** Adds the button that marks the trades, once it is known that there are some. */
  const addTradesToggle = (rangeControls: HTMLElement, view: View): void => {
    if (hasTradeRows !== true) return;
    const isOn = view.marks === 'trades';
    rangeControls.querySelector('[data-marks]')?.remove();
    const button = createElement(
      'button',
      { type: 'button', 'aria-pressed': String(isOn), 'aria-label': 'Mark the trades in the chart' },
      'Trades',
    );
    button.addEventListener('click', () => updateView({ marks: isOn ? undefined : 'trades' }));
    rangeControls.querySelector('.exact')?.before(createElement('div', { 'data-marks': '' }, button));
  };
  const drawChart = async (view: View, range: TimeRange, signal: AbortSignal): Promise<ChartData> => {
    const { life, bounds } = loadedSymbol!;
    const key = JSON.stringify([range, view.chart, view.scale, view.compare]);
    if (drawn?.key === key) return drawn.loaded;
    if (chart === null) figure.replaceChildren(renderLoading('Loading prices…'));
    else chart.preview(range);
    compared = await loadCompared(view, signal);
    const second = compared?.life == null ? [] : [{ symbol: compared.symbol, life: compared.life }];
    const loaded = await loadChartData([{ symbol, life }, ...second], range, view.chart, signal);
    chart?.destroy();
    [conflictCount, trades] = [0, noTradeMarks];
    chart = createChart(loaded, {
      kind: view.chart,
      scale: view.scale,
      label: formatSummary(symbol, loaded),
      bounds,
      zoom: (marked) => updateView({ range: marked, span: undefined }),
    });
    figure.replaceChildren(
      chart.root,
      createElement(
        'figcaption',
        {},
        compared?.why == null ? null : createElement('p', { class: 'failed' }, `${compared.symbol}: ${compared.why}`),
        formatCaption(loaded),
        renderChartKey(loaded, view.chart, conflictCount, trades),
      ),
    );
    chart.start();
    drawn = { key, loaded };
    void markConflicts(chart, loaded, view, signal);
    return loaded;
  };

  const show = async (view: View): Promise<void> => {
    running.abort();
    running = new AbortController();
    const { signal } = running;
    figure.setAttribute('aria-busy', 'true');
    try {
      loadedSymbol ??= await loadSymbol(signal);
      if (loadedSymbol === null) {
        figure.replaceChildren(createElement('p', { class: 'empty' }, 'The archive has no ticks for this symbol.'));
        return;
      }
      const { market, bounds } = loadedSymbol;
      const range = resolveRange(view, bounds);
      const rangeControls = renderRangeControls(view, range, bounds);
      rangeControls.append(renderCompareField(symbol, view.compare));
      addTradesToggle(rangeControls, view);
      replaceKeepingFocus(controls, rangeControls);
      if (hasTradeRows === null)
        // A key may not permit the dataset: then there is no button.
        void hasTrades(symbol, living.signal)
          .catch(() => false)
          .then((found) => {
            hasTradeRows = found;
            const shown = controls.querySelector<HTMLElement>('.controls');
            if (shown !== null && !living.signal.aborted) addTradesToggle(shown, getView());
          });
      const loaded = await drawChart(view, range, signal);
      if (chart !== null) void markTrades(chart, loaded, view, signal);
      replaceKeepingFocus(
        code,
        createElement(
          'div',
          {},
          renderCode('these prices', toSelection(loaded), view.code ?? 'duckdb', formatUnpublished(loaded, market)),
          renderSliceDownloads(symbol, range),
        ),
      );
      if (tabs === null) {
        tabs = createTabs(symbol, market);
        below.replaceChildren(tabs.root);
      }
      tabs.show(view, range);
    } catch (error) {
      if (isAbortError(error)) return;
      about.querySelector('.waiting')?.remove();
      chart?.destroy();
      [chart, drawn] = [null, null];
      figure.replaceChildren(renderError(toErrorMessage(error), () => void show(view)));
    } finally {
      if (!signal.aborted) figure.removeAttribute('aria-busy');
    }
  };
  return {
    root,
    heading,
    show,
    destroy(): void {
      running.abort();
      living.abort();
      tabs?.destroy();
      chart?.destroy();
    },
  };
}

/** The rows that a chart shows. */
function toSelection(loaded: ChartData): Selection {
  const common = { symbols: loaded.symbols.map(({ symbol }) => symbol), ...loaded.range };
  return loaded.kind === 'ticks'
    ? { name: 'ticks', path: '/api/v1/historical/ticks', ...common }
    : {
        name: 'candles',
        path: '/api/v1/historical/candles',
        ...common,
        parameters: { interval: loaded.interval.name },
      };
}

/** What the code does not load: it reads what is published. */
function formatUnpublished(loaded: ChartData, market: SymbolMarket | null): string {
  const published = market?.last_tick ?? null;
  if (loaded.kind === 'candles' || published === null) return '';
  const later = loaded.symbols[0]!.ticks.filter(({ t }) => t > published).length;
  const ticks = formatCount(later, 'tick');
  return later === 0 ? '' : `${ticks} after ${formatTime(published)} will be in it after the next publish. `;
}

/** Replaces the content. Keeps the focus on the same control, for keyboard users. */
function replaceKeepingFocus(container: HTMLElement, next: HTMLElement): void {
  const all = (root: HTMLElement) => [...root.querySelectorAll<HTMLElement>('button, input')];
  const nameOf = (one: HTMLElement): string => one.id || one.getAttribute('aria-label') || one.textContent;
  const focused = all(container).find((one) => one === document.activeElement);
  container.replaceChildren(next);
  if (focused !== undefined)
    all(next)
      .find((one) => nameOf(one) === nameOf(focused))
      ?.focus();
}
