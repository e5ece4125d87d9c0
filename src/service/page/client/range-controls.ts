import { createElement } from './dom.ts';
import { scaleRange, shiftRange } from './lines.ts';
import { updateView } from './navigation.ts';
import { parseTime, type TimeRange, type View } from './view.ts';

const dayMs = 86_400_000;
const presets = [
  { label: '1 day', ms: dayMs },
  { label: '7 days', ms: 7 * dayMs },
  { label: '30 days', ms: 30 * dayMs },
  { label: 'All', ms: Number.POSITIVE_INFINITY },
] as const;

/** What is drawn and of which stretch of `bounds`: every way of choosing it works without a mouse, too. */
export function renderRangeControls(kind: View['chart'], range: TimeRange, bounds: TimeRange): HTMLElement {
  const button = (label: string, pressed: boolean | null, act: () => void, name: string | null = null): HTMLElement =>
    createElement(
      'button',
      { type: 'button', 'aria-pressed': pressed === null ? null : String(pressed), 'aria-label': name, onclick: act },
      label,
    );
  const group = (label: string, ...buttons: HTMLElement[]): HTMLElement =>
    createElement('div', { class: 'joined', role: 'group', 'aria-label': label }, ...buttons);
  const shown = (next: TimeRange) => () => updateView({ range: next });
  return createElement(
    'div',
    { class: 'controls' },
    group(
      'Drawn as',
      button('Price', kind === 'price', () => updateView({ chart: 'price' })),
      button('Candles', kind === 'candles', () => updateView({ chart: 'candles' })),
    ),
    group(
      'Stretch',
      // Of a life of four days 7 and 30 would be the same as all of it.
      ...presets
        .filter(({ ms }) => ms < bounds.to - bounds.from || ms === Number.POSITIVE_INFINITY)
        .map(({ label, ms }) => {
          const stretch = { from: Math.max(bounds.from, bounds.to - ms), to: bounds.to };
          const same = stretch.from === range.from && stretch.to === range.to;
          return button(label, same, shown(stretch));
        }),
    ),
    group(
      'Move and zoom',
      button('‹', null, shown(shiftRange(range, -0.5, bounds)), 'Earlier'),
      button('›', null, shown(shiftRange(range, 0.5, bounds)), 'Later'),
      button('+', null, shown(scaleRange(range, 0.5, bounds)), 'Zoom in'),
      button('−', null, shown(scaleRange(range, 2, bounds)), 'Zoom out'),
    ),
    renderExactRange(range),
  );
}

/** From and to as they are typed, in UTC. */
function renderExactRange(range: TimeRange): HTMLElement {
  const field = (id: string, label: string, t: number): [HTMLElement, HTMLInputElement] => {
    const value = new Date(t).toISOString().slice(0, 19);
    const input = createElement('input', { id, type: 'datetime-local', step: 1, required: true, value });
    return [createElement('label', { for: id }, label), input];
  };
  const [fromLabel, from] = field('range-from', 'From (UTC)', range.from);
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
    const [start, end] = [parseTime(`${from.value}Z`), parseTime(`${to.value}Z`)];
    const good = start !== null && end !== null && start < end;
    to.setCustomValidity(good ? '' : 'It has to end after it starts.');
    if (good) updateView({ range: { from: start, to: end } });
    else to.reportValidity();
  });
  to.addEventListener('input', () => to.setCustomValidity(''));
  from.addEventListener('input', () => to.setCustomValidity(''));
  return form;
}
