import { apiKeyStore, fetchJson, isAbortError, isCataloguePublic, toErrorMessage } from './api.ts';
import type { Manifest } from './archive-file.ts';
import { renderCalendar } from './calendar.ts';
import { renderDayFiles, renderUndatedFiles } from './day-files.ts';
import { getElementById, html, keepFocus, renderError, renderLoading } from './dom.ts';
import { listDefault } from './list-view.ts';
import { getView, subscribeToView, updateView } from './navigation.ts';
import { renderSamples } from './sample-rows.ts';
import { SymbolSearch, takeSearchField } from './search.ts';
import { showSignedIn, showSignInForm, signInByLink, takeOneTimeKey } from './sign-in.ts';
import { SymbolView } from './symbol-view.ts';
import { formatHash, type View } from './view.ts';

/** `/` goes to the search, as on many pages; on the page of a symbol, it goes back to the list. */
addEventListener('keydown', (event) => {
  const target = event.target as HTMLElement;
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || target.matches('input, select, textarea'))
    return;
  const field = document.getElementById('search');
  if (field === null) return;
  event.preventDefault();
  updateView({ symbol: null, range: null });
  // The list is shown when the event of the new address has been handled.
  setTimeout(() => field.focus());
});

const archiveSection = getElementById('rest');
let renderView: (view: View) => void = () => {};
let disposeView: () => void = () => {};
let chooseSymbol: (symbol: string) => void = () => {};
/** The last view that was begun: what an earlier one loads is not shown, e.g. after signing out. */
let viewNumber = 0;

/** The view after signing out or without a key: the totals and the form, or the open archive. */
function showSignIn(why: string | null = null): void {
  disposeView();
  viewNumber++;
  [renderView, disposeView] = [() => {}, () => {}];
  archiveSection.replaceChildren();
  if (isCataloguePublic()) void loadArchive();
  else showSignInForm(() => void loadArchive(), why);
}

/** The view of a reader: loads the manifest, which has the days and files. */
async function loadArchive(): Promise<void> {
  const own = ++viewNumber;
  // The list does not wait for the manifest, and nothing that is typed meanwhile is lost.
  chooseSymbol = (symbol) => updateView({ symbol, range: null });
  const isSymbolShown = getView().symbol !== null;
  const isListShown = !isSymbolShown && archiveSection.dataset.empty === undefined;
  archiveSection.dataset.loading = '';
  // The totals belong to the list.
  document.body.dataset.page ??= isSymbolShown ? 'symbol' : 'list';
  const search = keepFocus(() => {
    const created = new SymbolSearch(takeSearchField(), (symbol) => chooseSymbol(symbol));
    archiveSection.replaceChildren(
      isListShown ? renderListSection(created.root) : '',
      renderLoading('Loading the archive…'),
    );
    return created;
  });
  showSignedIn(() => showSignIn());
  if (isListShown) {
    renderView = ({ symbol, list }) => symbol === null && search.show(list ?? listDefault);
    renderView(getView());
  }
  try {
    const manifest = await fetchJson<Manifest>('/api/v1/export');
    if (own === viewNumber) keepFocus(() => renderArchive(manifest, search));
  } catch (error) {
    // If the key was rejected, the form is already shown.
    if (own === viewNumber && (apiKeyStore.read() !== null || isCataloguePublic()) && !isAbortError(error))
      archiveSection.replaceChildren(renderError(toErrorMessage(error), () => void loadArchive()));
  } finally {
    delete archiveSection.dataset.loading;
  }
}

const renderListSection = (search: HTMLElement): HTMLElement => html`
  <section aria-labelledby="symbols-title" class="list-only">
    <h2 id="symbols-title">Symbols</h2>
    ${search}
  </section>`;

