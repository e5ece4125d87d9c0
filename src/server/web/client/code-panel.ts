import { apiKeyStore } from './api.ts';
import { copyText, html } from './dom.ts';
import { updateView } from './navigation.ts';
import { formatSnippet, languageLabels, type Selection } from './snippets.ts';
import { type LanguageName, languages } from './symbol-state.ts';

/**
 * Renders the code that loads a selection, with a button for each language and one that copies.
 * @param what the rows in words, for the heading
 */
export function renderCode(what: string, selection: Selection, language: LanguageName, note = ''): HTMLElement {
  const text = formatSnippet(language, selection, {
    origin: location.origin,
    isKeyRequired: apiKeyStore.read() !== null,
  });
  const code = html`<code>${text}</code>`;
  const status = html`<span class="note" role="status"></span>`;
  const copy = async (): Promise<void> => {
    const isCopied = await copyText(text);
    // For the keyboard.
    if (!isCopied) getSelection()?.selectAllChildren(code);
    status.textContent = isCopied ? 'Copied. ' : 'Selected: copy it with Ctrl+C. ';
  };
  const choices = languages.map(
    (name) => html`
      <button type="button" aria-pressed=${String(name === language)} @click=${() => updateView({ code: name })}>
        ${languageLabels[name]}
      </button>`,
  );
  const hint = apiKeyStore.read() === null ? note : `The code reads the key from ODDSLAKE_KEY. ${note}`;
  return html`
    <section class="code" aria-label=${`Code that loads ${what}`}>
      <div class="code-head">
        <h4 aria-level="2">Load ${what}</h4>
        <div class="code-tools">
          <div class="joined small" role="group" aria-label="Language">${choices}</div>
          <button type="button" class="copy" @click=${copy}>Copy</button>
        </div>
      </div>
      <pre tabindex="0" aria-label=${`${languageLabels[language]} code of ${what}`} role="region">${code}</pre>
      <p class="note">${status}${hint}</p>
    </section>`;
}
