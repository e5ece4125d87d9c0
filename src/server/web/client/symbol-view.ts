import { formatCount } from '../../../base/format-quantity.ts';
import { ApiError, hasRows, isAbortError, toErrorMessage } from './api.ts';
import { Chart } from './chart.ts';
import { formatCaption, formatSummary, renderChartKey } from './chart-caption.ts';
import type { ChartData } from './chart-data.ts';
import { renderCode } from './code-panel.ts';
import { fetchConflicts } from './conflicts-panel.ts';
import { html, renderError, renderLoading } from './dom.ts';
import { renderSliceDownloads } from './download.ts';
import { formatTime } from './format.ts';
import type { TickLifetime } from './lines.ts';
import { loadChartData } from './load-symbol.ts';
import { getView, updateView } from './navigation.ts';
import { renderRangeControls, resolveRange } from './range-controls.ts';
import type { Selection } from './snippets.ts';
import { fetchFoundSymbol, fetchMarket, fetchTickLifetime, renderFacts, renderNotCollected } from './symbol-facts.ts';
import { createTabs } from './symbol-tabs.ts';
import type { Market } from './timeline.ts';
import { noTradeMarks, type TradeMarks } from './trade-marks.ts';
import { fetchTradeMarks } from './trades-panel.ts';
import type { TimeRange, View } from './view.ts';

interface LoadedSymbol {
  readonly market: Market | null;
  readonly life: TickLifetime;
  readonly bounds: TimeRange;
}

interface ComparedSymbol {
  readonly symbol: string;
  /** Null if it cannot be shown. */
  readonly life: TickLifetime | null;
  readonly why: string | null;
}

interface DrawnChart {
  readonly chart: Chart;
  readonly loaded: ChartData;
  readonly kind: View['chart'];
  /** The parts of the view that it depends on. */
  readonly key: string;
  conflictCount: number;
  trades: TradeMarks;
}

/** A symbol with its chart, which is updated when the view changes. */
export class SymbolView {
  readonly root: HTMLElement;
  readonly heading: HTMLElement;
  private readonly symbol: string;
  private readonly about = html`<div class="about">${renderLoading('Loading the symbol…')}</div>`;
  private readonly controls = html`<div></div>`;
  private readonly figure = html`<figure aria-busy="true"></figure>`;
  private readonly code = html`<div></div>`;
  private readonly below = html`<div></div>`;
  private readonly living = new AbortController();
  private running = new AbortController();
  private loaded: LoadedSymbol | null = null;
  private compared: ComparedSymbol | null = null;
  private drawn: DrawnChart | null = null;
  private tabs: ReturnType<typeof createTabs> | null = null;
  /** Whether the archive has trades of the symbol; null until that is known. */
  private hasTradeRows: boolean | null = null;

  constructor(symbol: string) {
    this.symbol = symbol;
    this.heading = html`<h3 class="ticker" tabindex="-1" aria-level="1">${symbol}</h3>`;
    const parts = [this.heading, this.about, this.controls, this.figure, this.code, this.below];
    this.root = html`<article class="panel symbol">${parts}</article>`;
  }

  async show(view: View): Promise<void> {
    const { figure } = this;
    this.running.abort();
    this.running = new AbortController();
    const { signal } = this.running;
    figure.setAttribute('aria-busy', 'true');
    try {
      this.loaded ??= await this.loadSymbol(signal);
      if (this.loaded === null)
        return figure.replaceChildren(html`<p class="empty">The archive has no ticks for this symbol.</p>`);
      await this.showLoaded(this.loaded, view, signal);
    } catch (error) {
      if (isAbortError(error)) return;
      this.about.querySelector('.waiting')?.remove();
      this.drawn?.chart.destroy();
      this.drawn = null;
      figure.replaceChildren(renderError(toErrorMessage(error), () => void this.show(view)));
    } finally {
      if (!signal.aborted) figure.removeAttribute('aria-busy');
    }
  }

  destroy(): void {
    this.running.abort();
    this.living.abort();
    this.tabs?.destroy();
    this.drawn?.chart.destroy();
  }

  private async loadSymbol(signal: AbortSignal): Promise<LoadedSymbol | null> {
    const market = await fetchMarket(this.symbol, signal);
    const [life, found] = await Promise.all([
      fetchTickLifetime(this.symbol, market, signal),
      fetchFoundSymbol(this.symbol, signal),
    ]);
    this.about.replaceChildren(
      ...(market === null ? [] : renderFacts(market, found)),
      (found && renderNotCollected(found)) ?? '',
    );
    return life === null ? null : { market, life, bounds: { from: life.first, to: life.last + 1 } };
  }

  private async showLoaded(symbol: LoadedSymbol, view: View, signal: AbortSignal): Promise<void> {
    const { market, bounds } = symbol;
    const range = resolveRange(view, bounds);
    const rangeControls = renderRangeControls(this.symbol, view, range, bounds);
    this.addTradesToggle(rangeControls, view);
    replaceKeepingFocus(this.controls, rangeControls);
    if (this.hasTradeRows === null) void this.findTrades();
    const drawn = await this.draw(symbol, view, range, signal);
    void this.markTrades(drawn, view, signal);
    const note = formatUnpublished(drawn.loaded, market);
    const code = renderCode('these prices', toSelection(drawn.loaded), view.code ?? 'duckdb', note);
    replaceKeepingFocus(this.code, html`<div>${code}${renderSliceDownloads(this.symbol, range)}</div>`);
    if (this.tabs === null) {
      this.tabs = createTabs(this.symbol, market);
      this.below.replaceChildren(this.tabs.root);
    }
    this.tabs.show(view, range);
  }

