import { shortenText } from '../../../base/format-quantity.ts';
import { fetchJson, isAbortError } from './api.ts';
import { html } from './dom.ts';
import { formatTime } from './format.ts';
import { scaleRange, shiftRange } from './lines.ts';
import { updateView } from './navigation.ts';
import { marketsPath } from './search.ts';
import { defaultSpan, type SpanName, spans } from './symbol-state.ts';
import type { Market } from './timeline.ts';
import { parseEnteredTime, type TimeRange, type View } from './view.ts';

/** The range of a view within the lifetime of a symbol. */
export function resolveRange({ range, span = defaultSpan }: View, bounds: TimeRange): TimeRange {
  if (range !== null) return range;
  const { ms } = spans.find(({ name }) => name === span)!;
  return { from: Math.max(bounds.from, bounds.to - ms), to: bounds.to };
}

/** The span that a view shows; null if its range was selected in another way. */
function findSpan({ range, span }: View, bounds: TimeRange): SpanName | null {
  if (range !== null) return null;
  const chosen = spans.find(({ name }) => name === (span ?? defaultSpan))!;
  return chosen.ms >= bounds.to - bounds.from ? 'all' : chosen.name;
}

/** Controls of the chart type, the price axis, the range and a second symbol. All of them can be used with the keyboard. */
export function renderRangeControls(symbol: string, view: View, range: TimeRange, bounds: TimeRange): HTMLElement {
  const button = (
    label: string,
    pressed: boolean | null,
    act: () => void,
    name: string | null = null,
    disabled = false,
  ) => html`
    <button type="button" aria-pressed=${pressed === null ? null : String(pressed)} aria-label=${name} disabled=${disabled} @click=${act}>
      ${label}
    </button>`;
  const group = (label: string, ...buttons: HTMLElement[]): HTMLElement =>
    html`<div class="joined" role="group" aria-label=${label}>${buttons}</div>`;
  const showRange = (next: TimeRange) => () => updateView({ range: next, span: undefined });
  const current = findSpan(view, bounds);
  return html`
    <div class="controls">
      ${group(
        'Chart type',
        button('Price', view.chart === 'price', () => updateView({ chart: 'price' })),
        button('Candles', view.chart === 'candles', () => updateView({ chart: 'candles' })),
      )}
      ${group(
        'Price axis',
        button('Fit', view.scale === undefined, () => updateView({ scale: undefined }), 'Fit the axis to the prices'),
        button('0–1', view.scale === 'unit', () => updateView({ scale: 'unit' }), 'Axis from 0 to 1'),
      )}
      ${group(
        'Range',
        ...spans.map(({ name, label, ms }) => {
          // A span longer than the lifetime would be the same as All.
          const isTooLong = name !== 'all' && ms >= bounds.to - bounds.from;
          return button(label, name === current, () => updateView({ range: null, span: name }), null, isTooLong);
        }),
      )}
      ${group(
        'Move and zoom',
        button('‹', null, showRange(shiftRange(range, -0.5, bounds)), 'Earlier'),
        button('›', null, showRange(shiftRange(range, 0.5, bounds)), 'Later'),
        button('+', null, showRange(scaleRange(range, 0.5, bounds)), 'Zoom in'),
        button('−', null, showRange(scaleRange(range, 2, bounds)), 'Zoom out'),
      )}
      ${renderExactRange(range)}
      ${renderCompareField(symbol, view.compare)}
    </div>`;
}

/** Inputs for the exact range, in UTC. They are texts, as a browser formats its date fields by its own language. */
function renderExactRange(range: TimeRange): HTMLElement {
  const renderField = (id: string, t: number) => html<HTMLInputElement>`
    <input id=${id} type="text" required maxlength="24" autocomplete="off" spellcheck="false"
      placeholder="YYYY-MM-DD HH:MM" value=${formatTime(t)}>`;
  const from = renderField('range-from', Math.floor(range.from / 1000) * 1000);
  const to = renderField('range-to', Math.ceil(range.to / 1000) * 1000);
  const form = html<HTMLFormElement>`
    <form class="exact">
      <span><label for="range-from">From (UTC)</label>${from}</span>
      <span><label for="range-to">To (UTC)</label>${to}</span>
      <button type="submit">Show</button>
    </form>`;
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const [start, end] = [parseEnteredTime(from.value), parseEnteredTime(to.value)];
    const how = 'Enter a time such as 2026-06-01 12:30.';
    from.setCustomValidity(start === null ? how : '');
    to.setCustomValidity(end === null ? how : start !== null && start >= end ? 'The end must be after the start.' : '');
    if (form.reportValidity()) updateView({ range: { from: start!, to: end! }, span: undefined });
  });
  for (const input of [from, to]) {
    input.addEventListener('input', () => {
      from.setCustomValidity('');
      to.setCustomValidity('');
    });
  }
  return form;
}

const suggestionsMax = 8;
const debounceMs = 200;
/** Maximum length of the words that the service searches. */
const wordsMax = 200;

/** Renders the field that adds a second symbol to the plot, with suggestions, or the button that removes it. */
function renderCompareField(symbol: string, compared: string | undefined): HTMLElement {
  const options = html`<datalist id="compare-options"></datalist>`;
  const input = html<HTMLInputElement>`
    <input id="compare" type="text" list="compare-options" autocomplete="off" spellcheck="false" maxlength="1000"
      placeholder="a symbol, or words" value=${compared ?? ''}>`;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let running = new AbortController();
  const suggest = async (): Promise<void> => {
    running.abort();
    running = new AbortController();
    const words = input.value.trim().slice(0, wordsMax);
    if (words === '') return options.replaceChildren();
    try {
      const query = { q: words, limit: suggestionsMax };
      const { markets } = await fetchJson<{ markets: readonly Market[] }>(marketsPath, query, running.signal);
      const others = markets.filter((one) => one.symbol !== null && one.symbol !== symbol);
      options.replaceChildren(
        ...others.map(
          (one) => html`<option value=${one.symbol} label=${shortenText(one.question ?? '', 80)}></option>`,
        ),
      );
    } catch (error) {
      // Without suggestions, a symbol can still be entered.
      if (!isAbortError(error)) options.replaceChildren();
    }
  };
  input.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(() => void suggest(), debounceMs);
  });
  const remove = html`<button type="button" @click=${() => updateView({ compare: undefined })}>Remove</button>`;
  const form = html`
    <form class="compare">
      <label for="compare">Compare with</label>
      ${input}${options}
      <button type="submit" aria-label="Add to the plot">Add</button>
      ${compared !== undefined && remove}
    </form>`;
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const other = input.value.trim();
    updateView({ compare: other === '' || other === symbol ? undefined : other });
  });
  return form;
}
