import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { CONSOLE_PATH } from '../../apis/console.ts';
import { type ConfinedBrowser, startBrowser } from './browser.ts';
import { type Documents, FakeConsole, sampleDocuments } from './fake-console.ts';

/** Runs in each document before its own scripts. */
const COUNT_VIOLATIONS = `
  globalThis.violations = [];
  addEventListener('securitypolicyviolation', ({ violatedDirective, sourceFile, sample }) =>
    violations.push([violatedDirective, sourceFile, sample].join(' ')));`;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** A page, and what went wrong in it. */
export interface OpenPage {
  readonly page: Page;
  /** Errors of scripts, what the page wrote to the browser's log, and violations of the policy. */
  problems(): Promise<readonly string[]>;
  /** Goes to a place of the console: `in-force?view=grid`. */
  go(place: string): Promise<void>;
  /** What axe-core finds wrong on the page, as text: by all rules, or by these. */
  axe(rules?: readonly string[]): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** A browser, and a console that it can ask. */
export class PageBed {
  readonly fake: FakeConsole;
  readonly #browser: ConfinedBrowser;

  private constructor(fake: FakeConsole, browser: ConfinedBrowser) {
    this.fake = fake;
    this.#browser = browser;
  }

  static async start(documents: Documents = sampleDocuments()): Promise<PageBed> {
    const fake = await FakeConsole.start(documents);
    try {
      return new PageBed(fake, await startBrowser(fake.socket));
    } catch (error) {
      await fake.close();
      throw error;
    }
  }

  get address(): string {
    return `${this.#browser.origin}${CONSOLE_PATH}/index.html`;
  }

  async open(place = '', options: BrowserContextOptions = {}): Promise<OpenPage> {
    const viewport = { width: 1280, height: 800 };
    const context = await this.#browser.browser.newContext({ viewport, timezoneId: 'UTC', ...options });
    await context.addInitScript({ content: COUNT_VIOLATIONS });
    await context.addInitScript({ content: AXE });
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    const problems: string[] = [];
    page.on('pageerror', ({ message }) => problems.push(`error: ${message}`));
    page.on('console', (message) => problems.push(`${message.type()}: ${message.text()}`));
    page.on('dialog', (dialog) => problems.push(`dialog: ${dialog.message()}`));
    page.on('request', (request) => {
      if (!request.url().startsWith(this.#browser.origin)) problems.push(`request: ${request.url()}`);
    });
    const go = async (there: string): Promise<void> => {
      await page.goto(`${this.address}${there === '' ? '' : `#/${there}`}`);
      await page.locator('h1').waitFor();
    };
    await go(place);
    return {
      page,
      go,
      problems: async () => [...problems, ...(await page.evaluate<string[]>('violations'))],
      axe: (rules) => page.evaluate<string[]>(runAxe(rules)),
      close: () => context.close(),
    };
  }

  async close(): Promise<void> {
    await this.#browser.close();
    await this.fake.close();
  }
}

/** Otherwise all of its rules, those of good practice too. */
const runAxe = (rules?: readonly string[]): string => `axe.run(document, {
  resultTypes: ['violations'],
  ${rules === undefined ? '' : `runOnly: ${JSON.stringify(rules)},`}
}).then(({ violations: found }) =>
  found.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) =>
    [id, JSON.stringify(target), failureSummary].join(' '))))`;
