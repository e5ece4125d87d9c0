import { apiKeyStore, fetchJson, isAbortError, toErrorMessage } from './api.ts';
import type { Manifest } from './archive-file.ts';
import { createElement, getElementById, renderError, renderLoading } from './dom.ts';
import { renderDayFiles, renderHeatmap, renderUndatedFiles } from './heatmap.ts';
import { getView, subscribeToView, updateView } from './navigation.ts';
import { createSearch } from './search.ts';
import { createSymbolView } from './symbol-view.ts';
import type { View } from './view.ts';

const archiveSection = getElementById('rest');
let renderView: (view: View) => void = () => {};
let disposeView: () => void = () => {};

/** The view without a key: the totals, and the form for a key. */
function showSignIn(why: string | null = null): void {
  disposeView();
  [renderView, disposeView] = [() => {}, () => {}];
  archiveSection.replaceChildren();
  showKeyForm(() => void loadArchive(), why);
}

/** The view with a key: loads the manifest, which has the days and files. */
async function loadArchive(): Promise<void> {
  archiveSection.replaceChildren(renderLoading('Loading the archive…'));
  showKeyState(() => showSignIn());
  try {
    renderArchive(await fetchJson<Manifest>('/api/v1/export'));
  } catch (error) {
    // If the key was rejected, the form for a key is already shown.
    if (apiKeyStore.read() !== null && !isAbortError(error))
      archiveSection.replaceChildren(renderError(toErrorMessage(error), () => void loadArchive()));
  }
}

function renderArchive(manifest: Manifest): void {
  const chooseSymbol = (symbol: string): void => {
    focusNext = 'symbol';
    updateView({ symbol, range: null });
  };
  const days = renderHeatmap(manifest.days, (day) => {
    focusNext = 'day';
    updateView({ day });
    if (getView().day === day) showDay(getView());
  });
  const files = createElement('div', {});
  const search = createSearch(chooseSymbol);
  const symbolPanel = createElement('div', {});
  const undatedFiles = renderUndatedFiles(manifest);
  let focusNext: 'symbol' | 'day' | null = null;
  let symbolShown: { readonly name: string; readonly view: ReturnType<typeof createSymbolView> } | null = null;
  let dayShown: string | null = null;

  const showDay = ({ day }: View): void => {
    if (day !== dayShown) {
      days.mark(day);
      files.replaceChildren(day === null ? '' : renderDayFiles(manifest, day, chooseSymbol));
      dayShown = day;
    }
    if (focusNext === 'day') files.querySelector('h3')?.focus();
  };
  const showSymbol = (view: View): void => {
    const { symbol } = view;
    if (symbol !== (symbolShown?.name ?? null)) {
      symbolShown?.view.destroy();
      symbolShown = symbol === null ? null : { name: symbol, view: createSymbolView(symbol) };
      symbolPanel.replaceChildren(symbolShown?.view.root ?? '');
    }
    if (focusNext === 'symbol') symbolShown?.view.heading.focus();
    void symbolShown?.view.show(view);
    document.title = symbol === null ? 'oddslake: contents of this archive' : `${symbol} · oddslake`;
  };
  let drawnFor = '';
  renderView = (view) => {
    showDay(view);
    const { day, ...rest } = view;
    const viewKey = JSON.stringify(rest);
    // Selecting another day does not redraw the chart.
    if (viewKey !== drawnFor) showSymbol(view);
    drawnFor = viewKey;
    focusNext = null;
  };
  disposeView = () => symbolShown?.view.destroy();

  archiveSection.replaceChildren(
    createElement(
      'section',
      { 'aria-labelledby': 'symbols-title' },
      createElement('h2', { id: 'symbols-title' }, 'Symbols'),
      search.root,
      symbolPanel,
    ),
    createElement(
      'section',
      { 'aria-labelledby': 'days-title' },
      createElement('h2', { id: 'days-title' }, 'Coverage by day'),
      Object.keys(manifest.days).length === 0
        ? createElement('p', { class: 'empty' }, 'The archive has no days yet.')
        : createElement('p', { class: 'note' }, 'Select a day to list its files. Keyboard: arrow keys, Home and End.'),
      days.root,
      files,
    ),
    undatedFiles === null
      ? ''
      : createElement(
          'section',
          { 'aria-labelledby': 'files-title' },
          createElement('h2', { id: 'files-title' }, 'Other files'),
          undatedFiles,
        ),
  );
  days.root.hidden = Object.keys(manifest.days).length === 0;
  search.start();
  renderView(getView());
}

apiKeyStore.onRefused((why) => {
  if (apiKeyStore.read() === null) return;
  apiKeyStore.forget();
  showSignIn(why);
});
subscribeToView((view) => renderView(view));
if (apiKeyStore.read() === null) showSignIn();
else {
  getElementById('key').hidden = true;
  void loadArchive();
}

/** Renders the form for a key, with the reason if a key was rejected. Calls `onKey` when a key is entered. */
export function showKeyForm(onKey: () => void, why: string | null = null): void {
  getElementById('key-state').replaceChildren();
  const input = createElement('input', {
    id: 'key-input',
    type: 'password',
    autocomplete: 'off',
    autocapitalize: 'off',
    spellcheck: 'false',
    required: true,
    maxlength: 4096,
    'aria-describedby': 'key-note',
  });
  // Neither the field nor the form has a name or target, so that the key can never be in a URL.
  const form = createElement(
    'form',
    { class: 'key-form' },
    createElement('label', { for: 'key-input' }, 'Market data key'),
    createElement(
      'div',
      { class: 'joined' },
      input,
      createElement('button', { type: 'submit', class: 'primary' }, 'Open the archive'),
    ),
    createElement(
      'p',
      { id: 'key-note', class: 'note' },
      'A key is required for days, symbols, charts and files. It is stored for this tab only, until you close the tab or select "Forget the key".',
    ),
  );
  const message = createElement('div', {}, why === null ? null : renderError(why));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!/^[\x21-\x7e]+$/.test(text)) {
      message.replaceChildren(renderError('A key consists of letters, digits and punctuation, without spaces.'));
      return;
    }
    apiKeyStore.keep(text);
    getElementById('key').hidden = true;
    onKey();
  });
  const section = getElementById('key');
  section.replaceChildren(section.querySelector('h2')!, message, form);
  section.hidden = false;
  if (why !== null) input.focus();
}

/** Renders the state of the key and a button to forget it. */
export function showKeyState(onForget: () => void): void {
  const forget = createElement('button', { type: 'button', id: 'forget' }, 'Forget the key');
  forget.addEventListener('click', () => {
    apiKeyStore.forget();
    onForget();
  });
  getElementById('key-state').replaceChildren(createElement('span', { class: 'note' }, 'Key in use'), forget);
}