function renderArchive(manifest: Manifest, search: SymbolSearch): void {
  chooseSymbol = (symbol) => {
    focusNext = 'symbol';
    updateView({ symbol, range: null });
  };
  const isEmpty = manifest.generation === 0;
  const damaged = new Set((archiveSection.dataset.damaged ?? '').split(',').filter(Boolean));
  const days = renderCalendar({ days: manifest.days, damaged, today: archiveSection.dataset.today ?? '' }, (day) => {
    focusNext = 'day';
    updateView({ day });
    if (getView().day === day) showDay(getView());
  });
  const files = html`<div></div>`;
  const symbolPanel = html`<div></div>`;
  const undatedFiles = renderUndatedFiles(manifest);
  const back = html<HTMLAnchorElement>`<a class="back" href="#">‹ All symbols</a>`;
  const hasDays = Object.keys(manifest.days).length > 0;
  const daysSection = html`
    <section aria-labelledby="days-title">
      <h2 id="days-title">Coverage by day</h2>
      ${
        hasDays
          ? html`<p class="note">Days are UTC. Select one to download it. Keyboard: arrow keys, Page Up and Down, Home and End.</p>`
          : html`<p class="empty">The archive has no days yet.</p>`
      }
      ${days.root}
      ${files}
    </section>`;
  let focusNext: 'symbol' | 'day' | null = null;
  let symbolShown: { readonly name: string; readonly view: SymbolView } | null = null;
  let dayShown: string | null = null;

  const showDay = ({ day }: View): void => {
    if (day !== dayShown) {
      days.mark(day);
      files.replaceChildren(day === null ? '' : renderDayFiles(manifest, day, damaged.has(day), chooseSymbol));
      dayShown = day;
    }
    if (focusNext === 'day') files.querySelector('h3')?.focus();
  };
  const showSymbol = (view: View): void => {
    const { symbol } = view;
    if (symbol !== (symbolShown?.name ?? null)) {
      symbolShown?.view.destroy();
      symbolShown = symbol === null ? null : { name: symbol, view: new SymbolView(symbol) };
      symbolPanel.replaceChildren(symbolShown?.view.root ?? '');
    }
    if (focusNext === 'symbol') symbolShown?.view.heading.focus();
    void symbolShown?.view.show(view);
    showPage(view);
    document.title = symbol === null ? 'oddslake: contents of this archive' : `${symbol} · oddslake`;
  };
  let listScroll = 0;
  /** Shows the page of a symbol in place of the list; the list keeps its place. */
  const showPage = (view: View): void => {
    const page = view.symbol === null ? 'list' : 'symbol';
    const before = document.body.dataset.page;
    if (before !== 'symbol' && page === 'symbol') listScroll = scrollY;
    document.body.dataset.page = page;
    back.hidden = view.symbol === null;
    back.href = formatHash({ ...view, symbol: null, range: null });
    daysSection.hidden = view.symbol !== null && view.day === null;
    if (before === 'symbol' && page === 'list') scrollTo(0, listScroll);
  };
  let drawnFor = '';
  renderView = (view) => {
    showDay(view);
    if (view.symbol === null && !isEmpty) search.show(view.list ?? listDefault);
    const { day, ...rest } = view;
    const viewKey = JSON.stringify(rest);
    // Selecting another day does not redraw the chart.
    if (viewKey !== drawnFor) showSymbol(view);
    else showPage(view);
    drawnFor = viewKey;
    focusNext = null;
  };
  disposeView = () => symbolShown?.view.destroy();

  archiveSection.replaceChildren(
    isEmpty ? '' : renderListSection(search.root),
    back,
    symbolPanel,
    isEmpty ? '' : daysSection,
    undatedFiles === null
      ? ''
      : html`
          <section aria-labelledby="files-title" class="list-only">
            <h2 id="files-title">Other files</h2>
            ${undatedFiles}
          </section>`,
  );
  renderSamples();
  days.root.hidden = !hasDays;
  renderView(getView());
}

apiKeyStore.onRefused((why) => {
  if (apiKeyStore.read() === null) return;
  apiKeyStore.forget();
  showSignIn(why);
});
subscribeToView((view) => renderView(view));

async function start(): Promise<void> {
  const oneTimeKey = takeOneTimeKey();
  const why = oneTimeKey === null ? null : await signInByLink(oneTimeKey);
  // A link that was used before does not end the session that it began.
  if (apiKeyStore.read() === null && !isCataloguePublic()) return showSignIn(why);
  getElementById('key').hidden = true;
  await loadArchive();
}
void start();
