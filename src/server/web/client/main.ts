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

/** Without a key: what everybody sees, and the question for one. */
function showSignIn(why: string | null = null): void {
  disposeView();
  [renderView, disposeView] = [() => {}, () => {}];
  archiveSection.replaceChildren();
  showKeyForm(() => void loadArchive(), why);
}

/** With a key: the manifest first, as days and files are read from it. */
async function loadArchive(): Promise<void> {
  archiveSection.replaceChildren(renderLoading('Reading what the archive has…'));
  showKeyState(() => showSignIn());
  try {
    renderArchive(await fetchJson<Manifest>('/api/v1/export'));
  } catch (error) {
    // A refused key has led back to the question for one already.
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
  const found = createSearch(chooseSymbol);
  const place = createElement('div', {});
  const timeless = renderUndatedFiles(manifest);
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
      place.replaceChildren(symbolShown?.view.root ?? '');
    }
    if (focusNext === 'symbol') symbolShown?.view.heading.focus();
    void symbolShown?.view.show(view);
    document.title = symbol === null ? 'oddslake: what is in this archive' : `${symbol} · oddslake`;
  };
  let drawnFor = '';
  renderView = (view) => {
    showDay(view);
    const { day, ...rest } = view;
    const asked = JSON.stringify(rest);
    // Another day leaves the chart alone.
    if (asked !== drawnFor) showSymbol(view);
    drawnFor = asked;
    focusNext = null;
  };
  disposeView = () => symbolShown?.view.destroy();

  archiveSection.replaceChildren(
    createElement(
      'section',
      { 'aria-labelledby': 'symbols-title' },
      createElement('h2', { id: 'symbols-title' }, 'Symbols'),
      found.root,
      place,
    ),
    createElement(
      'section',
      { 'aria-labelledby': 'days-title' },
      createElement('h2', { id: 'days-title' }, 'Coverage by day'),
      Object.keys(manifest.days).length === 0
        ? createElement('p', { class: 'empty' }, 'The archive has no day yet.')
        : createElement('p', { class: 'note' }, 'Choose a day for its files. With the keyboard: arrows, Home and End.'),
      days.root,
      files,
    ),
    timeless === null
      ? ''
      : createElement(
          'section',
          { 'aria-labelledby': 'files-title' },
          createElement('h2', { id: 'files-title' }, 'Other files'),
          timeless,
        ),
  );
  days.root.hidden = Object.keys(manifest.days).length === 0;
  found.start();
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

/** Asks for a key, and says why where one was refused; `onKey` goes on with it. */
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
  // The field has no name and the form no target: nothing can put the key into an address.
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
      'Days, symbols, charts and files are for holders of a key. It stays in this tab, and goes when you forget it or close the tab.',
    ),
  );
  const told = createElement('div', {}, why === null ? null : renderError(why));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!/^[\x21-\x7e]+$/.test(text)) {
      told.replaceChildren(renderError('A key has letters, digits and signs only, without spaces.'));
      return;
    }
    apiKeyStore.keep(text);
    getElementById('key').hidden = true;
    onKey();
  });
  const section = getElementById('key');
  section.replaceChildren(section.querySelector('h2')!, told, form);
  section.hidden = false;
  if (why !== null) input.focus();
}

/** Says that a key is in use, and lets it be forgotten. */
export function showKeyState(onForget: () => void): void {
  const forget = createElement('button', { type: 'button', id: 'forget' }, 'Forget the key');
  forget.addEventListener('click', () => {
    apiKeyStore.forget();
    onForget();
  });
  getElementById('key-state').replaceChildren(createElement('span', { class: 'note' }, 'Key in use'), forget);
}
