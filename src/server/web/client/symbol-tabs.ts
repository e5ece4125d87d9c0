import { hasRows } from './api.ts';
import { renderBookPanel } from './book-panel.ts';
import { renderConflictsPanel } from './conflicts-panel.ts';
import { html } from './dom.ts';
import { renderMarketPanel } from './market-panel.ts';
import { updateView } from './navigation.ts';
import type { TabContext } from './symbol-facts.ts';
import type { TabName } from './symbol-state.ts';
import type { Market } from './timeline.ts';
import { renderTradesPanel } from './trades-panel.ts';
import type { TimeRange, View } from './view.ts';

interface Tab {
  readonly name: TabName;
  readonly label: string;
  readonly render: (context: TabContext) => HTMLElement;
  /** The parts of the context that the content depends on. */
  readonly keyOf: (context: TabContext) => unknown;
}

const marketTab: Tab = {
  name: 'market',
  label: 'Market',
  render: ({ market, signal }) => renderMarketPanel(market!, signal),
  keyOf: ({ view }) => [view.range, view.span, view.chart, view.scale, view.compare],
};

/** A tab that is shown if the archive has rows of the symbol in one of these datasets. */
interface OptionalTab extends Tab {
  readonly datasets: readonly string[];
}

const ofRange = ({ range, view }: TabContext): unknown => [range, view.code];

const optionalTabs: readonly OptionalTab[] = [
  { name: 'book', label: 'Order book', render: renderBookPanel, keyOf: ofRange, datasets: ['orderbooks', 'quotes'] },
  { name: 'trades', label: 'Trades', render: renderTradesPanel, keyOf: ofRange, datasets: ['trades'] },
  { name: 'conflicts', label: 'Conflicts', render: renderConflictsPanel, keyOf: ofRange, datasets: ['conflicts'] },
];

/** Creates the tabs of a symbol. Those without data are absent. */
export function createTabs(symbol: string, market: Market | null) {
  const nav = html`<div class="joined" role="group" aria-label="More about the symbol"></div>`;
  const body = html`<div class="tab-body"></div>`;
  const root = html`<section class="tabs" aria-label="More about the symbol" hidden>${nav}${body}</section>`;
  let shownKey = '';
  let running = new AbortController();
  const tabs: Tab[] = market === null ? [] : [marketTab];
  const searching = new AbortController();
  let again = (): void => {};
  const findTabs = async (): Promise<void> => {
    const hasAny = async ({ datasets }: OptionalTab): Promise<boolean> =>
      (await Promise.all(datasets.map((name) => hasRows(name, symbol, searching.signal)))).includes(true);
    const found = await Promise.all(optionalTabs.map(hasAny));
    if (searching.signal.aborted) return;
    tabs.push(...optionalTabs.filter((_, i) => found[i]));
    again();
  };
  void findTabs();
  return {
    root,
    show(view: View, range: TimeRange): void {
      again = () => this.show(view, range);
      root.hidden = tabs.length === 0;
      const tab = tabs.find(({ name }) => name === view.tab) ?? tabs[0];
      if (tab === undefined) return;
      for (const button of nav.querySelectorAll('button'))
        button.setAttribute('aria-pressed', String(button.dataset.tab === tab.name));
      if (nav.children.length !== tabs.length) {
        nav.replaceChildren(
          ...tabs.map(
            ({ name, label }) => html`
              <button type="button" data-tab=${name} aria-pressed=${String(name === tab.name)}
                @click=${() => updateView({ tab: name === tabs[0]!.name ? undefined : name })}>
                ${label}
              </button>`,
          ),
        );
      }
      const context = { symbol, market, range, view };
      const key = JSON.stringify([tab.name, tab.keyOf({ ...context, signal: running.signal })]);
      if (key === shownKey) return;
      shownKey = key;
      running.abort();
      running = new AbortController();
      body.replaceChildren(tab.render({ ...context, signal: running.signal }));
    },
    destroy(): void {
      searching.abort();
      running.abort();
    },
  };
}
