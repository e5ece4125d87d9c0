import { apiKeyStore, endSession, exchangeOneTimeKey, isCataloguePublic, toErrorMessage } from './api.ts';
import { getElementById, html, renderError } from './dom.ts';

/** Removes a one-time key from the address, so that neither the history nor a copied link has it; null without one. */
export function takeOneTimeKey(): string | null {
  const key = new URLSearchParams(location.hash.slice(1)).get('sign-in');
  if (key !== null) history.replaceState(null, '', location.pathname);
  return key;
}

/** Signs in with the key of a link. @returns why it failed; null if the tab is signed in */
export async function signInByLink(oneTimeKey: string): Promise<string | null> {
  try {
    apiKeyStore.keep(await exchangeOneTimeKey(oneTimeKey));
    return null;
  } catch (error) {
    return toErrorMessage(error);
  }
}

/** Renders the form to sign in, with the reason if a key was rejected. Calls `onKey` when a key is entered. */
export function showSignInForm(onKey: () => void, why: string | null = null): void {
  getElementById('key-state').replaceChildren();
  const input = html<HTMLInputElement>`
    <input id="key-input" type="password" autocomplete="off" autocapitalize="off" spellcheck="false" required
      maxlength="4096" aria-describedby="key-note">`;
  // Neither the field nor the form has a name or target, so that the key can never be in a URL.
  const form = html`
    <form class="key-form">
      <label for="key-input">Market data key</label>
      <div class="joined">
        ${input}
        <button type="submit" class="primary">Sign in</button>
      </div>
      <p id="key-note" class="note">The key is stored for this tab only, until you close the tab or sign out. To create one: <code>oddslake keys create --name NAME</code></p>
    </form>`;
  const message = html`<div>${why !== null && renderError(why)}</div>`;
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

/** Renders the state of the sign-in at the top of the page, and the button to sign out if the tab has a key. */
export function showSignedIn(onSignOut: () => void): void {
  const credential = apiKeyStore.read();
  const state = getElementById('key-state');
  if (credential === null) {
    state.replaceChildren(isCataloguePublic() ? html`<span class="access">Reading needs no key</span>` : '');
    return;
  }
  const button = html`<button type="button" class="quiet" id="sign-out">Sign out</button>`;
  button.addEventListener('click', () => {
    apiKeyStore.forget();
    void endSession(credential);
    onSignOut();
  });
  state.replaceChildren(button);
}
