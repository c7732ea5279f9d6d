/**
 * Debian's chromium, in a network namespace that has loopback and nothing else: what a page asks
 * of the outside cannot leave. Its files are a Debian of its own in the cache; nothing is
 * installed.
 */

import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { createNamespace, DIE_WITH_PARENT, type Namespace, relay } from '../netns/namespace.ts';
import { debianRoot } from '../server/debian-root.ts';

/** The browser without a window, and the fonts of the pages and of code. */
const PACKAGES = ['chromium-headless-shell', 'fonts-inter', 'fonts-dejavu-core'];
const PROGRAM = '/usr/lib/chromium/chromium-headless-shell';

/** Its mounts, its profile among them, are gone when it ends. */
const IN_ITS_ROOT = `
  root=$1; shift
  mount --bind -o ro "$root" "$root"
  mount --rbind /dev "$root/dev"
  mount -t proc proc "$root/proc"
  for folder in tmp root run; do mount -t tmpfs tmpfs "$root/$folder"; done
  exec chroot "$root" ${PROGRAM} "$@"`;

/** The folder of the browser's files: half a second of apt's, where the cache has it. */
export const browserFiles = (): Promise<string> => debianRoot(PACKAGES);

export interface ConfinedBrowser {
  readonly browser: Browser;
  /** `http://127.0.0.1:PORT`, where the server is whose Unix socket was given. */
  readonly origin: string;
  readonly namespace: Namespace;
  close(): Promise<void>;
}

/**
 * Starts it. Needs root; the first time on a machine a minute, to make the Debian.
 *
 * @param socket of the server that the pages come from
 * @param port of loopback where the browser finds it
 * @param files of {@link browserFiles}, for a test that starts several
 */
export async function startBrowser(socket: string, port = 8001, files?: string): Promise<ConfinedBrowser> {
  const root = files ?? (await browserFiles());
  const namespace = await createNamespace('browser');
  const folder = await mkdtemp(join(tmpdir(), 'nodewall-browser-'));
  try {
    await namespace.run(['ip', 'link', 'set', 'lo', 'up']);
    await relay(namespace, { host: '127.0.0.1', port }, { path: socket });
    const executablePath = join(folder, 'chromium');
    await writeFile(executablePath, launcher(namespace, root));
    await chmod(executablePath, 0o755);
    const browser = await chromium.launch({ executablePath, chromiumSandbox: false });
    return {
      browser,
      namespace,
      origin: `http://127.0.0.1:${port}`,
      async close() {
        await browser.close();
        await namespace.close();
        await rm(folder, { recursive: true });
      },
    };
  } catch (error) {
    await namespace.close();
    await rm(folder, { recursive: true });
    throw error;
  }
}

/** Playwright starts a file, and talks to it by descriptors 3 and 4. */
function launcher(namespace: Namespace, root: string): string {
  const confined = [
    'unshare',
    '--mount',
    '--pid',
    '--fork',
    '--kill-child',
    '--propagation',
    'private',
    '--',
  ];
  const argv = ['setpriv', ...DIE_WITH_PARENT, ...namespace.command(confined), 'sh', '-ec', IN_ITS_ROOT];
  const words = [...argv, 'sh', root].map((word) => `'${word.replaceAll("'", "'\\''")}'`);
  return `#!/bin/sh\nexec ${words.join(' ')} "$@"\n`;
}

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
