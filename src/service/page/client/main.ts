import { askJson, isAbort, key, sentenceOf } from './api.ts';
import type { Manifest } from './archive-file.ts';
import { dayFiles, timelessFiles } from './day-files.ts';
import { byId, el, failed, waiting } from './dom.ts';
import { heatmap } from './heatmap.ts';
import { askForKey, showKeyState } from './key-form.ts';
import { go, onView, viewed } from './navigation.ts';
import { search } from './search.ts';
import { symbolView } from './symbol-view.ts';
import type { View } from './view.ts';

const rest = byId('rest');
let show: (view: View) => void = () => {};
let leave: () => void = () => {};

/** Without a key: what everybody sees, and the question for one. */
function close(why: string | null = null): void {
  leave();
  [show, leave] = [() => {}, () => {}];
  rest.replaceChildren();
  askForKey(() => void open(), why);
}

/** With a key: the manifest first, as days and files are read from it. */
async function open(): Promise<void> {
  rest.replaceChildren(waiting('Reading what the archive has…'));
  showKeyState(() => close());
  try {
    build(await askJson<Manifest>('/api/v1/export'));
  } catch (error) {
    // A refused key has led back to the question for one already.
    if (key.read() !== null && !isAbort(error)) rest.replaceChildren(failed(sentenceOf(error), () => void open()));
  }
}

function build(manifest: Manifest): void {
  const chooseSymbol = (symbol: string): void => {
    focusNext = 'symbol';
    go({ symbol, range: null });
  };
  const days = heatmap(manifest.days, (day) => {
    focusNext = 'day';
    go({ day });
    if (viewed().day === day) showDay(viewed());
  });
  const files = el('div', {});
  const found = search(chooseSymbol);
  const place = el('div', {});
  const timeless = timelessFiles(manifest);
  let focusNext: 'symbol' | 'day' | null = null;
  let symbolShown: { readonly name: string; readonly view: ReturnType<typeof symbolView> } | null = null;
  let dayShown: string | null = null;

  const showDay = ({ day }: View): void => {
    if (day !== dayShown) {
      days.mark(day);
      files.replaceChildren(day === null ? '' : dayFiles(manifest, day, chooseSymbol));
      dayShown = day;
    }
    if (focusNext === 'day') files.querySelector('h3')?.focus();
  };
  const showSymbol = (view: View): void => {
    const { symbol } = view;
    if (symbol !== (symbolShown?.name ?? null)) {
      symbolShown?.view.destroy();
      symbolShown = symbol === null ? null : { name: symbol, view: symbolView(symbol) };
      place.replaceChildren(symbolShown?.view.root ?? '');
    }
    if (focusNext === 'symbol') symbolShown?.view.heading.focus();
    void symbolShown?.view.show(view);
    document.title = symbol === null ? 'oddslake: what is in this archive' : `${symbol} · oddslake`;
  };
  let drawnFor = '';
  show = (view) => {
    showDay(view);
    const { day, ...rest } = view;
    const asked = JSON.stringify(rest);
    // Another day leaves the chart alone.
    if (asked !== drawnFor) showSymbol(view);
    drawnFor = asked;
    focusNext = null;
  };
  leave = () => symbolShown?.view.destroy();

  rest.replaceChildren(
    el(
      'section',
      { 'aria-labelledby': 'symbols-title' },
      el('h2', { id: 'symbols-title' }, 'Symbols'),
      found.root,
      place,
    ),
    el(
      'section',
      { 'aria-labelledby': 'days-title' },
      el('h2', { id: 'days-title' }, 'Coverage by day'),
      Object.keys(manifest.days).length === 0
        ? el('p', { class: 'empty' }, 'The archive has no day yet.')
        : el('p', { class: 'note' }, 'Choose a day for its files. With the keyboard: arrows, Home and End.'),
      days.root,
      files,
    ),
    timeless === null
      ? ''
      : el('section', { 'aria-labelledby': 'files-title' }, el('h2', { id: 'files-title' }, 'Other files'), timeless),
  );
  days.root.hidden = Object.keys(manifest.days).length === 0;
  found.start();
  show(viewed());
}

key.onRefused((why) => {
  if (key.read() === null) return;
  key.forget();
  close(why);
});
onView((view) => show(view));
if (key.read() === null) close();
else {
  byId('key').hidden = true;
  void open();
}
