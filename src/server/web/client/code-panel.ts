import { apiKeyStore } from './api.ts';
import { createElement } from './dom.ts';
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
  const code = createElement('code', {}, text);
  const status = createElement('span', { class: 'note', role: 'status' });
  const copy = createElement('button', { type: 'button', class: 'copy' }, 'Copy');
  copy.addEventListener('click', async () => {
    // The clipboard requires https or this machine. Without it the code is selected, for the keyboard.
    const copied = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    );
    if (copied === true) status.textContent = 'Copied. ';
    else {
      getSelection()?.selectAllChildren(code);
      status.textContent = 'Selected: copy it with Ctrl+C. ';
    }
  });
  const choices = languages.map((name) =>
    createElement(
      'button',
      { type: 'button', 'aria-pressed': String(name === language), onclick: () => updateView({ code: name }) },
      languageLabels[name],
    ),
  );
  const hint = apiKeyStore.read() === null ? note : `The code reads the key from ODDSLAKE_KEY. ${note}`;
  return createElement(
    'section',
    { class: 'code', 'aria-label': `Code that loads ${what}` },
    createElement(
      'div',
      { class: 'code-head' },
      createElement('h4', { 'aria-level': 2 }, `Load ${what}`),
      createElement(
        'div',
        { class: 'code-tools' },
        createElement('div', { class: 'joined small', role: 'group', 'aria-label': 'Language' }, ...choices),
        copy,
      ),
    ),
    createElement(
      'pre',
      { tabindex: 0, 'aria-label': `${languageLabels[language]} code of ${what}`, role: 'region' },
      code,
    ),
    createElement('p', { class: 'note' }, status, hint),
  );
}
