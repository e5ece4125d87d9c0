import { createElement } from './dom.ts';
import { formatTime } from './format.ts';
import { scaleRange, shiftRange } from './lines.ts';
import { updateView } from './navigation.ts';
import { defaultSpan, type SpanName, spans } from './symbol-state.ts';
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

/** Controls of the chart type, the price axis and the range. All of them can be used with the keyboard. */
export function renderRangeControls(view: View, range: TimeRange, bounds: TimeRange): HTMLElement {
  const button = (label: string, pressed: boolean | null, act: () => void, name: string | null = null): HTMLElement =>
    createElement(
      'button',
      { type: 'button', 'aria-pressed': pressed === null ? null : String(pressed), 'aria-label': name, onclick: act },
      label,
    );
  const group = (label: string, ...buttons: HTMLElement[]): HTMLElement =>
    createElement('div', { class: 'joined', role: 'group', 'aria-label': label }, ...buttons);
  const showRange = (next: TimeRange) => () => updateView({ range: next, span: undefined });
  const current = findSpan(view, bounds);
  return createElement(
    'div',
    { class: 'controls' },
    group(
      'Chart type',
      button('Price', view.chart === 'price', () => updateView({ chart: 'price' })),
      button('Candles', view.chart === 'candles', () => updateView({ chart: 'candles' })),
    ),
    group(
      'Price axis',
      button('Fit', view.scale === undefined, () => updateView({ scale: undefined }), 'Fit the axis to the prices'),
      button('0–1', view.scale === 'unit', () => updateView({ scale: 'unit' }), 'Axis from 0 to 1'),
    ),
    group(
      'Range',
      ...spans.map(({ name, label, ms }) => {
        const one = button(label, name === current, () => updateView({ range: null, span: name }));
        // A span longer than the lifetime would be the same as All.
        (one as HTMLButtonElement).disabled = name !== 'all' && ms >= bounds.to - bounds.from;
        return one;
      }),
    ),
    group(
      'Move and zoom',
      button('‹', null, showRange(shiftRange(range, -0.5, bounds)), 'Earlier'),
      button('›', null, showRange(shiftRange(range, 0.5, bounds)), 'Later'),
      button('+', null, showRange(scaleRange(range, 0.5, bounds)), 'Zoom in'),
      button('−', null, showRange(scaleRange(range, 2, bounds)), 'Zoom out'),
    ),
    renderExactRange(range),
  );
}

/** Inputs for the exact range, in UTC. They are texts, as a browser formats its date fields by its own language. */
function renderExactRange(range: TimeRange): HTMLElement {
  const field = (id: string, label: string, t: number): [HTMLElement, HTMLInputElement] => {
    const input = createElement('input', {
      id,
      type: 'text',
      required: true,
      maxlength: 24,
      autocomplete: 'off',
      spellcheck: 'false',
      placeholder: 'YYYY-MM-DD HH:MM',
      value: formatTime(t),
    });
    return [createElement('label', { for: id }, label), input];
  };
  const [fromLabel, from] = field('range-from', 'From (UTC)', Math.floor(range.from / 1000) * 1000);
  const [toLabel, to] = field('range-to', 'To (UTC)', Math.ceil(range.to / 1000) * 1000);
  const form = createElement(
    'form',
    { class: 'exact' },
    createElement('span', {}, fromLabel, from),
    createElement('span', {}, toLabel, to),
    createElement('button', { type: 'submit' }, 'Show'),
  );
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