  private async findTrades(): Promise<void> {
    this.hasTradeRows = await hasRows('trades', this.symbol, this.living.signal);
    const shown = this.controls.querySelector<HTMLElement>('.controls');
    if (shown !== null && !this.living.signal.aborted) this.addTradesToggle(shown, getView());
  }

  /** Adds the button that marks the trades, once it is known that there are some. */
  private addTradesToggle(rangeControls: HTMLElement, view: View): void {
    if (this.hasTradeRows !== true) return;
    const isOn = view.marks === 'trades';
    const toggle = (): void => updateView({ marks: isOn ? undefined : 'trades' });
    rangeControls.querySelector('[data-marks]')?.remove();
    rangeControls.querySelector('.exact')?.before(html`
      <div data-marks>
        <button type="button" aria-pressed=${String(isOn)} aria-label="Mark the trades in the chart" @click=${toggle}>Trades</button>
      </div>`);
  }

  private async draw(
    { life, bounds }: LoadedSymbol,
    view: View,
    range: TimeRange,
    signal: AbortSignal,
  ): Promise<DrawnChart> {
    const { symbol, figure, drawn: before } = this;
    const key = JSON.stringify([range, view.chart, view.scale, view.compare]);
    if (before?.key === key) return before;
    if (before === null) figure.replaceChildren(renderLoading('Loading prices…'));
    else before.chart.preview(range);
    this.compared = await this.loadCompared(view, signal);
    const { compared } = this;
    const second = compared?.life == null ? [] : [{ symbol: compared.symbol, life: compared.life }];
    const loaded = await loadChartData([{ symbol, life }, ...second], range, view.chart, signal);
    this.drawn?.chart.destroy();
    const chart = new Chart(loaded, {
      kind: view.chart,
      scale: view.scale,
      label: formatSummary(symbol, loaded),
      bounds,
      zoom: (marked) => updateView({ range: marked, span: undefined }),
    });
    const drawn = { chart, loaded, kind: view.chart, key, conflictCount: 0, trades: noTradeMarks };
    this.drawn = drawn;
    figure.replaceChildren(
      chart.root,
      html`
        <figcaption>
          ${compared?.why && html`<p class="failed">${compared.symbol}: ${compared.why}</p>`}
          ${formatCaption(loaded)}
          ${renderChartKey(loaded, view.chart, 0, noTradeMarks)}
        </figcaption>`,
    );
    chart.start();
    void this.markConflicts(drawn, signal);
    return drawn;
  }

  /** The second symbol of the plot; null if there is none. */
  private async loadCompared({ compare }: View, signal: AbortSignal): Promise<ComparedSymbol | null> {
    if (compare === undefined || compare === this.symbol) return null;
    if (this.compared?.symbol === compare) return this.compared;
    try {
      const market = await fetchMarket(compare, signal);
      const life = await fetchTickLifetime(compare, market, signal);
      return { symbol: compare, life, why: life === null ? 'The archive has no ticks for it.' : null };
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
      return { symbol: compare, life: null, why: error.message };
    }
  }

  /** Marks the conflicts of the range; without them, if the key does not permit it. */
  private async markConflicts(drawn: DrawnChart, signal: AbortSignal): Promise<void> {
    const { rows } = await fetchConflicts(this.symbol, drawn.loaded.range, signal).catch(() => ({ rows: [] }));
    if (rows.length === 0 || this.drawn !== drawn) return;
    drawn.chart.markConflicts(rows);
    drawn.conflictCount = rows.length;
    this.updateKey(drawn);
  }

  /** Marks the trades of the range, or removes the marks. */
  private async markTrades(drawn: DrawnChart, view: View, signal: AbortSignal): Promise<void> {
    const isOff = view.marks === undefined;
    if (isOff && drawn.trades.count === 0) return;
    try {
      const found = isOff ? noTradeMarks : await fetchTradeMarks(this.symbol, drawn.loaded.range, signal);
      if (this.drawn !== drawn || signal.aborted) return;
      drawn.trades = found;
      drawn.chart.markTrades(found);
      this.updateKey(drawn);
    } catch (error) {
      if (isAbortError(error)) return;
      const again = (): void => void this.markTrades(drawn, view, signal);
      this.figure.querySelector('figcaption')?.append(renderError(toErrorMessage(error), again));
    }
  }

  private updateKey({ loaded, kind, conflictCount, trades }: DrawnChart): void {
    this.figure.querySelector('.keys')?.replaceWith(renderChartKey(loaded, kind, conflictCount, trades));
  }
}

/** The rows that a chart shows. */
function toSelection({ symbols: loaded, range, ...rest }: ChartData): Selection {
  const symbols = loaded.map(({ symbol }) => symbol);
  if (rest.kind === 'ticks') return { name: 'ticks', symbols, ...range };
  return { name: 'candles', symbols, ...range, parameters: { interval: rest.interval.name } };
}

/** Says how many ticks the code does not load, because they are not published. */
function formatUnpublished(loaded: ChartData, market: Market | null): string {
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
