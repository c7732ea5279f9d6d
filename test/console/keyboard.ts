import type { Page } from 'playwright-core';

/** Through the shadow trees of the console's elements. */
const FOCUSED = `(() => {
  let element = document.activeElement;
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  return element?.textContent ?? '';
})()`;
/** More than a page has before its last link. */
const MOST_STEPS = 200;

/** The text of what has the focus. */
export async function focusedText(page: Page): Promise<string> {
  return (await page.evaluate<string>(FOCUSED)).trim();
}

/** Follows the link of this name: by Shift+Tab, and Enter. */
export async function goByKeyboard(page: Page, name: string): Promise<void> {
  for (let i = 0; i < MOST_STEPS; i++) {
    await page.keyboard.press('Shift+Tab');
    if ((await focusedText(page)) !== name) continue;
    await page.keyboard.press('Enter');
    return;
  }
  throw new Error(`Tab does not come to the link ${name}`);
}
