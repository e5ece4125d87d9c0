import { fetchJson, isAbortError } from './api.ts';
import { html } from './dom.ts';
import { truncateText } from './format.ts';
import { updateView } from './navigation.ts';
import { marketsPath } from './search.ts';
import type { Market } from './timeline.ts';

const suggestionsMax = 8;
const debounceMs = 200;
/** Maximum length of the words that the service searches. */
const wordsMax = 200;

/** Renders the field that adds a second symbol to the plot, with suggestions, or the button that removes it. */
export function renderCompareField(symbol: string, compared: string | undefined): HTMLElement {
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
          (one) => html`<option value=${one.symbol} label=${truncateText(one.question ?? '', 80)}></option>`,
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
